/* Control streams and data links: long-lived calls in both directions over connected sockets. Hides gRPC; nothing else
 * knows it.
 *
 * The caller's monitor guards the control streams: all functions but those that say otherwise are called with it
 * held, and the callbacks of streams come with it held, from the one poller thread; they must not wait. Data links
 * have locks of their own. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/thread.h"
#include "collective/transport.h"

struct ls_rpc;
struct ls_rpc_stream;
/* Who is at the other end of a call that arrived. */
struct ls_rpc_caller {
    char address[64];  /* "10.0.0.9:4711", for people */
    int fd;            /* as it was given to ls_rpc_serve; -1 with TLS */
    char *certificate; /* PEM, not checked yet; NULL: none */
};
/* With this, all connections are TLS, and gRPC itself listens and connects. Texts in PEM; all is borrowed. */
struct ls_rpc_tls {
    const char *certificate, *key; /* NULL, both: who only dials may have none */
    const char *authority;
    char (*addresses)[64]; /* [address_count], "127.0.0.1:2222": to listen on */
    int address_count;
};
struct ls_rpc_config {
    struct ls_monitor *monitor; /* borrowed */
    void *context;
    size_t message_max;           /* bytes */
    const struct ls_rpc_tls *tls; /* during ls_rpc_new; NULL: no TLS */
    double silence_timeout;       /* seconds until an incoming stream is closed that has got no user */
    /* A message came. data is valid during the call. */
    void (*message)(void *context, struct ls_rpc_stream *stream, const void *data, size_t size);
    /* The stream has ended; the last callback for it, and the end of its life. */
    void (*closed)(void *context, struct ls_rpc_stream *stream);
    /* The next two come with nothing held; NULL, both: no data links.
     * Somebody opens a data link and shows this preface, any bytes. True: link is taken; false: it is refused. */
    bool (*link_arrived)(void *context, const struct ls_rpc_caller *caller, const void *preface, size_t size,
                         struct ls_link *link);
    /* A link that this side has opened was answered or refused. */
    void (*link_changed)(void *context);
};

/* Not with the monitor held. */
ls_status ls_rpc_new(const struct ls_rpc_config *config, struct ls_rpc **rpc);
/* Cancels all streams without callbacks, ends the poller and frees. Not with the monitor held. */
void ls_rpc_free(struct ls_rpc *rpc);
/* Takes fd, a connection that somebody opened to this worker. Its streams appear with their first message. */
void ls_rpc_serve(struct ls_rpc *rpc, int fd);
/* Takes fd, a connection to a worker, also on failure, and opens a stream on it, or, with TLS, on another one to the
 * same address, where a certificate for the name target is demanded. */
ls_status ls_rpc_open(struct ls_rpc *rpc, int fd, const char *target, struct ls_rpc_stream **stream);
/* Copies and queues a message; order is kept. Does not wait. */
ls_status ls_rpc_send(struct ls_rpc_stream *stream, const void *data, size_t size);
/* Whether what was sent on it has all been handed over. */
bool ls_rpc_is_idle(const struct ls_rpc_stream *stream);
/* Seconds since the other side's kernel last answered on a stream that this side has opened; -1: not known. */
double ls_rpc_unanswered(const struct ls_rpc_stream *stream);
/* No more messages from this side: an outgoing stream closes once the other side has read them all; an incoming one
 * waits for the other side to close. closed() follows in both cases. */
void ls_rpc_finish(struct ls_rpc_stream *stream);
/* Cancels; no further callback, the stream must not be used again. */
void ls_rpc_drop(struct ls_rpc_stream *stream);
/* Whether an event of the queue has been seen to since the last call. For one thread. */
bool ls_rpc_is_served(struct ls_rpc *rpc);
/* An event that nothing comes of. */
void ls_rpc_nudge(struct ls_rpc *rpc);
/* Streams that were finished and have not closed yet. */
int ls_rpc_finishing(const struct ls_rpc *rpc);
/* Why an outgoing stream has ended, in gRPC's words. */
void ls_rpc_reason(const struct ls_rpc_stream *stream, char *text, size_t size);
/* A pointer of the caller's, NULL at first: a stream without one is a stranger's, and closed before long. */
void ls_rpc_set_user(struct ls_rpc_stream *stream, void *user);
void *ls_rpc_user(const struct ls_rpc_stream *stream);
/* Takes memory, which is freed with the stream, and gives it back; NULL at first. */
void ls_rpc_attach(struct ls_rpc_stream *stream, void *memory);
void *ls_rpc_attachment(const struct ls_rpc_stream *stream);
/* Of a stream that somebody opened. */
const struct ls_rpc_caller *ls_rpc_caller(const struct ls_rpc_stream *stream);
bool ls_rpc_incoming(const struct ls_rpc_stream *stream);

enum ls_rpc_link_state { LS_RPC_LINK_OPENING, LS_RPC_LINK_OPEN, LS_RPC_LINK_CLOSED };
/* Takes fd, a connection to a worker, also on failure, and opens a data link on it that shows the preface. Send and
 * receive are for when it is open, and never with the monitor held. It may be closed after ls_rpc_free too. */
ls_status ls_rpc_link_open(struct ls_rpc *rpc, int fd, const char *target, const void *preface, size_t size,
                           struct ls_link **link);
enum ls_rpc_link_state ls_rpc_link_state(struct ls_link *link);
