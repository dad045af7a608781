/* A control stream as the protocol sees it: a call of gRPC of its own, or one that another worker carries (carried.h).
 * Both keep order, and both end with the same callbacks. With the monitor held. */
#pragma once
#include "cluster/cluster_private.h"
#include "cluster/rpc/rpc.h"

#define LS_STREAM_ROOM 256 /* bytes that a stream has for the state of its handshake */

/* The part of a stream that another worker carries. */
struct ls_carriage {
    struct ls_control_stream *next; /* of the streams with that worker, or of those that have ended */
    int other, carrier;             /* ranks: at its other end, and in between */
    uint64_t number;                /* counted by who dialled */
    bool incoming, opened;
    bool ended;   /* it is in the list of those that have ended */
    bool dropped; /* by this worker: nobody is to hear of its end */
    bool echo;    /* it has ended because the carrier's own stream has */
    bool by_kernel;
    char reason[256];
    struct ls_rpc_caller caller;
};

struct ls_control_stream {
    struct ls_cluster *cluster;
    struct ls_rpc_stream *raw; /* NULL: it is carried */
    struct ls_peer *user;
    bool finishing; /* it ends once nothing is under way on it, or on what it carries */
    bool attached;
    _Alignas(8) uint8_t room[LS_STREAM_ROOM];
    struct ls_carriage carried;
};

/* Takes fd, a connection to the peer, also on failure, and opens a stream of its own on it. */
ls_status ls_stream_open(struct ls_cluster *cluster, int fd, struct ls_peer *peer, struct ls_control_stream **stream);
/* Copies and queues a message; order is kept. Does not wait. */
ls_status ls_stream_send(struct ls_control_stream *stream, const void *data, size_t size);
/* True when all messages that were sent on it, or on what carries it, have left the process. */
bool ls_stream_is_idle(const struct ls_control_stream *stream);
/* Seconds since the other side's kernel last answered on a stream that this side has opened; -1: not known. */
double ls_stream_unanswered(const struct ls_control_stream *stream);
/* No more messages from this side; the other side closes it when it has read them. One that carries others goes on
 * carrying until they have ended. */
void ls_stream_finish(struct ls_control_stream *stream);
/* Cancels; no further callback, the stream must not be used again. Those that pass over it end. */
void ls_stream_drop(struct ls_control_stream *stream);
/* The same for what it carries alone. */
void ls_stream_unload(struct ls_control_stream *stream);
/* Streams that were finished and have not closed yet. */
int ls_stream_count_finishing(const struct ls_cluster *cluster);
/* True when an outgoing stream has ended because the kernel of the other side's host closed its connection, as that
 * host's own speaker has seen it where it was carried. */
bool ls_stream_closed_by_kernel(const struct ls_control_stream *stream);
/* Writes the reason of an outgoing stream's end, in gRPC's words or in those of its carrier. */
void ls_stream_reason(const struct ls_control_stream *stream, char *text, size_t size);
/* The peer at the other end, once a handshake has named it; NULL before. */
void ls_stream_set_user(struct ls_control_stream *stream, struct ls_peer *peer);
struct ls_peer *ls_stream_user(const struct ls_control_stream *stream);
/* Zeroed memory of the stream's, of up to LS_STREAM_ROOM bytes; what was attached, NULL at first. */
void *ls_stream_attach(struct ls_control_stream *stream);
void *ls_stream_attachment(struct ls_control_stream *stream);
const struct ls_rpc_caller *ls_stream_caller(const struct ls_control_stream *stream);
bool ls_stream_incoming(const struct ls_control_stream *stream);
bool ls_stream_is_carried(const struct ls_control_stream *stream);
/* The callbacks of gRPC. */
void ls_stream_message(void *context, struct ls_rpc_stream *raw, const void *data, size_t size);
void ls_stream_closed(void *context, struct ls_rpc_stream *raw);
