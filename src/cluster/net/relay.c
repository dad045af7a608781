/* One thread ("ls-relay") moves the bytes of all connections, with epoll. It writes the bytes that it reads at one end
 * to the other end at once. It keeps the rest that the other end does not take, and reads no more from the first end
 * while there is such a rest: the kernel's buffer then fills, TCP's window closes (RFC 9293, section 3.8.6), and the
 * sender waits. So a slow reader costs the relay one portion of memory. When one end has closed, its last bytes go to
 * the other end, and then both are closed.
 *
 * The monitor guards the list. The ends and flows of a connection are the thread's own, and only the thread frees one.
 * It closes ends under the monitor: while a connection is added, the number of a closed end could become another
 * socket's.
 */
#define _GNU_SOURCE
#include "cluster/net/relay.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/thread.h"
#include "cluster/net/http2_frames.h"

#define PORTION 65536 /* bytes */
#define ROUNDS  8     /* portions of one connection before the others have their turn */
#define EVENTS  64
#define PIECES  32  /* of a stranger: it may say so many short ones; ... */
#define PIECE   256 /* ... beyond these each has so many bytes, for each wakes two threads */

enum end { OUTER, INNER };

/* The bytes from one end to the other. */
struct flow {
    uint8_t *kept; /* the rest that the other end has not taken yet; NULL: nothing */
    size_t size, taken;
    bool ended; /* nothing more comes */
};

struct connection {
    struct connection *next;
    int ends[2];
    int number;           /* of the inner end that was given away */
    struct ls_tls *tls;   /* at the outer end; NULL: none */
    char *certificate;    /* the other side's; NULL: none */
    struct flow flows[2]; /* by the end that they come from */
    atomic_bool trusted;
    struct ls_http2_frames frames;
    size_t said, pieces; /* bytes of the stranger, and the reads that brought them */
    bool cut;            /* the outer end has failed without an end */
    char who[LS_ADDRESS_TEXT];
};

struct ls_relay {
    struct ls_refusals *refusals;
    int epoll, wake;
    pthread_t thread;
    atomic_bool stopping;
    struct ls_monitor monitor;
    struct connection *connections; /* the newest first */
    uint8_t portion[PORTION];
};

/* ---- one connection; for the thread ---- */

/* True when the other side's kernel has closed the connection (FIN or RST). A connection that has timed out (ETIMEDOUT
 * and its like) is `cut`, and the inner end stays open: a closed one would count as the end of the process over there,
 * and with that the survivors could have its vote (docs/protocol.md, "Who may form a generation"). The inner end
 * receives nothing more, and the heartbeat finds the peer silent. */
static bool is_end(struct connection *connection, int error) {
    if (error == EAGAIN || error == EINTR) return false;
    connection->cut = error != ECONNRESET && error != EPIPE && error != ENOTCONN;
    return !connection->cut;
}

static ssize_t receive_from(const struct connection *connection, enum end end, uint8_t *bytes, size_t size) {
    if (end == OUTER && connection->tls) return ls_tls_receive(connection->tls, bytes, size);
    return recv(connection->ends[end], bytes, size, MSG_DONTWAIT);
}

/* Reads a portion; 0: the end; -1: nothing now. libssl returns one record a call and may hold further ones that it has
 * decrypted. The socket is empty then and raises no event, so the loop asks libssl until it has no more. */
static ssize_t read_end(struct connection *connection, enum end end, uint8_t *bytes) {
    size_t taken = 0;
    for (;;) {
        if (end == OUTER && connection->cut) return -1;
        ssize_t size = receive_from(connection, end, bytes + taken, PORTION - taken);
        if (size > 0) taken += (size_t)size;
        if (size > 0 && end == OUTER && connection->tls && taken < PORTION) continue;
        if (taken) return (ssize_t)taken; /* an end that follows it comes again */
        return size < 0 && !is_end(connection, errno) ? -1 : 0;
    }
}

/* Returns the number of bytes that the end has taken; -1: it takes nothing more. */
static ssize_t write_end(struct connection *connection, enum end end, const uint8_t *bytes, size_t size) {
    if (end == OUTER && connection->cut) return (ssize_t)size; /* nobody hears it */
    ssize_t sent = end == OUTER && connection->tls
                       ? ls_tls_send(connection->tls, bytes, size)
                       : send(connection->ends[end], bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !is_end(connection, errno)) return 0;
    return sent ? sent : -1;
}

static void drop_kept(struct flow *flow) {
    ls_free(flow->kept);
    flow->kept = NULL;
}

static bool keep_rest(struct flow *flow, const uint8_t *bytes, size_t size) {
    if (!size) return true;
    flow->kept = ls_alloc(size);
    if (!flow->kept) return false;
    memcpy(flow->kept, bytes, size);
    flow->size = size;
    flow->taken = 0;
    return true;
}

