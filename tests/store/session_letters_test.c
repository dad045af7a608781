/* Letters of asynchronous training that are not their sender's to send, and its waits: a server or worker that gets
 * such a letter refuses it, all end with the cause and the rank it came from, and nothing is applied twice. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "collective/collectives.h"
#include "collective/world.h"
#include "device/device.h"
#include "store/keeper.h"
#include "store/session/session_worker.h"
#include "store/store.h"
#include "shard/layout.h"
#include "store/session/tickets.h"

enum { COUNT = 96, STATISTICS = 1, NUMBERS = 1, WORKERS = 2, MOST_SERVERS = 3, ROGUE = 1, TICKETS = 4 };

static const struct ls_session session = {.model = 1,
                                          .tickets = TICKETS,
                                          .staleness = -1,
                                          .statistics = STATISTICS,
                                          .numbers = NUMBERS,
                                          .step = {.rule = {LS_OPTIMIZER_SGD, 0.1F}}};

/* A letter of the rogue worker. */
struct bad {
    const char *what;
    int server; /* to which */
    struct ls_session_head head;
    bool granted; /* it has a ticket, whose number is added to the head's */
    int times;
    int bytes; /* behind the head; -1: as a push has */
};

struct trial {
    const struct bad *bad;
    struct ls_session session;
    int servers;
    enum ls_session_kind twice; /* of such letters a rogue server sends two */
    int silent;                 /* this one sends none */
    struct ls_keeper *keepers[MOST_SERVERS];
    atomic_bool told;
    char line[256];
};

static struct ls_range bucket = {0, COUNT};
static struct ls_blob_part part = {.count = COUNT};
static const struct ls_terms_model terms = {.model = 1,
                                            .count = COUNT,
                                            .buckets = &bucket,
                                            .bucket_count = 1,
                                            .parts = &part,
                                            .part_count = 1,
                                            .replicas = 1,
                                            .kind = LS_OP_SGD,
                                            .asynchronous = true};

static size_t bytes_of(int servers, int server) {
    const struct ls_layout layout = ls_layout_of(&terms, servers);
    struct ls_range range = ls_layout_range(&layout, 0, server);
    return (range.end - range.begin) * sizeof(float);
}

static ls_status open_worker(struct rank *rank, float *variables, struct ls_store **store,
                             struct ls_session_worker **worker) {
    struct trial *trial = rank->context;
    const struct ls_store_config config = {
        .group = ls_group_assisted(rank->group), .terms = terms, .generation = 1, .variables = variables};
    ls_status status = ls_store_open(&config, store);
    if (status) return status;
    const struct ls_session_worker_config made = {ls_store_group(*store), ls_store_terms(*store), &trial->session,
                                                  variables};
    return ls_session_worker_new(&made, worker);
}

static ls_status send_bad(struct ls_post *post, const struct bad *bad, int64_t ticket, int servers) {
    struct ls_session_head head = bad->head;
    unsigned char bytes[LS_POST_HEAD];
    ls_status status = LS_OK;
    size_t push = bytes_of(servers, bad->server) + STATISTICS * sizeof(float) + NUMBERS * sizeof(double) +
                  (bad->server ? 0 : (size_t)servers * sizeof(int64_t));
    size_t size = bad->bytes < 0 ? push : (size_t)bad->bytes;
    head.ticket += ticket;
    ls_session_head_encode(&head, bytes);
    for (int i = 0; i < bad->times && !status; i++) {
        void *body = ls_alloc(size + 1);
        ck_assert_ptr_nonnull(body);
        status = ls_post_send(post, WORKERS + bad->server, bytes, body, size);
    }
    return status;
}

