/* A dial goes in rounds. A round resolves the name, each time anew, because a pod that was started again has another
 * address. It then tries the addresses in turn, each for LS_CONNECT_TIMEOUT: a non-blocking connect and, with TLS, the
 * handshake. A round that fails keeps its reason in `why` and is followed by a pause of 10 ms, which doubles from round
 * to round up to 1 s: a worker that is a moment late is found at once, and one that is absent costs one attempt a
 * second. */
#include "cluster/net/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/thread.h"
#include "base/status.h"
#include "cluster/net/preface.h"
#include "cluster/net/name_lookup.h"
#include "cluster/net/address.h"

#define RESOLVE_TICK (10 * LS_MILLISECOND)
#define FIRST_PAUSE  (10 * LS_MILLISECOND)
#define LAST_PAUSE   LS_SECOND

void ls_dial_init(struct ls_dial *dial, const struct ls_tls_identity *identity, struct ls_relay *relay,
                  const struct ls_task *task) {
    *dial = (struct ls_dial){.fd = -1, .pause = FIRST_PAUSE, .identity = identity, .relay = relay};
    if (task) ls_certificate_name(ls_cluster_view_type_name(task->type), task->index, dial->name);
}

static void end_connection(struct ls_dial *dial) {
    ls_tls_free(dial->tls);
    dial->tls = NULL;
    if (dial->fd >= 0) (void)close(dial->fd);
    dial->fd = -1;
}

static void end_round(struct ls_dial *dial) {
    end_connection(dial);
    dial->next = NULL;
    ls_name_lookup_free(dial->resolve);
    dial->resolve = NULL;
}

void ls_dial_hurry(struct ls_dial *dial) {
    if (!dial->resolve) dial->retry_at = 0;
}

void ls_dial_reset(struct ls_dial *dial) {
    end_round(dial);
    dial->retry_at = 0;
    dial->pause = FIRST_PAUSE;
}

void ls_dial_fail(struct ls_dial *dial, const char *why) {
    (void)snprintf(dial->why, sizeof(dial->why), "%s", why); /* why may belong to what ends here */
    dial->absent = false;
    end_round(dial);
    dial->retry_at = ls_now() + dial->pause;
    dial->pause = dial->pause * 2 > LAST_PAUSE ? LAST_PAUSE : dial->pause * 2;
}

static const char *words(int error) {
    switch (error) {
    case ECONNREFUSED:
        return "connection refused";
    case ETIMEDOUT:
        return "no answer";
    default:
        return strerror(error);
    }
}

/* Goes on to the next address; where there is none, the round has failed. */
static void fail_address(struct ls_dial *dial, int error) {
    end_connection(dial);
    if (dial->next) return;
    ls_dial_fail(dial, words(error));
    dial->absent = error == ECONNREFUSED;
}

static void try_address(struct ls_dial *dial) {
    const struct addrinfo *address = dial->next;
    dial->next = address->ai_next;
    dial->deadline = ls_now() + LS_CONNECT_TIMEOUT;
    dial->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ls_forked_closes(dial->fd);
    if (dial->fd >= 0 && connect(dial->fd, address->ai_addr, address->ai_addrlen) == 0) return;
    if (dial->fd < 0 || errno != EINPROGRESS) fail_address(dial, errno);
}

static void look_at_names(struct ls_dial *dial) {
    const char *why;
    if (!ls_name_lookup_done(dial->resolve, &dial->next, &why)) return;
    if (!dial->next) ls_dial_fail(dial, why);
}

/* Returns 1 when the socket is connected, 0 while connect is under way, -1 when this address has failed. */
static int look_at_connect(struct ls_dial *dial) {
    struct pollfd slot = {.fd = dial->fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(&slot, 1, 0) <= 0) {
        if (ls_now() < dial->deadline) return 0;
        error = ETIMEDOUT;
    } else if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (!error && !ls_address_is_own_end(dial->fd)) return 1;
    fail_address(dial, error ? error : ECONNREFUSED);
    return -1;
}

/* A program at this address has answered, and not as a worker does. The name's other addresses lead to the same host,
 * so the round ends. */
