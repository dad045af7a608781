/* One thread ("ls-listener") polls the listening sockets and the strangers. A stranger passes these steps, and
 * docs/security.md ("Strangers") has the limit of each:
 * 1. accept_from lists it. The oldest is closed if there are too many of one source or in all, so that a flood never
 *    keeps a worker from being heard. Each has ten seconds for all steps.
 * 2. With TLS it takes a token of its source's bucket (rate_limit.h) and makes the handshake; a relay then decrypts.
 * 3. inspect peeks at its first bytes (MSG_PEEK): they stay in the socket for the reader that they decide on. A data
 *    connection or a probe leaves the list. A control connection takes a token, if TLS has not, and goes to gRPC
 *    through a relay that lets no more pass than a Hello takes.
 * 4. ls_listener_trust ends the watch over a control connection and gives the token back. Until then a second
 *    descriptor of gRPC's inner end lets the listener shut it down. */
#define _GNU_SOURCE
#include "cluster/net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/accept.h"
#include "base/clock.h"
#include "base/deadlines.h"
#include "base/new.h"
#include "base/thread.h"
#include "cluster/net/rate_limit.h"
#include "cluster/net/http2_frames.h"
#include "cluster/net/address.h"

#define MAX_STRANGERS 512 /* in all; from one address half as many */
#define DESCRIPTORS   4   /* of a stranger: its own, three of the relay's pair */
#define LOOKS         8   /* at a TLS handshake, before it is looked at every LS_LOOK_AGAIN alone */

#define ENDED 0 /* a deadline: the stranger goes, the connection stays */

struct stranger {
    int fd;                        /* the connection, or a second descriptor of its inner end ... */
    int handed;                    /* ... that gRPC has under this number; -1 before */
    char who[LS_ADDRESS_TEXT];     /* once it has gone through the relay, or is on its way there */
    struct ls_tls *tls;            /* of a handshake under way; NULL: none */
    bool told;                     /* it was sent the reason of its refusal, and has to close ... */
    bool differs;                  /* ... because only one of the two sides has TLS */
    struct ls_http2_frames frames; /* of a refused control connection, whose call is to be answered */
    bool relayed, writes;          /* fd is the inner end of a relay; the handshake waits for room to write */
    int looks;                     /* at the handshake */
    int64_t deadline, inspect_at;  /* inspect_at: not polled until then */
    struct ls_rate_source source;
};

struct ls_listener {
    struct ls_listener_config config;
    int listening[LS_MAX_LISTEN];
    int notes[2]; /* a pipe of numbers: descriptors to be trusted; -1: stop */
    struct ls_accept accept;
    struct stranger strangers[MAX_STRANGERS]; /* the oldest first */
    int stranger_count, most;                 /* most: that may be here */
    struct ls_rate_limit limit;               /* of connections handed on to gRPC */
    pthread_t thread;
};

/* ---- strangers ---- */

static void forget_stranger(struct ls_listener *listener, int index) {
    struct stranger *strangers = listener->strangers;
    listener->stranger_count--;
    memmove(&strangers[index], &strangers[index + 1], (size_t)(listener->stranger_count - index) * sizeof(*strangers));
}

static void close_stranger(const struct stranger *stranger) {
    ls_tls_free(stranger->tls);
    (void)close(stranger->fd);
}

static void refuse(struct ls_listener *listener, const struct stranger *stranger, enum ls_refusal kind,
                   const char *why) {
    char who[LS_ADDRESS_TEXT];
    if (!*stranger->who) ls_address_describe(stranger->fd, false, who);
    ls_refusals_note(listener->config.refusals, kind, *stranger->who ? stranger->who : who, why);
    if (stranger->handed >= 0) (void)shutdown(stranger->fd, SHUT_RDWR); /* gRPC and the relay close their own */
    close_stranger(stranger);
}