/* Sends its letter, and hears what comes of it. */
static ls_status be_rogue(const struct trial *trial, struct ls_group *group, struct ls_session_worker *worker) {
    struct ls_post *post = NULL;
    int64_t ticket = 0;
    if (trial->bad->granted) assert_ok(ls_session_worker_take(worker, &ticket));
    assert_ok(ls_post_new(group, "asynchronous training", &post));
    ls_status status = send_bad(post, trial->bad, ticket, trial->servers);
    for (bool heard = false; !status && !heard;) {
        struct ls_letter letter = {0};
        struct ls_session_head head;
        status = ls_post_await(post, "an answer", &letter);
        if (!status) assert_ok(ls_session_head_decode(letter.bytes, &trial->session, WORKERS + trial->servers, &head));
        heard = !status && head.kind == LS_SESSION_FAILED;
        if (heard) status = ls_session_failure(&letter);
        ls_free(letter.bytes);
    }
    ls_post_free(post);
    return status;
}

/* Takes a ticket, and waits for the news that nothing comes of it. */
static ls_status wait_for_end(struct ls_session_worker *worker) {
    int64_t ticket;
    ls_status status = ls_session_worker_take(worker, &ticket);
    return status ? status : ls_session_worker_take(worker, &ticket);
}

/* Trains to the session's end. */
static ls_status be_honest(struct ls_session_worker *worker) {
    static const float gradients[COUNT + STATISTICS];
    static const double numbers[NUMBERS];
    int64_t ticket = 0;
    ls_status status = ls_session_worker_take(worker, &ticket);
    while (!status && ticket != LS_NO_TICKET) {
        status = ls_session_worker_give(worker, 0.1F, gradients, numbers, false);
        if (!status) status = ls_session_worker_take(worker, &ticket);
    }
    return status;
}

/* The honest worker pushes nothing: the servers stand at the session's begin. */
static ls_status work(struct rank *rank) {
    struct trial *trial = rank->context;
    struct ls_store *store = NULL;
    struct ls_session_worker *worker = NULL;
    float variables[COUNT + STATISTICS] = {0};
    ls_status status = open_worker(rank, variables, &store, &worker);
    if (!status && rank->rank == ROGUE)
        status = be_rogue(trial, ls_store_group(store), worker);
    else if (!status)
        status = wait_for_end(worker);
    (void)pthread_barrier_wait(rank->barrier); /* who ends is lost */
    ls_session_worker_free(worker);
    ls_store_free(store);
    return status;
}

static void run_world(struct trial *trial, int workers, rank_fn *fn, const struct ls_keeping *keeping,
                      struct world *world) {
    const struct world_options options = {.size = workers,
                                          .servers = trial->servers,
                                          .keeping = keeping,
                                          .mail = true,
                                          .servers_fail = true,
                                          .loses = trial->bad || trial->twice,
                                          .report_interval = 0.05};
    world_run(&options, fn, trial, world);
}

static void open_keepers(struct trial *trial, const struct ls_log *log, struct ls_keeping *keeping) {
    for (int i = 0; i < trial->servers; i++) {
        assert_ok(ls_keeper_new(log, &trial->keepers[i]));
        ls_keeper_begin(trial->keepers[i], 1, trial->servers);
        keeping[i] = (struct ls_keeping){ls_keeper_call, trial->keepers[i]};
    }
}

static void close_keepers(struct trial *trial) {
    for (int i = 0; i < trial->servers; i++) ls_keeper_free(trial->keepers[i]);
}

