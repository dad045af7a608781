/* One thread ("ls-listener") polls the listening sockets and the connections that have not said yet what they are.
 * Those are looked at without reading (MSG_PEEK), so that gRPC gets its bytes unread; who says nothing useful within
 * ten seconds is closed, and nobody holds up anybody else. */
#define _GNU_SOURCE
#include "cluster/listener.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "cluster/socket.h"

#define MAX_WAITING  1024                   /* connections that have not said what they are */
#define LOOK_AGAIN   (10 * LS_MILLISECOND)  /* after a part of the first bytes: the rest wakes no poll */
#define ACCEPT_PAUSE (100 * LS_MILLISECOND) /* after accept failed for want of descriptors or memory */

struct waiting {
    int fd;
    int64_t deadline, look_at; /* look_at: not polled until then */
};

struct ls_listener {
    struct ls_listener_config config;
    int listening[LS_MAX_LISTEN];
    int wake; /* eventfd: stop */
    int64_t accept_at;
    struct waiting waiting[MAX_WAITING];
    int waiting_count;
    pthread_t thread;
};

static void accept_from(struct ls_listener *listener, int listening) {
    while (listener->waiting_count < MAX_WAITING) {
        int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                listener->accept_at = ls_now() + ACCEPT_PAUSE;
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return;
        }
        ls_socket_tune(fd);
        listener->waiting[listener->waiting_count++] = (struct waiting){fd, ls_now() + LS_FIRST_BYTES_TIMEOUT, 0};
    }
}

static void hand_on_data(struct ls_listener *listener, int fd) {
    uint8_t bytes[LS_PREFACE_SIZE];
    struct ls_preface preface;
    if (recv(fd, bytes, sizeof(bytes), 0) == LS_PREFACE_SIZE && ls_preface_decode(bytes, &preface) == LS_OK)
        listener->config.data(listener->config.context, fd, &preface);
    else
        (void)close(fd);
}

static void hand_on_probe(struct ls_listener *listener, int fd) {
    uint8_t bytes[LS_PROBE_SIZE];
    if (recv(fd, bytes, sizeof(bytes), 0) == LS_PROBE_SIZE)
        listener->config.probe(listener->config.context, fd);
    else
        (void)close(fd);
}

/* True when the connection was handed on or closed. */
static bool look_at(struct ls_listener *listener, struct waiting *waiting) {
    uint8_t bytes[LS_PREFACE_SIZE];
    ssize_t size = recv(waiting->fd, bytes, sizeof(bytes), MSG_PEEK);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    switch (size > 0 ? ls_first_bytes(bytes, (size_t)size) : LS_FIRST_JUNK) {
    case LS_FIRST_MORE:
        waiting->look_at = ls_now() + LOOK_AGAIN;
        return false;
    case LS_FIRST_CONTROL:
        listener->config.control(listener->config.context, waiting->fd);
        return true;
    case LS_FIRST_DATA:
        hand_on_data(listener, waiting->fd);
        return true;
    case LS_FIRST_PROBE:
        hand_on_probe(listener, waiting->fd);
        return true;
    default:
        (void)close(waiting->fd);
        return true;
    }
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* slots: the wake descriptor, the listening ones, the waiting ones. Returns until when to poll. */
static int64_t fill(const struct ls_listener *listener, struct pollfd *slots, int64_t now) {
    int64_t until = LS_NEVER;
    bool accepting = listener->waiting_count < MAX_WAITING && now >= listener->accept_at;
    if (now < listener->accept_at) until = listener->accept_at;
    slots[0] = (struct pollfd){.fd = listener->wake, .events = POLLIN};
    for (int i = 0; i < listener->config.listening_count; i++)
        slots[1 + i] = (struct pollfd){.fd = accepting ? listener->listening[i] : -1, .events = POLLIN};
    slots += 1 + listener->config.listening_count;
    for (int i = 0; i < listener->waiting_count; i++) {
        const struct waiting *waiting = &listener->waiting[i];
        bool later = now < waiting->look_at;
        slots[i] = (struct pollfd){.fd = later ? -1 : waiting->fd, .events = POLLIN};
        until = earlier(until, later ? waiting->look_at : waiting->deadline);
    }
    return until;
}

static void look_at_all(struct ls_listener *listener, const struct pollfd *slots) {
    int kept = 0;
    int64_t now = ls_now();
    for (int i = 0; i < listener->waiting_count; i++) {
        struct waiting *waiting = &listener->waiting[i];
        if (slots[i].revents && look_at(listener, waiting)) continue;
        if (now >= waiting->deadline) {
            (void)close(waiting->fd);
            continue;
        }
        listener->waiting[kept++] = *waiting;
    }
    listener->waiting_count = kept;
}

static void *serve(void *argument) {
    struct ls_listener *listener = argument;
    struct pollfd slots[1 + LS_MAX_LISTEN + MAX_WAITING];
    for (;;) {
        int64_t until = fill(listener, slots, ls_now());
        int count = listener->config.listening_count;
        (void)poll(slots, (nfds_t)(1 + count + listener->waiting_count), ls_poll_timeout(until, 60000));
        if (slots[0].revents) return NULL;
        look_at_all(listener, slots + 1 + count);
        for (int i = 0; i < count; i++)
            if (slots[1 + i].revents) accept_from(listener, listener->listening[i]);
    }
}

static void release(struct ls_listener *listener) {
    for (int i = 0; i < listener->config.listening_count; i++) (void)close(listener->listening[i]);
    for (int i = 0; i < listener->waiting_count; i++) (void)close(listener->waiting[i].fd);
    if (listener->wake >= 0) (void)close(listener->wake);
    ls_free(listener);
}

ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **made) {
    struct ls_listener *listener = ls_alloc(sizeof(*listener));
    if (!listener) {
        for (int i = 0; i < config->listening_count; i++) (void)close(config->listening[i]);
        return ls_fail_memory("the listener", sizeof(*listener));
    }
    listener->config = *config;
    memcpy(listener->listening, config->listening, (size_t)config->listening_count * sizeof(int));
    listener->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ls_status status = LS_OK;
    if (listener->wake < 0)
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an eventfd for the listener: %s", strerror(errno));
    else
        status = ls_thread_start(&listener->thread, "ls-listener", serve, listener);
    if (status)
        release(listener);
    else
        *made = listener;
    return status;
}

void ls_listener_free(struct ls_listener *listener) {
    uint64_t one = 1;
    if (!listener) return;
    if (write(listener->wake, &one, sizeof(one)) != (ssize_t)sizeof(one)) return; /* cannot happen to an eventfd */
    (void)pthread_join(listener->thread, NULL);
    release(listener);
}
