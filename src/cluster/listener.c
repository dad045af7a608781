/* One thread ("ls-listener") polls the listening sockets and the visitors: connections that have not said yet what they
 * are, and control connections of which nobody has said yet that a worker is behind them. The former are looked at
 * without reading (MSG_PEEK), so that gRPC gets its bytes unread. gRPC owns the latter; what is kept of them is a
 * second descriptor, to end them by. A visitor stays for ten seconds at most, and where there are too many, of one
 * address or in all, the oldest goes, so that a flood never keeps a worker from being heard. What gRPC does for one is
 * expensive, so an address whose visitors turn out to be no workers has few of them handed on. */
#define _GNU_SOURCE
#include "cluster/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "cluster/budget.h"
#include "cluster/socket.h"

#define MAX_VISITORS     512                   /* in all; from one address half as many */
#define SHARE            8                     /* and at most this part of the descriptors of the process */
#define ACCEPTED_A_TURN  64                    /* before the new ones are looked at */
#define CROWD            32                    /* visitors; with so many a turn lasts ... */
#define CROWD_PAUSE      5                     /* ... so many milliseconds at least: a flood costs few turns */
#define LOOK_AGAIN       (10 * LS_MILLISECOND) /* after a part of the first bytes: the rest wakes no poll */
#define LOOK_AGAIN_CROWD (100 * LS_MILLISECOND)
#define ACCEPT_PAUSE     (100 * LS_MILLISECOND) /* after accept failed for want of descriptors or memory */

#define ENDED 0 /* a deadline: the visitor goes, the connection stays */

struct visitor {
    int fd;                    /* the connection, or a second descriptor of it ... */
    int handed;                /* ... that gRPC has as this number; -1 before */
    int64_t deadline, look_at; /* look_at: not polled until then */
    struct ls_source source;
};

struct ls_listener {
    struct ls_listener_config config;
    int listening[LS_MAX_LISTEN];
    int notes[2]; /* a pipe of numbers: descriptors to be trusted; -1: stop */
    int64_t accept_at;
    struct visitor visitors[MAX_VISITORS]; /* the oldest first */
    int visitor_count, most;               /* most: that may be here */
    struct ls_budget budget;               /* of connections handed on to gRPC */
    pthread_t thread;
};

/* ---- visitors ---- */

static bool is_crowd(const struct ls_listener *listener) {
    return listener->visitor_count >= CROWD;
}

static void forget(struct ls_listener *listener, int index) {
    struct visitor *visitors = listener->visitors;
    listener->visitor_count--;
    memmove(&visitors[index], &visitors[index + 1], (size_t)(listener->visitor_count - index) * sizeof(*visitors));
}

static void refuse(struct ls_listener *listener, const struct visitor *visitor, enum ls_refusal kind, const char *why) {
    char who[LS_ADDRESS_TEXT];
    ls_socket_describe(visitor->fd, who);
    ls_refuse(listener->config.refusals, kind, who, why);
    if (visitor->handed >= 0) (void)shutdown(visitor->fd, SHUT_RDWR); /* gRPC closes its own */
    (void)close(visitor->fd);
}

/* The oldest of this source (NULL: of any); before those that have said what they are, those that have not. -1: none.
 */
static int find_oldest(const struct ls_listener *listener, const struct ls_source *source) {
    int handed = -1;
    for (int i = 0; i < listener->visitor_count; i++) {
        const struct visitor *visitor = &listener->visitors[i];
        if (source && !ls_source_equal(&visitor->source, source)) continue;
        if (visitor->handed < 0) return i;
        if (handed < 0) handed = i;
    }
    return handed;
}

static int count_of(const struct ls_listener *listener, const struct ls_source *source) {
    int count = 0;
    for (int i = 0; i < listener->visitor_count; i++) count += ls_source_equal(&listener->visitors[i].source, source);
    return count;
}

static void make_room(struct ls_listener *listener, const struct ls_source *source) {
    bool crowd = count_of(listener, source) >= listener->most / 2;
    if (!crowd && listener->visitor_count < listener->most) return;
    int oldest = find_oldest(listener, crowd ? source : NULL);
    refuse(listener, &listener->visitors[oldest], LS_REFUSED_CROWD,
           crowd ? "too many connections from there that are no worker's"
                 : "too many connections that are no worker's");
    forget(listener, oldest);
}

static void accept_from(struct ls_listener *listener, int listening) {
    for (int i = 0; i < ACCEPTED_A_TURN; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int fd = accept4(listening, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                listener->accept_at = ls_now() + ACCEPT_PAUSE;
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return;
        }
        struct ls_source source = ls_source_of(&address);
        make_room(listener, &source);
        listener->visitors[listener->visitor_count++] =
            (struct visitor){fd, -1, ls_now() + LS_FIRST_BYTES_TIMEOUT, 0, source};
    }
}