static const struct bad bads[] = {
    {"asks twice", 0, {LS_SESSION_ASK, ROGUE, 0, -1, 0, 0, false}, true, 1, 0},
    {"asks twice while it waits", 0, {LS_SESSION_ASK, ROGUE, 0, -1, 0, 0, false}, false, TICKETS + 2, 0},
    {"asks a server that gives none", 1, {LS_SESSION_ASK, ROGUE, 0, -1, 0, 0, false}, false, 1, 0},
    {"pushes without a ticket", 0, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, 1, false}, false, 1, -1},
    {"pushes another's ticket", 0, {LS_SESSION_PUSH, ROGUE, 0, 1, 0, 1, false}, true, 1, -1},
    {"pushes no ticket", 1, {LS_SESSION_PUSH, ROGUE, 0, -1, 0, 1, false}, false, 1, -1},
    {"pushes the ticket after the last one", 1, {LS_SESSION_PUSH, ROGUE, 0, TICKETS, 0, 1, false}, false, 1, -1},
    {"pushes too little", 0, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, 1, false}, true, 1, 8},
    {"pushes nothing", 1, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, 1, false}, true, 1, 0},
    {"pushes too much", 1, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, 1, false}, true, 1, 4096},
    {"pushes twice", 1, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, 1, false}, true, 2, -1},
    {"pushes twice to the first", 0, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, 1, false}, true, 2, -1},
    {"has read what is not there", 0, {LS_SESSION_PUSH, ROGUE, 0, 0, 1, 1, false}, true, 1, -1},
    {"has read what is not there either", 1, {LS_SESSION_PUSH, ROGUE, 0, 0, 1, 1, false}, true, 1, -1},
    {"pulls while it pulls", 1, {LS_SESSION_PULL, ROGUE, 0, 0, 1, 0, false}, false, 2, 0},
    {"has pulled what no record says", 0, {LS_SESSION_PULLED, 0, 0, 0, 0, 0, false}, true, 1, 0},
    {"tells of a push", 0, {LS_SESSION_STAGED, ROGUE, 0, 0, 0, 0, false}, true, 1, 0},
    {"orders", 1, {LS_SESSION_ORDER, ROGUE, 0, 0, 1, 1, false}, true, 1, 0},
    {"ends the session", 1, {LS_SESSION_END, 0, 0, 0, 0, 0, false}, false, 1, 0},
    {"grants", 0, {LS_SESSION_GRANT, ROGUE, 0, 0, 0, 0, false}, false, 1, 0},
    {"tells of a failure", 0, {LS_SESSION_FAILED, ROGUE, 0, -1, 0, 0, false}, false, 1, 20},
    {"names no rank", 0, {LS_SESSION_ASK, 100, 0, -1, 0, 0, false}, false, 1, 0},
    {"is of another session", 1, {LS_SESSION_PULL, ROGUE, 1, 0, 1, 0, false}, false, 1, 0},
    {"is of a kind that is not", 1, {LS_SESSION_FAILED + 1, ROGUE, 0, 0, 0, 0, false}, false, 1, 0},
    {"has a negative rate", 0, {LS_SESSION_PUSH, ROGUE, 0, 0, 0, -1, false}, true, 1, -1},
};

TEST_EACH(a_workers_letters_are_judged, COUNT_OF(bads)) {
    const struct bad *bad = &bads[_i];
    struct trial trial = {.bad = bad, .session = session, .servers = 2};
    struct ls_log log = {.level = LS_LOG_ERROR};
    struct ls_keeping keeping[MOST_SERVERS];
    struct world world;
    open_keepers(&trial, &log, keeping);
    run_world(&trial, WORKERS, work, keeping, &world);
    char from[32];
    (void)snprintf(from, sizeof(from), "rank %d: ", WORKERS + bad->server);
    for (int i = 0; i < WORKERS; i++) {
        const struct rank *rank = &world.ranks[i];
        ck_assert_msg(rank->status == LS_DATA_LOSS && strstr(rank->error, from) && strstr(rank->error, "from rank 1"),
                      "%s: rank %d has %s: %s", bad->what, i, ls_status_name(rank->status), rank->error);
    }
    close_keepers(&trial);
}

/* ---- a disk that fails ---- */

static atomic_bool closing_fails;

