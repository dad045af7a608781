/* Non-blocking connects with reasons. A round is: resolve the name (again each time: pods get new addresses), try each
 * address in turn; a round that fails is followed by a pause. */
#include "cluster/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/status.h"
#include "cluster/resolve.h"
#include "cluster/socket.h"

#define RESOLVE_TICK (10 * LS_MILLISECOND)
#define FIRST_PAUSE  (10 * LS_MILLISECOND)
#define LAST_PAUSE   LS_SECOND

void ls_dial_init(struct ls_dial *dial) {
    *dial = (struct ls_dial){.fd = -1, .pause = FIRST_PAUSE};
}

static void end_round(struct ls_dial *dial) {
    if (dial->fd >= 0) (void)close(dial->fd);
    dial->fd = -1;
    dial->next = NULL;
    ls_resolve_free(dial->resolve);
    dial->resolve = NULL;
}

void ls_dial_reset(struct ls_dial *dial) {
    end_round(dial);
    dial->retry_at = 0;
    dial->pause = FIRST_PAUSE;
}

void ls_dial_fail(struct ls_dial *dial, const char *why) {
    (void)snprintf(dial->why, sizeof(dial->why), "%s", why); /* why may belong to what ends here */
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

/* This address leads nowhere: the next one is tried, or the round has failed. */
static void fail_address(struct ls_dial *dial, int error) {
    if (dial->fd >= 0) (void)close(dial->fd);
    dial->fd = -1;
    if (!dial->next) ls_dial_fail(dial, words(error));
}

static void try_address(struct ls_dial *dial) {
    const struct addrinfo *address = dial->next;
    dial->next = address->ai_next;
    dial->deadline = ls_now() + LS_CONNECT_TIMEOUT;
    dial->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->fd >= 0 && connect(dial->fd, address->ai_addr, address->ai_addrlen) == 0) return;
    if (dial->fd < 0 || errno != EINPROGRESS) fail_address(dial, errno);
}

static void start_round(struct ls_dial *dial, const char *host, int port) {
    if (ls_resolve_start(host, port, &dial->resolve)) ls_dial_fail(dial, ls_error());
}

static void look_at_names(struct ls_dial *dial) {
    const char *why;
    if (!ls_resolve_done(dial->resolve, &dial->next, &why)) return;
    if (!dial->next) ls_dial_fail(dial, why);
}

/* 1 connected, 0 still trying, -1 this address failed. */
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
    if (!error && !ls_socket_is_own_end(dial->fd)) return 1;
    fail_address(dial, error ? error : ECONNREFUSED);
    return -1;
}

int ls_dial_step(struct ls_dial *dial, const char *host, int port) {
    if (!dial->resolve) {
        if (ls_now() < dial->retry_at) return -1;
        start_round(dial, host, port);
        if (!dial->resolve) return -1;
    }
    if (dial->fd < 0 && !dial->next) look_at_names(dial);
    while (dial->fd >= 0 || dial->next) {
        if (dial->fd < 0) try_address(dial);
        int state = dial->fd >= 0 ? look_at_connect(dial) : -1;
        if (state == 0) return -1;
        if (state > 0) {
            int fd = dial->fd;
            dial->fd = -1;
            end_round(dial);
            ls_socket_tune(fd);
            return fd;
        }
    }
    return -1;
}

int64_t ls_dial_poll(const struct ls_dial *dial, struct pollfd *slot) {
    *slot = (struct pollfd){.fd = dial->fd, .events = POLLOUT};
    if (dial->fd >= 0) return dial->deadline;
    return dial->resolve ? ls_now() + RESOLVE_TICK : dial->retry_at;
}
