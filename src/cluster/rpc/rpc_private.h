/* The rpc*.c files share this header: the queue and its one poller (rpc.c), and control streams (rpc_stream.c). It is
 * the only header that includes gRPC; nothing but these files includes it. */
#pragma once
#include <grpc/grpc.h>
#include <stdatomic.h>

#include "cluster/rpc/rpc.h"

#define LS_RPC_CONTROL "/lockstep.Cluster/Control"

/* The queue gives a tag back when an operation has ended. The poller calls done with nothing held. */
struct ls_rpc_tag {
    void (*done)(struct ls_rpc_tag *tag, bool success);
};

struct ls_rpc {
    struct ls_rpc_config config;
    grpc_completion_queue *queue;
    grpc_server *server;
    struct ls_rpc_tag arrive_tag, shutdown_tag, nudge_tag;
    grpc_call *arrived;
    grpc_call_details arrived_details;
    grpc_metadata_array arrived_metadata;
    grpc_server_credentials *server_credentials;
    grpc_channel_credentials *channel_credentials;
    struct ls_rpc_stream *streams;
    int incoming_streams;
    grpc_channel *nowhere; /* of nudge */
    grpc_call *nudge;      /* a call that is never made: its empty batches are events */
    bool arriving, stopping, server_down, queue_down;
    pthread_t poller;
    atomic_uint served, started; /* events, and operations, so far */
    unsigned looked;             /* served, when ls_rpc_is_served was last called */
};

/* rpc_log.c */
/* gRPC's own lines do not reach stderr as they are. */
void ls_rpc_log_take(void);

/* rpc.c */
/* Starts op, whose end is an event with tag. NULL: an empty batch, which ends at once. Returns false if gRPC refuses
 * it. */
bool ls_rpc_start(struct ls_rpc *rpc, grpc_call *call, const grpc_op *op, struct ls_rpc_tag *tag);
/* Fills in the other side's descriptor, address and certificate. */
void ls_rpc_identify(const struct ls_rpc *rpc, grpc_call *call, struct ls_rpc_caller *caller);
/* Takes fd: a channel over a connected socket. */
grpc_channel *ls_rpc_channel(struct ls_rpc *rpc, int fd, const char *target);
/* Shuts the queue down if nothing is left that could put events into it. With the monitor held, after a stream has
 * gone. */
void ls_rpc_end_queue(struct ls_rpc *rpc);