/* Stands in front of the C library's. */
int fclose(FILE *file) {
    static int (*real)(FILE *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fclose");
    int result = real(file);
    if (!atomic_load(&closing_fails)) return result;
    errno = EIO;
    return EOF;
}

/* The first server. The line is the error that it ends with. */
static ls_status call_and_note(void *context, struct ls_group *group, const struct ls_frame *frame) {
    struct trial *trial = context;
    ls_status status = ls_keeper_call(trial->keepers[0], group, frame);
    if (status) (void)snprintf(trial->line, sizeof(trial->line), "%.200s", ls_error());
    return status;
}

TEST(a_record_that_cannot_be_closed_hides_no_cause) {
    char path[] = "/tmp/lockstep-record-XXXXXX";
    struct trial trial = {.bad = &bads[7], .session = session, .servers = 2};
    struct ls_log log = {.level = LS_LOG_ERROR};
    struct ls_keeping keeping[MOST_SERVERS];
    struct world world;
    int descriptor = mkstemp(path);
    ck_assert_int_ge(descriptor, 0);
    open_keepers(&trial, &log, keeping);
    ls_keeper_set_files(trial.keepers[0], path, "");
    keeping[0] = (struct ls_keeping){call_and_note, &trial};
    atomic_store(&closing_fails, true);
    run_world(&trial, WORKERS, work, keeping, &world);
    atomic_store(&closing_fails, false);
    ck_assert_msg(strstr(trial.line, "from rank 1") != NULL, "%s", trial.line);
    close_keepers(&trial);
    (void)close(descriptor);
    (void)unlink(path);
}

/* ---- a rogue server ---- */

static ls_status send_twice(struct ls_post *post, enum ls_session_kind kind, int to, int64_t ticket, size_t size) {
    unsigned char bytes[LS_POST_HEAD];
    const struct ls_session_head head = {.kind = (int32_t)kind, .ticket = ticket};
    ls_status status = LS_OK;
    ls_session_head_encode(&head, bytes);
    for (int i = 0; i < 2 && !status; i++) {
        void *body = size ? ls_alloc(size) : NULL;
        ck_assert(body || !size);
        status = ls_post_send(post, to, bytes, body, size);
    }
    return status;
}

/* A server behind the first one that answers a PULL with two letters, or, where it is the silent one, with none.
 * It stays to the end: the cause comes from another one. */
static ls_status serve_badly(struct trial *trial, struct ls_group *group) {
    int64_t words[LS_SESSION_WORDS];
    struct ls_session told;
    struct ls_session_state state;
    struct ls_post *post = NULL;
    int first = ls_group_size(group) - trial->servers, own = ls_group_rank(group) - first;
    assert_ok(ls_group_broadcast_directly(group, LS_STORE_SESSION, LS_INT64, words, LS_SESSION_WORDS));
    assert_ok(ls_session_decode(words, &told));
    assert_ok(ls_session_state_new(&told, &state));
    assert_ok(ls_session_state_share(group, &told, false, &state));
    ls_session_state_free(&state);
    assert_ok(ls_post_new(group, "asynchronous training", &post));
    ls_status status = LS_OK;
    for (bool found; !status;) {
        struct ls_letter letter = {0};
        struct ls_session_head head = {0};
        status = ls_post_next(post, ls_now() + LS_SECOND, &letter, &found);
        if (!status && found) assert_ok(ls_session_head_decode(letter.bytes, &told, first + trial->servers, &head));
        bool results = trial->twice == LS_SESSION_RESULT;
        if (head.kind == LS_SESSION_PULL && own != trial->silent)
            status = send_twice(post, trial->twice, results ? letter.from : first, head.ticket,
                                results ? bytes_of(trial->servers, own) : 0);
        ls_free(letter.bytes);
    }
    ls_post_free(post);
    return status;
}

struct rogue {
    struct trial *trial;
    struct ls_keeper *keeper;
};

static ls_status call_rogue(void *context, struct ls_group *group, const struct ls_frame *frame) {
    struct rogue *rogue = context;
    if (strcmp(frame->name, LS_STORE_SESSION) != 0) return ls_keeper_call(rogue->keeper, group, frame);
    return serve_badly(rogue->trial, group);
}

static ls_status work_alone(struct rank *rank) {
    struct ls_store *store = NULL;
    struct ls_session_worker *worker = NULL;
    float variables[COUNT + STATISTICS] = {0};
    ls_status status = open_worker(rank, variables, &store, &worker);
    if (!status) status = be_honest(worker);
    ls_session_worker_free(worker);
    ls_store_free(store);
    return status;
}

static void run_rogue_server(struct trial *trial, const char *expected) {
    struct ls_log log = {.level = LS_LOG_ERROR};
    struct ls_keeping keeping[MOST_SERVERS];
    struct rogue rogues[MOST_SERVERS];
    struct world world;
    open_keepers(trial, &log, keeping);
    for (int i = 1; i < trial->servers; i++) {
        rogues[i] = (struct rogue){trial, trial->keepers[i]};
        keeping[i] = (struct ls_keeping){call_rogue, &rogues[i]};
    }
    run_world(trial, 1, work_alone, keeping, &world);
    ck_assert_msg(world.ranks[0].status == LS_DATA_LOSS && strstr(world.ranks[0].error, expected), "%s: %s",
                  ls_status_name(world.ranks[0].status), world.ranks[0].error);
    close_keepers(trial);
}

/* Two letters of one server are not those of two. */
TEST(a_server_that_has_a_push_twice_is_refused) {
    struct trial trial = {.session = session, .servers = 2, .twice = LS_SESSION_STAGED};
    run_rogue_server(&trial, "from rank 2");
}

TEST(a_server_that_gives_its_variables_twice_is_refused) {
    struct trial trial = {.session = session, .servers = 3, .silent = 1, .twice = LS_SESSION_RESULT};
    run_rogue_server(&trial, "from rank 3");
}

/* ---- waits ---- */

static void note_line(void *context, ls_log_level level, const char *line) {
    struct trial *trial = context;
    (void)level;
    if (!strstr(line, "has had ticket") || atomic_load(&trial->told)) return;
    (void)snprintf(trial->line, sizeof(trial->line), "%s", line);
    atomic_store(&trial->told, true);
}

/* One worker keeps its ticket until the server has told of it. The other one may not be ahead of it. */
static ls_status work_slowly(struct rank *rank) {
    struct trial *trial = rank->context;
    static const float gradients[COUNT + STATISTICS];
    static const double numbers[NUMBERS];
    struct ls_store *store = NULL;
    struct ls_session_worker *worker = NULL;
    float variables[COUNT + STATISTICS] = {0};
    int64_t ticket, until;
    ls_status status = open_worker(rank, variables, &store, &worker);
    if (!status) status = ls_session_worker_take(worker, &ticket);
    until = ls_now() + 10 * LS_SECOND;
    while (!status && rank->rank == ROGUE && !atomic_load(&trial->told) && ls_now() < until) (void)poll(NULL, 0, 1);
    if (!status) status = ls_session_worker_give(worker, 0.1F, gradients, numbers, false);
    if (!status) status = be_honest(worker);
    ls_session_worker_free(worker);
    ls_store_free(store);
    return status;
}

TEST(the_first_server_tells_who_holds_up_others) {
    struct trial trial = {.session = session, .servers = 2};
    struct ls_log log = {.sink = note_line, .context = &trial, .level = LS_LOG_INFO};
    struct ls_keeping keeping[MOST_SERVERS];
    struct world world;
    trial.session.staleness = 0;
    open_keepers(&trial, &log, keeping);
    run_world(&trial, WORKERS, work_slowly, keeping, &world);
    world_expect_ok(&world, WORKERS);
    ck_assert_msg(strstr(trial.line, "rank 1 has had ticket ") &&
                      strstr(trial.line, "1 of 2 workers waits for it: its gradients are on 0 of 2 parameter servers"),
                  "'%s'", trial.line);
    close_keepers(&trial);
}

TESTS("store/session_letters", .seconds = 60)