/* Returns the oldest stranger of this source (NULL: of any), if possible one that has not shown its kind. -1: none. */
static int find_oldest(const struct ls_listener *listener, const struct ls_rate_source *source) {
    int handed = -1;
    for (int i = 0; i < listener->stranger_count; i++) {
        const struct stranger *stranger = &listener->strangers[i];
        if (source && !ls_rate_limit_source_equal(&stranger->source, source)) continue;
        if (stranger->handed < 0) return i;
        if (handed < 0) handed = i;
    }
    return handed;
}

static int count_of(const struct ls_listener *listener, const struct ls_rate_source *source) {
    int count = 0;
    for (int i = 0; i < listener->stranger_count; i++)
        count += ls_rate_limit_source_equal(&listener->strangers[i].source, source);
    return count;
}

static void make_room(struct ls_listener *listener, const struct ls_rate_source *source) {
    bool crowd = count_of(listener, source) >= listener->most / 2;
    if (!crowd && listener->stranger_count < listener->most) return;
    int oldest = find_oldest(listener, crowd ? source : NULL);
    const char *why =
        crowd ? "too many connections from there that are no worker's" : "too many connections that are no worker's";
    refuse(listener, &listener->strangers[oldest], LS_REFUSED_CROWD, why);
    forget_stranger(listener, oldest);
}

static void accept_from(struct ls_listener *listener, int listening) {
    struct sockaddr_storage address = {0};
    for (int fd; (fd = ls_accept_next(&listener->accept, listening, &address)) >= 0;) {
        struct ls_rate_source source = ls_rate_limit_source_of(&address);
        make_room(listener, &source);
        listener->strangers[listener->stranger_count++] =
            (struct stranger){.fd = fd, .handed = -1, .deadline = ls_now() + LS_FIRST_BYTES_TIMEOUT, .source = source};
    }
}

/* ---- handing on ---- */

/* A TLS connection begins with a record of type handshake (22); its version's first byte is 3 (RFC 8446, 5.1). */
static bool is_tls(const uint8_t *bytes, size_t size) {
    return bytes[0] == 0x16 && (size < 2 || bytes[1] == 3);
}

/* A worker's connection gets back the token that its handshake took. */
static void give_token_back(struct ls_listener *listener, const struct stranger *stranger, bool worker) {
    if (worker && stranger->relayed) ls_rate_limit_give_back(&listener->limit, &stranger->source);
}

static bool hand_on_data(struct ls_listener *listener, const struct stranger *stranger) {
    uint8_t bytes[LS_PREFACE_SIZE];
    struct ls_preface preface;
    ls_address_tune(stranger->fd);
    if (recv(stranger->fd, bytes, sizeof(bytes), 0) == LS_PREFACE_SIZE && ls_preface_decode(bytes, &preface) == LS_OK)
        give_token_back(listener, stranger, listener->config.data(listener->config.context, stranger->fd, &preface));
    else
        refuse(listener, stranger, LS_REFUSED_DATA, "its first bytes are no data connection's");
    return true;
}

static bool hand_on_probe(struct ls_listener *listener, const struct stranger *stranger) {
    uint8_t bytes[LS_PROBE_SIZE];
    if (recv(stranger->fd, bytes, sizeof(bytes), 0) == LS_PROBE_SIZE)
        listener->config.probe(listener->config.context, stranger->fd);
    else
        refuse(listener, stranger, LS_REFUSED_JUNK, "its first bytes are not Lockstep's");
    return true;
}

/* The control connections that gRPC has under this number leave the list at the next turn. */
static void end_watch(struct ls_listener *listener, int handed, const struct stranger *except) {
    for (int i = 0; i < listener->stranger_count; i++)
        if (listener->strangers[i].handed == handed && &listener->strangers[i] != except)
            listener->strangers[i].deadline = ENDED;
}

