/* Control streams are long-lived calls of gRPC over connected sockets (docs/protocol.md, "Messages"). This folder hides
 * gRPC; nothing else includes it.
 *
 * The caller's monitor guards the streams. The caller holds it for all functions but those that say otherwise. The
 * callbacks come with it held and must not wait. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/monitor.h"

struct ls_rpc;
struct ls_rpc_stream;
/* The other end of a call that arrived. */
struct ls_rpc_caller {
    char address[64];  /* "10.0.0.9:4711", for people */
    int fd;            /* as it was given to ls_rpc_serve */
    char *certificate; /* with its chain, in PEM, signed by the authority; its name is not checked yet; NULL: none */
};
struct ls_rpc_config {
    struct ls_monitor *monitor; /* borrowed */
    void *context;
    size_t message_max;     /* bytes */
    int streams_most;       /* that arrive, at a time */
    double silence_timeout; /* seconds until an incoming stream is closed that has got no user */
    /* Writes address and certificate of the other side of fd, as it was given to ls_rpc_serve, into *caller. The
     * monitor may be held or not. NULL: the address is the socket's. */
    void (*identify)(void *context, int fd, struct ls_rpc_caller *caller);
    /* A message came. data is valid during the call. */
    void (*message)(void *context, struct ls_rpc_stream *stream, const void *data, size_t size);
    /* The stream has ended; the last callback for it, and the end of its life. */
    void (*closed)(void *context, struct ls_rpc_stream *stream);
};

/* Not with the monitor held. */
ls_status ls_rpc_new(const struct ls_rpc_config *config, struct ls_rpc **rpc);
/* Cancels all streams without callbacks, ends the poller and frees. Not with the monitor held. */
void ls_rpc_free(struct ls_rpc *rpc);
/* Takes fd, a connection that was opened to this worker. Its streams appear with their first message. */
void ls_rpc_serve(struct ls_rpc *rpc, int fd);
/* True when an event of the queue was handled since the last call. For one thread. */
bool ls_rpc_is_served(struct ls_rpc *rpc);
/* Puts an event into the queue that only wakes the thread that waits there. With the monitor held, as most. */
void ls_rpc_nudge(struct ls_rpc *rpc);
