/* Worlds of threads. */
#include "collective/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"
#include "collective/given.h"
#include "collective/servers/assist.h"
#include "collective/servers/serve.h"
#include "collective/link/tcp.h"
#include "collective/link/shm.h"

/* ---- a link that moves few bytes, or breaks ---- */

struct odd_link {
    struct ls_link link;
    struct ls_link *inner;
    unsigned turn;
    size_t budget;      /* bytes until it breaks; SIZE_MAX: never */
    bool small, stalls; /* without its budget it takes nothing more, where it would break */
    size_t *sent;       /* NULL: not counted */
};

static size_t portion(struct odd_link *odd) {
    static const size_t sizes[] = {1, 3, 143, 7, 5, 1021, 13, 2, 20011};
    return sizes[odd->turn++ % (sizeof(sizes) / sizeof(sizes[0]))];
}

static struct pollfd slot_of(struct odd_link *odd, short events) {
    struct pollfd slot;
    (void)odd->inner->ops->poll(odd->inner, events, &slot);
    return slot;
}

static ssize_t move_out(struct odd_link *odd, const struct iovec *pieces, int count) {
    if (!odd->budget && odd->stalls) return 0;
    if (!odd->budget) {
        (void)shutdown(slot_of(odd, 0).fd, SHUT_RDWR);
        errno = EPIPE;
        return -1;
    }
    if (!odd->small && odd->budget == SIZE_MAX) return odd->inner->ops->send(odd->inner, pieces, count);
    size_t limit = odd->small ? portion(odd) : odd->budget;
    struct iovec piece = pieces[0];
    if (piece.iov_len > limit) piece.iov_len = limit;
    if (piece.iov_len > odd->budget) piece.iov_len = odd->budget;
    ssize_t sent = odd->inner->ops->send(odd->inner, &piece, 1);
    if (sent > 0 && odd->budget != SIZE_MAX) odd->budget -= (size_t)sent;
    return sent;
}

static ssize_t odd_send(struct ls_link *link, const struct iovec *pieces, int count) {
    struct odd_link *odd = (struct odd_link *)link;
    ssize_t sent = move_out(odd, pieces, count);
    if (sent > 0 && odd->sent) *odd->sent += (size_t)sent;
    return sent;
}

static ssize_t odd_receive(struct ls_link *link, void *data, size_t size) {
    struct odd_link *odd = (struct odd_link *)link;
    size_t limit = odd->small ? portion(odd) : size;
    return odd->inner->ops->receive(odd->inner, data, size < limit ? size : limit);
}

static bool odd_poll(struct ls_link *link, short events, struct pollfd *slot) {
    struct odd_link *odd = (struct odd_link *)link;
    return odd->inner->ops->poll(odd->inner, events, slot);
}

static void odd_close(struct ls_link *link) {
    struct odd_link *odd = (struct odd_link *)link;
    odd->inner->ops->close(odd->inner);
    free(odd);
}

static const struct ls_link_ops odd_ops = {"odd", odd_send, odd_receive, odd_poll, odd_close};

static struct ls_link *odd_new(struct ls_link *inner, bool small, size_t budget, size_t *sent) {
    struct odd_link *odd = calloc(1, sizeof(*odd));
    ck_assert_ptr_nonnull(odd);
    *odd = (struct odd_link){.link = {&odd_ops}, .inner = inner, .budget = budget, .small = small, .sent = sent};
    return &odd->link;
}

/* ---- links between all ---- */