static void trust(struct ls_listener *listener, int handed) {
    for (int i = 0; i < listener->stranger_count; i++)
        if (listener->strangers[i].handed == handed)
            ls_rate_limit_give_back(&listener->limit, &listener->strangers[i].source);
    end_watch(listener, handed, NULL);
}

/* stranger->fd becomes the inner end; false: there are no descriptors left. */
static bool begin_relay(struct ls_listener *listener, struct stranger *stranger) {
    if (!*stranger->who) ls_address_describe(stranger->fd, false, stranger->who);
    ls_address_tune(stranger->fd);
    int inner = ls_relay_add(listener->config.relay, stranger->fd, stranger->tls, listener->config.hello_most);
    if (inner < 0) return false;
    stranger->tls = NULL;
    stranger->fd = inner;
    stranger->relayed = true;
    return true;
}

/* The inner end for gRPC; stranger->fd becomes a second descriptor of it. -1: there are no descriptors left. */
static int share_inner(struct ls_listener *listener, struct stranger *stranger) {
    if (!stranger->relayed && !begin_relay(listener, stranger)) return -1;
    int inner = stranger->fd, second = fcntl(inner, F_DUPFD_CLOEXEC, 0);
    if (second < 0) return -1;
    stranger->fd = second;
    return inner;
}

/* Takes a token for work that is expensive. Returns false if the source has none left, and the stranger was refused. */
static bool take_rate_token(struct ls_listener *listener, const struct stranger *stranger) {
    if (ls_rate_limit_take(&listener->limit, &stranger->source, ls_now())) return true;
    refuse(listener, stranger, LS_REFUSED_CROWD, "too many control connections from there that were no worker's");
    return false;
}

/* Stays a stranger; true when it could not be handed on. */
static bool hand_on_control(struct ls_listener *listener, struct stranger *stranger) {
    if (!stranger->relayed && !take_rate_token(listener, stranger)) return true;
    int inner = share_inner(listener, stranger);
    if (inner < 0) {
        refuse(listener, stranger, LS_REFUSED_CROWD, "there are no descriptors left");
        return true;
    }
    stranger->handed = inner;
    end_watch(listener, inner, stranger); /* it has closed the one before, or the number would not come again */
    listener->config.control(listener->config.context, stranger->handed);
    return false;
}

/* Sends the reason before the end. The connection stays open until the other side has closed it, or for
 * LS_REFUSED_TIMEOUT: a close while bytes still come is a reset, and a reset discards the reason unread. */