/* ---- handing on ---- */

static bool hand_on_data(struct ls_listener *listener, const struct visitor *visitor) {
    uint8_t bytes[LS_PREFACE_SIZE];
    struct ls_preface preface;
    ls_socket_tune(visitor->fd);
    if (recv(visitor->fd, bytes, sizeof(bytes), 0) == LS_PREFACE_SIZE && ls_preface_decode(bytes, &preface) == LS_OK)
        listener->config.data(listener->config.context, visitor->fd, &preface);
    else
        refuse(listener, visitor, LS_REFUSED_DATA, "its first bytes are no data connection's");
    return true;
}

static bool hand_on_probe(struct ls_listener *listener, const struct visitor *visitor) {
    uint8_t bytes[LS_PROBE_SIZE];
    if (recv(visitor->fd, bytes, sizeof(bytes), 0) == LS_PROBE_SIZE)
        listener->config.probe(listener->config.context, visitor->fd);
    else
        refuse(listener, visitor, LS_REFUSED_JUNK, "its first bytes are not Lockstep's");
    return true;
}

/* Those that gRPC has as this number are no visitors any more. */
static void end_watch(struct ls_listener *listener, int handed, const struct visitor *except) {
    for (int i = 0; i < listener->visitor_count; i++)
        if (listener->visitors[i].handed == handed && &listener->visitors[i] != except)
            listener->visitors[i].deadline = ENDED;
}

static void trust(struct ls_listener *listener, int handed) {
    for (int i = 0; i < listener->visitor_count; i++)
        if (listener->visitors[i].handed == handed)
            ls_budget_give_back(&listener->budget, &listener->visitors[i].source);
    end_watch(listener, handed, NULL);
}

/* Stays a visitor; true when it could not be handed on. */
static bool hand_on_control(struct ls_listener *listener, struct visitor *visitor) {
    if (!ls_budget_take(&listener->budget, &visitor->source, ls_now())) {
        refuse(listener, visitor, LS_REFUSED_CROWD, "too many control connections from there that were no worker's");
        return true;
    }
    int second = fcntl(visitor->fd, F_DUPFD_CLOEXEC, 0);
    if (second < 0) {
        refuse(listener, visitor, LS_REFUSED_CROWD, "there are no descriptors left");
        return true;
    }
    ls_socket_tune(visitor->fd);
    visitor->handed = visitor->fd;
    visitor->fd = second;
    end_watch(listener, visitor->handed,
              visitor); /* it has closed the one before, or the number would not come again */
    listener->config.control(listener->config.context, visitor->handed);
    return false;
}

static bool refuse_junk(struct ls_listener *listener, const struct visitor *visitor, const uint8_t *bytes,
                        ssize_t size) {
    if (size <= 0)
        (void)close(visitor->fd); /* who only looked whether somebody listens */
    else if (size > 1 && bytes[0] == 0x16 && bytes[1] == 3)
        refuse(listener, visitor, LS_REFUSED_JUNK,
               "it speaks TLS, and this worker has none: set LOCKSTEP_TLS_* on all workers, or on none");
    else
        refuse(listener, visitor, LS_REFUSED_JUNK, "its first bytes are not Lockstep's");
    return true;
}

/* True when it is no visitor any more. */
static bool look_at(struct ls_listener *listener, struct visitor *visitor) {
    uint8_t bytes[LS_PREFACE_SIZE];
    ssize_t size = recv(visitor->fd, bytes, sizeof(bytes), MSG_PEEK);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    switch (size > 0 ? ls_first_bytes(bytes, (size_t)size) : LS_FIRST_JUNK) {
    case LS_FIRST_MORE:
        visitor->look_at = ls_now() + (is_crowd(listener) ? LOOK_AGAIN_CROWD : LOOK_AGAIN);
        return false;
    case LS_FIRST_CONTROL:
        return hand_on_control(listener, visitor);
    case LS_FIRST_DATA:
        return hand_on_data(listener, visitor);
    case LS_FIRST_PROBE:
        return hand_on_probe(listener, visitor);
    default:
        return refuse_junk(listener, visitor, bytes, size);
    }
}

/* ---- the loop ---- */

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* slots: the notes, the listening ones, the visitors. Returns until when to poll. */
static int64_t fill(const struct ls_listener *listener, struct pollfd *slots, int64_t now) {
    int64_t until = LS_NEVER;
    bool accepting = now >= listener->accept_at;
    if (!accepting) until = listener->accept_at;
    slots[0] = (struct pollfd){.fd = listener->notes[0], .events = POLLIN};
    for (int i = 0; i < listener->config.listening_count; i++)
        slots[1 + i] = (struct pollfd){.fd = accepting ? listener->listening[i] : -1, .events = POLLIN};
    slots += 1 + listener->config.listening_count;
    for (int i = 0; i < listener->visitor_count; i++) {
        const struct visitor *visitor = &listener->visitors[i];
        bool later = now < visitor->look_at;
        slots[i] = (struct pollfd){.fd = later ? -1 : visitor->fd}; /* of those that gRPC has: the end only */
        if (visitor->handed < 0) slots[i].events = POLLIN;
        until = earlier(until, later ? visitor->look_at : visitor->deadline);
    }
    return until;
}