static void tcp_pair(struct ls_link *ends[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(server, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(server, 1), 0);
    ck_assert_int_eq(getsockname(server, (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, size), 0);
    int accepted = accept(server, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    (void)close(server);
    assert_ok(ls_tcp_link_new(client, &ends[0]));
    assert_ok(ls_tcp_link_new(accepted, &ends[1]));
}

static void share_rings(struct ls_link *ends[2]) {
    unsigned char address[LS_SHM_LINK_ADDRESS];
    struct ls_shm_link *one = ls_shm_link_offer(address), *other = one ? ls_shm_link_accept(address) : NULL;
    ck_assert_ptr_nonnull(other);
    ends[0] = ls_shm_link_connect(one, ends[0]);
    ends[1] = ls_shm_link_connect(other, ends[1]);
}

static void join_pair(const struct world_options *options, struct ls_link *links[MAX_RANKS][MAX_RANKS], int a, int b) {
    struct ls_link *ends[2];
    if (options->wire == WIRE_TCP)
        tcp_pair(ends);
    else
        local_pair(ends);
    if (options->wire == WIRE_RING) share_rings(ends);
    int ranks[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        bool breaks = options->break_after && ranks[i] == options->break_rank;
        size_t *sent = options->sent && !options->servers ? &options->sent[ranks[i]][ranks[1 - i]] : NULL;
        if (options->wire == WIRE_ODD || breaks || sent)
            ends[i] = odd_new(ends[i], options->wire == WIRE_ODD, breaks ? options->break_after : SIZE_MAX, sent);
        if (breaks) ((struct odd_link *)ends[i])->stalls = options->stalls;
    }
    links[a][b] = ends[0];
    links[b][a] = ends[1];
}

/* A one-way link a pair and direction: to each rank, then from each. */
static void join_mail(const struct world_options *options, struct ls_link *mail[MAX_RANKS][2 * MAX_RANKS]) {
    struct ls_link *ends[MAX_RANKS][MAX_RANKS];
    for (int from = 0; from < options->size; from++) {
        for (int to = 0; to < options->size; to++) {
            if (from == to) continue;
            join_pair(options, ends, from, to);
            mail[from][to] = ends[from][to];
            mail[to][options->size + from] = ends[to][from];
        }
    }
}

/* ---- threads ---- */

/* Everybody's abort flag, where a loss is everybody's. */
struct flags {
    struct ls_abort *aborts[MAX_RANKS];
    int count;
};

static void lose_rank(const struct flags *flags, int rank) {
    char text[64];
    (void)snprintf(text, sizeof(text), "rank %d was lost", rank);
    for (int i = 0; flags && i < flags->count; i++) ls_abort_raise(flags->aborts[i], LS_UNAVAILABLE, text);
}

struct start {
    rank_fn *fn;
    bool connect;
    struct rank *rank;
    const struct flags *flags; /* NULL: a loss is its own */
};

static void *rank_main(void *argument) {
    struct start *start = argument;
    if (start->connect) start->rank->status = ls_group_connect(start->rank->group);
    if (!start->rank->status) start->rank->status = start->fn(start->rank);
    (void)snprintf(start->rank->error, sizeof(start->rank->error), "%s", ls_error());
    if (start->rank->status) lose_rank(start->flags, start->rank->rank);
    return NULL;
}

/* The control plane, which world_run stands for: the others hear that a call has failed, and why. A loss is for the
 * links to tell. */
static void tell_others(void *context, ls_status status, bool own) {
    struct rank *rank = context, *ranks = rank - rank->rank;
    char text[1024];
    (void)ls_abort_status(rank->abort);
    if (status == LS_UNAVAILABLE || (!own && strncmp(ls_error(), "rank ", 5) == 0)) return; /* it is an echo */
    (void)snprintf(text, sizeof(text), "rank %d: %.1000s", rank->rank, ls_error());
    for (int i = 0; i < rank->size; i++)
        if (i != rank->rank) ls_abort_raise(ranks[i].abort, status, text);
}

static void make_rank(const struct world_options *options, struct ls_link **links, struct ls_link **mail, int i,
                      struct rank *rank) {
    assert_ok(ls_abort_new(&rank->abort));
    struct ls_group_config config = {.rank = i,
                                     .size = options->size,
                                     .source = options->size > 1 ? given_links(links, options->size) : NULL,
                                     .mail = options->mail && options->size > 1 ? given_links(mail, 2 * options->size)
                                                                                : NULL,
                                     .abort = rank->abort,
                                     .log = options->log,
                                     .generation = 7,
                                     .timeout = limit_of(options->timeout > 0 ? options->timeout : 20),
                                     .report_interval = options->report_interval,
                                     .transport = options->transport,
                                     .algorithm = options->algorithm,
                                     .mail_limit = options->mail_limit,
                                     .segment = options->segment,
                                     .hooks = {.failed = options->tells ? tell_others : NULL, .context = rank},
                                     .pretended_host = options->hosts ? options->hosts[i] : 0};
    if (options->stray_transport && options->stray_rank == i) config.transport = options->stray_transport;
    if (options->stray_generation && options->stray_rank == i) config.generation = options->stray_generation;
    assert_ok(ls_group_new(&config, &rank->group));
}

/* ---- parameter servers ---- */

struct servers {
    struct ls_group *groups[MAX_RANKS];
    struct ls_abort *aborts[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    ls_status ends[MAX_RANKS];
    char errors[MAX_RANKS][1024];
    atomic_bool over;
    const struct flags *flags;
};
struct server {
    struct servers *servers;
    int rank;
    const struct ls_keeping *keeping;
};

static ls_status watch_workers(void *context) {
    struct servers *servers = context;
    return atomic_load(&servers->over) ? ls_fail(LS_CANCELLED, "the workers have finished") : LS_OK;
}

static void *server_main(void *argument) {
    struct server *server = argument;
    struct servers *servers = server->servers;
    servers->ends[server->rank] =
        ls_group_serve(servers->groups[server->rank], watch_workers, servers, server->keeping);
    (void)snprintf(servers->errors[server->rank], sizeof(servers->errors[0]), "%s", ls_error());
    if (servers->ends[server->rank] != LS_CANCELLED) lose_rank(servers->flags, server->rank);
    return NULL;
}

/* A second group of all, with links of its own. */
static void make_servers(const struct world_options *options, struct world *world, struct servers *servers) {
    struct ls_link *links[MAX_RANKS][MAX_RANKS] = {0}, *mail[MAX_RANKS][2 * MAX_RANKS] = {0};
    struct world_options wide = *options;
    wide.size = options->size + options->servers;
    wide.servers = 0;
    wide.break_after = options->help_breaks_after;
    for (int a = 0; a < wide.size; a++)
        for (int b = a + 1; b < wide.size; b++) join_pair(&wide, links, a, b);
    if (wide.mail) join_mail(&wide, mail);
    for (int i = 0; i < wide.size; i++) {
        bool serves = i >= options->size;
        if (serves) assert_ok(ls_abort_new(&servers->aborts[i]));
        const struct ls_group_config config = {.rank = i,
                                               .size = wide.size,
                                               .servers = options->servers,
                                               .source = given_links(links[i], wide.size),
                                               .mail = wide.mail ? given_links(mail[i], 2 * wide.size) : NULL,
                                               .abort = serves ? servers->aborts[i] : world->ranks[i].abort,
                                               .log = options->log,
                                               .generation = 7,
                                               .timeout = limit_of(options->timeout > 0 ? options->timeout : 20),
                                               .report_interval = options->report_interval,
                                               .segment = options->segment};
        assert_ok(ls_group_new(&config, &servers->groups[i]));
        if (!serves) assert_ok(ls_group_assist(world->ranks[i].group, servers->groups[i], &ls_assist_ops));
    }
}

static void end_servers(const struct world_options *options, struct servers *servers) {
    atomic_store(&servers->over, true);
    for (int i = options->size; i < options->size + options->servers; i++) {
        (void)pthread_join(servers->threads[i], NULL);
        ck_assert_msg(servers->ends[i] == LS_CANCELLED || options->servers_fail || options->loses, "server %d: %s", i,
                      servers->errors[i]);
        ls_group_free(servers->groups[i]);
        ls_abort_free(servers->aborts[i]);
    }
}

void world_run(const struct world_options *options, rank_fn *fn, void *context, struct world *world) {
    struct servers servers = {.over = false};
    struct flags flags = {.count = options->size + options->servers};
    struct server ranks[MAX_RANKS];
    struct ls_link *links[MAX_RANKS][MAX_RANKS] = {0}, *mail[MAX_RANKS][2 * MAX_RANKS] = {0};
    struct start starts[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    pthread_barrier_t barrier;
    int size = options->size;
    *world = (struct world){0};
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, (unsigned)size), 0);
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) join_pair(options, links, a, b);
    if (options->mail) join_mail(options, mail);
    for (int i = 0; i < size; i++) {
        struct rank *rank = &world->ranks[i];
        *rank = (struct rank){.rank = i, .size = size, .context = context, .barrier = &barrier};
        make_rank(options, links[i], mail[i], i, rank);
        starts[i] = (struct start){fn, options->wire == WIRE_SHARED, rank, options->loses ? &flags : NULL};
        flags.aborts[i] = rank->abort;
    }
    if (options->servers) make_servers(options, world, &servers);
    if (options->loses) servers.flags = &flags;
    for (int i = size; i < size + options->servers; i++) flags.aborts[i] = servers.aborts[i];
    for (int i = size; i < size + options->servers; i++) {
        ranks[i] = (struct server){&servers, i, options->keeping ? &options->keeping[i - size] : NULL};
        assert_ok(ls_thread_start(&servers.threads[i], "server", server_main, &ranks[i]));
    }
    for (int i = 0; i < size; i++) assert_ok(ls_thread_start(&threads[i], "rank", rank_main, &starts[i]));
    for (int i = 0; i < size; i++) (void)pthread_join(threads[i], NULL);
    end_servers(options, &servers);
    for (int i = 0; i < size; i++) {
        ls_group_free(world->ranks[i].group);
        ls_abort_free(world->ranks[i].abort);
    }
    (void)pthread_barrier_destroy(&barrier);
}

void world_expect_ok(const struct world *world, int size) {
    for (int i = 0; i < size; i++) ck_assert_msg(!world->ranks[i].status, "rank %d: %s", i, world->ranks[i].error);
}
