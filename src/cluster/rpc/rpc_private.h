/* The rpc*.c files share this header: the queue and its one poller (rpc.c), control streams (rpc_stream.c) and data
 * links (rpc_link.c). It is the only header that includes gRPC; nothing but these files includes it. */
#pragma once
#include <grpc/grpc.h>
#include <stdatomic.h>

#include "cluster/rpc/rpc.h"

#define LS_RPC_CONTROL "/lockstep.Cluster/Control"
#define LS_RPC_DATA    "/lockstep.Cluster/Data"

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
    struct ls_rpc_link *links;
    int incoming_streams, link_count;
    grpc_channel *nowhere; /* of nudge */
    grpc_call *nudge;      /* a call that is never made: its empty batches are events */
    bool arriving, stopping, server_down, queue_down;
    pthread_t poller;
    atomic_int holders;          /* of this memory: ls_rpc_free and the links */
    atomic_int drivers;          /* threads in ls_rpc_wait */
    atomic_int_fast64_t driven;  /* time at which the last of them left it */
    atomic_uint served, seen;    /* events so far; before ls_rpc_wait last returned */
    atomic_uint started;         /* operations so far */
    unsigned looked;             /* served, when ls_rpc_is_served was last called */
    atomic_bool closing, closed; /* the poller is not to rest; there is no queue any more */
};

/* rpc.c */
/* Starts op, whose end is an event with tag. NULL: an empty batch, which ends at once. False: gRPC refuses it. */
bool ls_rpc_start(struct ls_rpc *rpc, grpc_call *call, const grpc_op *op, struct ls_rpc_tag *tag);
/* Waits for one event of the queue, up to so many milliseconds, and handles it in the calling thread. That is quicker
 * than to be woken by the poller, which rests meanwhile, and for a moment after. Returns at once when there was an
 * event since it last returned. With nothing held; for one thread at a time. */
void ls_rpc_wait(struct ls_rpc *rpc, int milliseconds);
void ls_rpc_hold(struct ls_rpc *rpc);
void ls_rpc_let_go(struct ls_rpc *rpc);
/* Fills in the other side's descriptor, address and certificate. */
void ls_rpc_identify(const struct ls_rpc *rpc, grpc_call *call, struct ls_rpc_caller *caller);
/* Takes fd: a channel over a connected socket. */
grpc_channel *ls_rpc_channel(struct ls_rpc *rpc, int fd, const char *target);
/* Shuts the queue down if nothing is left that could put events into it. With the monitor held, after a stream or a
 * link has gone. */
void ls_rpc_end_queue(struct ls_rpc *rpc);