/* What poll has said of one visitor; true when it is none any more. */
static bool attend(struct ls_listener *listener, struct visitor *visitor, const struct pollfd *slot, int64_t now) {
    if (slot->revents && visitor->handed < 0 && look_at(listener, visitor)) return true;
    bool over = visitor->handed >= 0 && (slot->revents & (POLLHUP | POLLERR) || visitor->deadline == ENDED);
    if (over)
        (void)close(visitor->fd);
    else if (now >= visitor->deadline)
        refuse(listener, visitor, LS_REFUSED_SILENT, "it has not said in time that it is a worker");
    else
        return false;
    return true;
}

static void attend_to_all(struct ls_listener *listener, const struct pollfd *slots) {
    int kept = 0;
    int64_t now = ls_now();
    for (int i = 0; i < listener->visitor_count; i++) {
        struct visitor *visitor = &listener->visitors[i];
        if (!attend(listener, visitor, &slots[i], now)) listener->visitors[kept++] = *visitor;
    }
    listener->visitor_count = kept;
}

/* False: stop. */
static bool read_notes(struct ls_listener *listener) {
    for (int note; read(listener->notes[0], &note, sizeof(note)) == (ssize_t)sizeof(note);) {
        if (note < 0) return false;
        trust(listener, note);
    }
    return true;
}

static void *serve(void *argument) {
    struct ls_listener *listener = argument;
    struct pollfd slots[1 + LS_MAX_LISTEN + MAX_VISITORS];
    for (;;) {
        if (is_crowd(listener)) (void)poll(NULL, 0, CROWD_PAUSE);
        int64_t until = fill(listener, slots, ls_now());
        int count = listener->config.listening_count;
        (void)poll(slots, (nfds_t)(1 + count + listener->visitor_count), ls_poll_timeout(until, 60000));
        if (slots[0].revents && !read_notes(listener)) return NULL;
        attend_to_all(listener, slots + 1 + count);
        for (int i = 0; i < count; i++)
            if (slots[1 + i].revents) accept_from(listener, listener->listening[i]);
    }
}

/* ---- the whole ---- */

static void release(struct ls_listener *listener) {
    for (int i = 0; i < listener->config.listening_count; i++) (void)close(listener->listening[i]);
    for (int i = 0; i < listener->visitor_count; i++) (void)close(listener->visitors[i].fd);
    for (int i = 0; i < 2; i++)
        if (listener->notes[i] >= 0) (void)close(listener->notes[i]);
    ls_free(listener);
}

/* A visitor may take two descriptors. */
static int most_visitors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / SHARE / 2 >= MAX_VISITORS) return MAX_VISITORS;
    return limit.rlim_cur / SHARE / 2 > 2 ? (int)(limit.rlim_cur / SHARE / 2) : 2;
}

ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **made) {
    struct ls_listener *listener = ls_alloc(sizeof(*listener));
    if (!listener) {
        for (int i = 0; i < config->listening_count; i++) (void)close(config->listening[i]);
        return ls_fail_memory("the listener", sizeof(*listener));
    }
    listener->config = *config;
    listener->most = most_visitors();
    memcpy(listener->listening, config->listening, (size_t)config->listening_count * sizeof(int));
    ls_status status = LS_OK;
    if (pipe2(listener->notes, O_CLOEXEC | O_NONBLOCK) != 0) {
        listener->notes[0] = listener->notes[1] = -1;
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make a pipe for the listener: %s", strerror(errno));
    } else {
        status = ls_thread_start(&listener->thread, "ls-listener", serve, listener);
    }
    if (status)
        release(listener);
    else
        *made = listener;
    return status;
}

/* A note that does not fit into the pipe is lost; that takes thousands of workers at one moment. */
void ls_listener_trust(struct ls_listener *listener, int fd) {
    if (listener && fd >= 0) (void)!write(listener->notes[1], &fd, sizeof(fd));
}

void ls_listener_free(struct ls_listener *listener) {
    int stop = -1;
    if (!listener) return;
    while (write(listener->notes[1], &stop, sizeof(stop)) != (ssize_t)sizeof(stop)) (void)poll(NULL, 0, 1);
    (void)pthread_join(listener->thread, NULL);
    release(listener);
}