static bool is_admitted(struct ls_relay *relay, struct connection *connection, const uint8_t *bytes, size_t size) {
    if (atomic_load(&connection->trusted)) return true;
    const char *why = ls_http2_frames_look(&connection->frames, bytes, size);
    connection->said += size;
    if (++connection->pieces > PIECES + connection->said / PIECE) why = "says its Hello in too many pieces";
    if (!why) return true;
    char text[160];
    (void)snprintf(text, sizeof(text), "it %s", why);
    ls_refusals_note(relay->refusals, LS_REFUSED_MESSAGE, connection->who, text);
    return false;
}

/* As forward_new and move_bytes, returns true when bytes have moved or the flow has ended. */
static bool write_kept(struct connection *connection, enum end from) {
    struct flow *flow = &connection->flows[from];
    ssize_t sent = write_end(connection, (enum end) !from, flow->kept + flow->taken, flow->size - flow->taken);
    if (sent > 0) flow->taken += (size_t)sent;
    if (sent < 0) flow->ended = true;
    if (sent < 0 || flow->taken == flow->size) drop_kept(flow);
    return sent != 0;
}

static bool forward_new(struct ls_relay *relay, struct connection *connection, enum end from) {
    struct flow *flow = &connection->flows[from];
    ssize_t size = read_end(connection, from, relay->portion);
    if (size < 0) return false;
    if (!size || (from == OUTER && !is_admitted(relay, connection, relay->portion, (size_t)size))) {
        flow->ended = true;
        return true;
    }
    ssize_t sent = write_end(connection, (enum end) !from, relay->portion, (size_t)size);
    if (sent < 0 || !keep_rest(flow, relay->portion + sent, (size_t)(size - sent))) flow->ended = true;
    return true;
}

static bool move_bytes(struct ls_relay *relay, struct connection *connection, enum end from) {
    struct flow *flow = &connection->flows[from];
    if (flow->kept) return write_kept(connection, from);
    return !flow->ended && forward_new(relay, connection, from);
}

/* True when one end has closed and its last bytes have gone to the other end. */
static bool is_over(const struct connection *connection) {
    for (int end = 0; end < 2; end++)
        if (connection->flows[end].ended && !connection->flows[end].kept) return true;
    return false;
}

/* A process that the user forked may have the descriptors too, and then close alone ends no connection. */
static void close_ends(struct ls_relay *relay, struct connection *connection) {
    ls_tls_free(connection->tls);
    for (int end = 0; end < 2; end++) {
        drop_kept(&connection->flows[end]);
        (void)epoll_ctl(relay->epoll, EPOLL_CTL_DEL, connection->ends[end], NULL);
        (void)shutdown(connection->ends[end], SHUT_RDWR);
        (void)close(connection->ends[end]);
    }
}

/* The events are edge-triggered: epoll reports a change once, and serve_connection moves bytes until nothing moves.
 * EPOLL_CTL_MOD makes epoll report again whatever is ready now. */
static bool watch_ends(struct ls_relay *relay, struct connection *connection, int operation) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    bool watched = true;
    for (int end = 0; end < 2; end++)
        watched = epoll_ctl(relay->epoll, operation, connection->ends[end], &event) == 0 && watched;
    return watched;
}

/* Moves bytes both ways until nothing moves, for ROUNDS portions at most, so that one busy connection does not hold up
 * the others. Returns true when the rounds ran out: the caller then asks epoll for a new event, which comes after those
 * of the other connections. */
static bool serve_connection(struct ls_relay *relay, struct connection *connection) {
    bool moved = !is_over(connection);
    for (int i = 0; moved && i < ROUNDS; i++) {
        moved = move_bytes(relay, connection, OUTER);
        moved = move_bytes(relay, connection, INNER) || moved;
    }
    return moved && !is_over(connection);
}

/* ---- all of them ---- */

static void free_connection(struct ls_relay *relay, struct connection *connection) {
    close_ends(relay, connection);
    ls_free(connection->certificate);
    ls_free(connection);
}

static void forget_over(struct ls_relay *relay) {
    LS_HOLD(&relay->monitor);
    for (struct connection **at = &relay->connections; *at;) {
        struct connection *connection = *at;
        if (is_over(connection)) {
            *at = connection->next;
            free_connection(relay, connection);
        } else {
            at = &connection->next;
        }
    }
}

/* Moves the last bytes of inner ends out, among them the reason for which this worker failed. True when none is left.
 */
static bool drain_connections(struct ls_relay *relay) {
    bool idle = true;
    ls_monitor_lock(&relay->monitor);
    for (struct connection *connection = relay->connections; connection; connection = connection->next)
        idle = !serve_connection(relay, connection) && (is_over(connection) || !connection->flows[INNER].kept) && idle;
    ls_monitor_unlock(&relay->monitor);
    forget_over(relay);
    return idle;
}