static bool refuse_in_words(struct ls_listener *listener, struct stranger *stranger, const char *words, size_t size,
                            const char *why) {
    ls_address_describe(stranger->fd, false, stranger->who);
    ls_refusals_note(listener->config.refusals, LS_REFUSED_JUNK, stranger->who, why);
    (void)send(stranger->fd, words, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    stranger->told = true;
    stranger->deadline = ls_now() + LS_REFUSED_TIMEOUT;
    return false;
}

/* One HEADERS frame of 75 bytes, with END_STREAM and END_HEADERS, answers stream 1 with gRPC's status 16,
 * UNAUTHENTICATED. Its block is HPACK (RFC 7541): 0x88 is the entry ":status: 200" of the static table (section 6.1),
 * and 0 opens a literal name and value, each after its length (section 6.2.2). */
static const char want_tls[] = "\0\0\113\1\5\0\0\0\1\210"
                               "\0\14content-type\20application/grpc"
                               "\0\13grpc-status\2"
                               "16"
                               "\0\14grpc-message\14" LS_TLS_HERE;

/* gRPC's client accepts an answer only to a call that it has opened, so the answer waits for the HEADERS frame. */
static void answer_call(struct stranger *stranger, const uint8_t *bytes, size_t size) {
    bool called = stranger->frames.called;
    if (called || ls_http2_frames_look(&stranger->frames, bytes, size) || !stranger->frames.called) return;
    (void)send(stranger->fd, want_tls, sizeof(want_tls) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    stranger->differs = true;
}

/* True when it has closed. */
static bool wait_for_close(const struct ls_listener *listener, struct stranger *stranger) {
    uint8_t bytes[4096];
    ssize_t size = recv(stranger->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (size > 0) answer_call(stranger, bytes, (size_t)size);
    if (size > 0) stranger->inspect_at = ls_now() + LS_LOOK_AGAIN; /* it may say as much as it likes */
    if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) return false;
    close_stranger(stranger);
    if (stranger->differs) listener->config.differed(listener->config.context);
    return true;
}

static bool refuse_junk(struct ls_listener *listener, struct stranger *stranger, const uint8_t *bytes, ssize_t size) {
    stranger->differs = !listener->config.identity && size > 0 && is_tls(bytes, (size_t)size);
    if (size <= 0)
        close_stranger(stranger); /* a program that only tried whether the port is open */
    else if (stranger->differs)
        return refuse_in_words(
            listener, stranger, LS_PLAIN_HERE, sizeof(LS_PLAIN_HERE) - 1,
            "it speaks TLS, and this worker has none: set LOCKSTEP_TLS_* on all workers, or on none");
    else
        refuse(listener, stranger, LS_REFUSED_JUNK, "its first bytes are not Lockstep's");
    return true;
}

static bool hand_on_meet(struct ls_listener *listener, struct stranger *stranger, const uint8_t *bytes) {
    if (!listener->config.meet) return refuse_junk(listener, stranger, bytes, LS_MEET_SIZE);
    listener->config.meet(listener->config.context, stranger->fd);
    return true;
}

/* ---- TLS ---- */

/* A caller in the clear that may be a worker is told that TLS is required. In HTTP/2 a server has to send SETTINGS
 * first, which may be empty (RFC 9113, section 3.4). */
static bool refuse_plain(struct ls_listener *listener, struct stranger *stranger, const uint8_t *bytes, ssize_t size) {
    static const char settings[9] = {[3] = 4}, why[] = "it speaks without TLS, and this worker has it: set "
                                                       "LOCKSTEP_TLS_* on all workers, or on none";
    switch (ls_preface_first_bytes(bytes, (size_t)size)) {
    case LS_FIRST_JUNK:
        return refuse_junk(listener, stranger, bytes, size);
    case LS_FIRST_MORE:
        stranger->inspect_at = ls_now() + LS_LOOK_AGAIN_CROWD;
        return false;
    case LS_FIRST_CONTROL:
        stranger->frames.most = listener->config.hello_most;
        return refuse_in_words(listener, stranger, settings, sizeof(settings), why);
    default:
        return refuse_in_words(listener, stranger, LS_TLS_HERE, sizeof(LS_TLS_HERE) - 1, why);
    }
}

/* The first byte has come. As all steps below, returns true when the stranger has left the list. */
static bool accept_tls(struct ls_listener *listener, struct stranger *stranger) {
    uint8_t bytes[LS_PREFACE_SIZE];
    ssize_t size = recv(stranger->fd, bytes, sizeof(bytes), MSG_PEEK);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (size <= 0) return refuse_junk(listener, stranger, bytes, 0);
    if (!is_tls(bytes, (size_t)size)) return refuse_plain(listener, stranger, bytes, size);
    if (!take_rate_token(listener, stranger)) return true;
    ls_address_describe(stranger->fd, false, stranger->who);
    stranger->tls = ls_tls_new(listener->config.identity, stranger->fd, NULL);
    if (stranger->tls) return false;
    refuse(listener, stranger, LS_REFUSED_CROWD, "there is no memory left");
    return true;
}

static bool go_on_with_tls(struct ls_listener *listener, struct stranger *stranger) {
    char why[320];
    enum ls_tls_state state = ls_tls_open(stranger->tls);
    stranger->writes = state == LS_TLS_WRITES;
    if (state < LS_TLS_OPEN && ++stranger->looks > LOOKS) stranger->inspect_at = ls_now() + LS_LOOK_AGAIN;
    if (state < LS_TLS_OPEN) return false;
    if (state == LS_TLS_OPEN && begin_relay(listener, stranger)) return false;
    if (state == LS_TLS_GONE) return refuse_junk(listener, stranger, NULL, 0);
    (void)snprintf(why, sizeof(why), state == LS_TLS_UNTRUSTED ? "its certificate %s" : "no TLS connection: %s",
                   ls_tls_why(stranger->tls));
    refuse(listener, stranger, state == LS_TLS_UNTRUSTED ? LS_REFUSED_CERTIFICATE : LS_REFUSED_JUNK, why);
    return true;
}

static bool step_tls(struct ls_listener *listener, struct stranger *stranger) {
    if (!stranger->tls && accept_tls(listener, stranger)) return true;
    return stranger->tls && go_on_with_tls(listener, stranger);
}

/* ---- the first bytes ---- */

static bool inspect(struct ls_listener *listener, struct stranger *stranger) {
    uint8_t bytes[LS_PREFACE_SIZE];
    if (stranger->told) return wait_for_close(listener, stranger);
    if (listener->config.identity && !stranger->relayed) return step_tls(listener, stranger);
    ssize_t size = recv(stranger->fd, bytes, sizeof(bytes), MSG_PEEK);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    enum ls_first_bytes kind = size > 0 ? ls_preface_first_bytes(bytes, (size_t)size) : LS_FIRST_JUNK;
    bool early = kind == LS_FIRST_CONTROL || kind == LS_FIRST_DATA || kind == LS_FIRST_PROBE;
    if (!listener->config.control && early) return refuse_junk(listener, stranger, bytes, 0); /* it dials again */
    switch (kind) {
    case LS_FIRST_MORE:
        stranger->inspect_at = ls_now() + ls_accept_look_again(listener->stranger_count);
        return false;
    case LS_FIRST_CONTROL:
        return hand_on_control(listener, stranger);
    case LS_FIRST_DATA:
        return hand_on_data(listener, stranger);
    case LS_FIRST_PROBE:
        return hand_on_probe(listener, stranger);
    case LS_FIRST_MEET:
        return hand_on_meet(listener, stranger, bytes);
    default:
        return refuse_junk(listener, stranger, bytes, size);
    }
}

/* ---- the loop ---- */

/* Fills the slots: the pipe of notes, the listening sockets, the strangers. Returns the time to poll until. */
static int64_t fill_slots(const struct ls_listener *listener, struct pollfd *slots, int64_t now) {
    int64_t until = LS_NEVER;
    bool accepting = ls_accept_is_open(&listener->accept, now, &until);
    slots[0] = (struct pollfd){.fd = listener->notes[0], .events = POLLIN};
    for (int i = 0; i < listener->config.listening_count; i++)
        slots[1 + i] = (struct pollfd){.fd = accepting ? listener->listening[i] : -1, .events = POLLIN};
    slots += 1 + listener->config.listening_count;
    for (int i = 0; i < listener->stranger_count; i++) {
        const struct stranger *stranger = &listener->strangers[i];
        bool later = now < stranger->inspect_at;
        slots[i] = (struct pollfd){.fd = later ? -1 : stranger->fd}; /* of those that gRPC has: the end only */
        if (stranger->handed < 0) slots[i].events = stranger->writes ? POLLOUT : POLLIN;
        until = ls_deadline_earlier(until, later ? stranger->inspect_at : stranger->deadline);
    }
    return until;
}

/* Acts on the events that poll has found for one stranger. */
static bool attend_stranger(struct ls_listener *listener, struct stranger *stranger, const struct pollfd *slot,
                            int64_t now) {
    if (slot->revents && stranger->handed < 0 && inspect(listener, stranger)) return true;
    bool over = stranger->handed >= 0 && (slot->revents & (POLLHUP | POLLERR) || stranger->deadline == ENDED);
    over = over || (stranger->told && now >= stranger->deadline);
    if (over)
        close_stranger(stranger);
    else if (now >= stranger->deadline)
        refuse(listener, stranger, LS_REFUSED_SILENT, "it has not said in time that it is a worker");
    else
        return false;
    return true;
}

static void attend_to_all(struct ls_listener *listener, const struct pollfd *slots) {
    int kept = 0;
    int64_t now = ls_now();
    for (int i = 0; i < listener->stranger_count; i++) {
        struct stranger *stranger = &listener->strangers[i];
        if (!attend_stranger(listener, stranger, &slots[i], now)) listener->strangers[kept++] = *stranger;
    }
    listener->stranger_count = kept;
}

/* Returns false if the thread is to stop. */
static bool read_notes(struct ls_listener *listener) {
    for (int note; read(listener->notes[0], &note, sizeof(note)) == (ssize_t)sizeof(note);) {
        if (note < 0) return false;
        trust(listener, note);
    }
    return true;
}

/* The strangers are attended before new ones are accepted, because slots stand for those that fill_slots has seen. */
static void *serve_strangers(void *argument) {
    struct ls_listener *listener = argument;
    struct pollfd slots[1 + LS_MAX_LISTEN + MAX_STRANGERS];
    for (;;) {
        ls_accept_rest(listener->stranger_count);
        int64_t until = fill_slots(listener, slots, ls_now());
        int count = listener->config.listening_count;
        (void)poll(slots, (nfds_t)(1 + count + listener->stranger_count), ls_poll_timeout(until, 60000));
        if (slots[0].revents && !read_notes(listener)) return NULL;
        attend_to_all(listener, slots + 1 + count);
        for (int i = 0; i < count; i++)
            if (slots[1 + i].revents) accept_from(listener, listener->listening[i]);
    }
}

/* ---- the whole ---- */

static void release_listener(struct ls_listener *listener) {
    ls_address_close(listener->listening, listener->config.listening_count);
    for (int i = 0; i < listener->stranger_count; i++) close_stranger(&listener->strangers[i]);
    for (int i = 0; i < 2; i++)
        if (listener->notes[i] >= 0) (void)close(listener->notes[i]);
    ls_free(listener);
}

ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **made) {
    struct ls_listener *listener = ls_alloc(sizeof(*listener));
    if (!listener) {
        ls_address_close(config->listening, config->listening_count);
        return ls_fail_memory("the listener", sizeof(*listener));
    }
    listener->config = *config;
    listener->most = ls_accept_most(MAX_STRANGERS, DESCRIPTORS);
    memcpy(listener->listening, config->listening, (size_t)config->listening_count * sizeof(int));
    ls_status status = LS_OK;
    if (pipe2(listener->notes, O_CLOEXEC | O_NONBLOCK) != 0) {
        listener->notes[0] = listener->notes[1] = -1;
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make a pipe for the listener: %s", strerror(errno));
    } else {
        status = ls_thread_start(&listener->thread, "ls-listener", serve_strangers, listener);
    }
    return LS_HAND_OVER(status, made, listener, release_listener(listener));
}

/* A note that does not fit into the pipe is lost; that takes thousands of workers at one moment. */
void ls_listener_trust(struct ls_listener *listener, int fd) {
    if (!listener || fd < 0) return;
    ls_relay_trust(listener->config.relay, fd);
    (void)!write(listener->notes[1], &fd, sizeof(fd));
}

void ls_listener_free(struct ls_listener *listener) {
    int stop = -1;
    if (!listener) return;
    while (write(listener->notes[1], &stop, sizeof(stop)) != (ssize_t)sizeof(stop)) (void)poll(NULL, 0, 1);
    (void)pthread_join(listener->thread, NULL);
    release_listener(listener);
}