static int fail_attempt(struct ls_dial *dial, enum ls_dial_verdict verdict, const char *why) {
    char text[sizeof(dial->why)];
    (void)snprintf(text, sizeof(text), "%s%s", verdict ? "" : "no TLS connection: ", why);
    dial->verdict = verdict;
    ls_dial_fail(dial, text);
    return -1;
}

static int begin_tls(struct ls_dial *dial) {
    dial->tls = ls_tls_new(dial->identity, dial->fd, dial->name);
    dial->deadline = ls_now() + LS_CONNECT_TIMEOUT;
    dial->writes = false;
    return dial->tls ? 0 : fail_attempt(dial, LS_DIAL_UNKNOWN, "there is no memory");
}

/* The bytes that have come are no TLS. A Lockstep worker without TLS answers LS_PLAIN_HERE in the clear. */
static int judge_failure(struct ls_dial *dial) {
    if (ls_tls_began_with(dial->tls, LS_PLAIN_HERE)) return fail_attempt(dial, LS_DIAL_WITHOUT_TLS, "it has no TLS");
    return fail_attempt(dial, LS_DIAL_UNKNOWN, ls_tls_why(dial->tls));
}

/* Returns as look_at_connect does. */
static int look_at_tls(struct ls_dial *dial) {
    enum ls_tls_state state = ls_tls_open(dial->tls);
    dial->writes = state == LS_TLS_WRITES;
    switch (state) {
    case LS_TLS_OPEN:
        return 1;
    case LS_TLS_UNTRUSTED:
        return fail_attempt(dial, LS_DIAL_UNTRUSTED, ls_tls_why(dial->tls));
    case LS_TLS_REFUSED:
        return fail_attempt(dial, LS_DIAL_REFUSED, ls_tls_why(dial->tls));
    case LS_TLS_FAILED:
    case LS_TLS_GONE:
        return judge_failure(dial);
    default:
        if (ls_now() < dial->deadline) return 0;
        return fail_attempt(dial, LS_DIAL_UNKNOWN, "no answer");
    }
}

static int look_at_connection(struct ls_dial *dial) {
    if (dial->tls) return look_at_tls(dial);
    int state = look_at_connect(dial);
    if (state <= 0 || !dial->identity) return state;
    state = begin_tls(dial);
    return state ? state : look_at_tls(dial);
}

/* Returns the connection, which the caller takes; -1: the dial has failed. */
static int finish_connecting(struct ls_dial *dial) {
    int fd = dial->fd;
    ls_address_tune(fd);
    if (dial->tls) fd = ls_relay_add(dial->relay, fd, dial->tls, 0);
    if (fd < 0) return fail_attempt(dial, LS_DIAL_UNKNOWN, "there are no descriptors left");
    dial->tls = NULL;
    dial->fd = -1;
    dial->absent = false;
    end_round(dial);
    return fd;
}

/* A dial is in one of four states, and each call goes through as many as it can without waiting: it pauses (no
 * resolve), it resolves (no next), it connects (fd), or it makes the TLS handshake (fd and tls). The loop ends when the
 * present address has to be waited for, when a connection is made, or when the last address has failed. */
int ls_dial_step(struct ls_dial *dial, const char *host, int port) {
    if (!dial->resolve) {
        if (ls_now() < dial->retry_at) return -1;
        dial->verdict = LS_DIAL_UNKNOWN;
        if (ls_name_lookup_start(host, port, &dial->resolve)) ls_dial_fail(dial, ls_error());
        if (!dial->resolve) return -1;
    }
    if (dial->fd < 0 && !dial->next) look_at_names(dial);
    while (dial->fd >= 0 || dial->next) {
        if (dial->fd < 0) try_address(dial);
        int state = dial->fd >= 0 ? look_at_connection(dial) : -1;
        if (state == 0) return -1;
        if (state > 0) return finish_connecting(dial);
    }
    return -1;
}

/* A connect is over when the socket can be written. A handshake says itself which of the two it waits for. A lookup has
 * no descriptor, so it is asked again every RESOLVE_TICK. */
int64_t ls_dial_poll(const struct ls_dial *dial, struct pollfd *slot) {
    *slot = (struct pollfd){.fd = dial->fd, .events = dial->tls && !dial->writes ? POLLIN : POLLOUT};
    if (dial->fd >= 0) return dial->deadline;
    return dial->resolve ? ls_now() + RESOLVE_TICK : dial->retry_at;
}