static void *run_relay(void *argument) {
    struct ls_relay *relay = argument;
    struct epoll_event events[EVENTS];
    while (!atomic_load(&relay->stopping)) {
        int count = epoll_wait(relay->epoll, events, EVENTS, -1);
        bool over = false;
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection) continue;
            if (serve_connection(relay, connection)) (void)watch_ends(relay, connection, EPOLL_CTL_MOD);
            over = over || is_over(connection);
        }
        if (over) forget_over(relay);
    }
    for (int64_t deadline = ls_now() + LS_LAST_WORD_TIMEOUT; !drain_connections(relay) && ls_now() < deadline;)
        (void)epoll_wait(relay->epoll, events, EVENTS, 1);
    return NULL;
}

/* ---- from any thread ---- */

static struct connection *find_connection(struct ls_relay *relay, int inner) {
    struct connection *connection = relay->connections;
    while (connection && connection->number != inner) connection = connection->next;
    return connection;
}

static bool enlist(struct ls_relay *relay, struct connection *connection) {
    LS_HOLD(&relay->monitor);
    connection->next = relay->connections;
    relay->connections = connection;
    return watch_ends(relay, connection, EPOLL_CTL_ADD);
}

static struct connection *new_connection(int outer, struct ls_tls *tls, const int inner[2], size_t most) {
    struct connection *connection = ls_alloc(sizeof(*connection));
    if (!connection) return NULL;
    connection->ends[OUTER] = outer;
    connection->ends[INNER] = inner[0];
    connection->number = inner[1];
    connection->tls = tls;
    if (tls) connection->certificate = ls_tls_certificate(tls);
    connection->frames.most = most;
    atomic_init(&connection->trusted, !most);
    ls_address_describe(outer, false, connection->who);
    return connection;
}

int ls_relay_add(struct ls_relay *relay, int fd, struct ls_tls *tls, size_t most) {
    int inner[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, inner)) return -1;
    struct connection *connection = new_connection(fd, tls, inner, most);
    if (!connection) {
        (void)close(inner[0]);
        (void)close(inner[1]);
        return -1;
    }
    /* epoll refuses this connection: its user finds it closed, and ls_relay_free releases it */
    if (!enlist(relay, connection)) (void)shutdown(inner[1], SHUT_RDWR);
    return inner[1];
}

void ls_relay_trust(struct ls_relay *relay, int inner) {
    LS_HOLD(&relay->monitor);
    struct connection *connection = find_connection(relay, inner);
    if (connection) atomic_store(&connection->trusted, true);
}

void ls_relay_describe(struct ls_relay *relay, int inner, bool own, char text[LS_ADDRESS_TEXT]) {
    LS_HOLD(&relay->monitor);
    const struct connection *connection = find_connection(relay, inner);
    if (connection && own)
        ls_address_describe(connection->ends[OUTER], true, text);
    else
        (void)snprintf(text, LS_ADDRESS_TEXT, "%s", connection ? connection->who : "somebody");
}

char *ls_relay_certificate(struct ls_relay *relay, int inner) {
    LS_HOLD(&relay->monitor);
    const struct connection *connection = find_connection(relay, inner);
    return connection && connection->certificate ? ls_strdup(connection->certificate) : NULL;
}

/* ---- the whole ---- */

static void release_relay(struct ls_relay *relay) {
    while (relay->connections) {
        struct connection *connection = relay->connections;
        relay->connections = connection->next;
        free_connection(relay, connection);
    }
    if (relay->epoll >= 0) (void)close(relay->epoll);
    if (relay->wake >= 0) (void)close(relay->wake);
    ls_monitor_destroy(&relay->monitor);
    ls_free(relay);
}

ls_status ls_relay_new(struct ls_refusals *refusals, struct ls_relay **made) {
    struct epoll_event event = {.events = EPOLLIN};
    LS_NEW(struct ls_relay, relay, "the relay");
    ls_status status = ls_monitor_init(&relay->monitor);
    relay->refusals = refusals;
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!status && (relay->epoll < 0 || relay->wake < 0 || epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->wake, &event)))
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an epoll for the relay: %s", strerror(errno));
    if (!status) status = ls_thread_start(&relay->thread, "ls-relay", run_relay, relay);
    return LS_HAND_OVER(status, made, relay, release_relay(relay));
}

void ls_relay_free(struct ls_relay *relay) {
    if (!relay) return;
    atomic_store(&relay->stopping, true);
    (void)eventfd_write(relay->wake, 1);
    (void)pthread_join(relay->thread, NULL);
    release_relay(relay);
}
