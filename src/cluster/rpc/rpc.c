/* One completion queue and one poller thread ("ls-cluster") serve all calls of this process. The server has no port of
 * its own. rpc_stream.c has the calls; nothing beyond the rpc*.c files includes gRPC.
 *
 * gRPC gets connected sockets only, in the clear: TLS ends in the relay. So its name resolution, proxies and reconnect
 * back-off play no part. Its minimal stack (GRPC_ARG_MINIMAL_STACK) is not used: it has no limits on the size of
 * messages and on idle connections. */
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/new.h"
#include "base/thread.h"
#include "cluster/rpc/rpc_private.h"
#include "cluster/net/address.h"
#include "cluster/rpc/rpc_stream.h"

#define SWEEP_INTERVAL 500 /* milliseconds between looks for silent streams */

/* ---- the queue and its poller ---- */

/* gRPC's queue may be shut down once nothing can put an event into it any more: no stream, no request for a further
 * call, and the server is down. Each of these calls this function when it ends, and the last one shuts down. */
void ls_rpc_end_queue(struct ls_rpc *rpc) {
    if (!rpc->stopping || rpc->queue_down || rpc->streams || rpc->arriving || !rpc->server_down) return;
    rpc->queue_down = true;
    grpc_completion_queue_shutdown(rpc->queue);
}

/* gRPC rounds deadlines up to milliseconds, so that only the past means not to wait at all. */
static gpr_timespec in_milliseconds(int milliseconds) {
    if (!milliseconds) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(milliseconds, GPR_TIMESPAN));
}

/* The thread that takes the event sees all writes from before the operation began. gRPC takes care of that; the counter
 * tells ThreadSanitizer, which does not see into gRPC. */
bool ls_rpc_start(struct ls_rpc *rpc, grpc_call *call, const grpc_op *op, struct ls_rpc_tag *tag) {
    atomic_fetch_add(&rpc->started, 1);
    return grpc_call_start_batch(call, op, op != NULL, tag, NULL) == GRPC_CALL_OK;
}

/* Takes one event and calls its tag's done. Returns false if the queue is down. */
static bool take_event(struct ls_rpc *rpc, int milliseconds) {
    grpc_event event = grpc_completion_queue_next(rpc->queue, in_milliseconds(milliseconds), NULL);
    struct ls_rpc_tag *tag = event.tag;
    (void)atomic_load(&rpc->started);
    if (event.type == GRPC_OP_COMPLETE) {
        tag->done(tag, event.success != 0);
        atomic_fetch_add(&rpc->served, 1);
    }
    return event.type != GRPC_QUEUE_SHUTDOWN;
}

static void finish_nudge(struct ls_rpc_tag *tag, bool success) {
    (void)tag;
    (void)success;
}

/* An empty batch ends at once, and its end is an event. Nobody waits at a queue that is down. */
void ls_rpc_nudge(struct ls_rpc *rpc) {
    if (!rpc->queue_down) (void)ls_rpc_start(rpc, rpc->nudge, NULL, &rpc->nudge_tag);
}

bool ls_rpc_is_served(struct ls_rpc *rpc) {
    unsigned served = atomic_load(&rpc->served);
    bool moved = served != rpc->looked;
    rpc->looked = served;
    return moved;
}

static void sweep(struct ls_rpc *rpc, int64_t *next) {
    if (ls_now() < *next) return;
    *next = ls_now() + SWEEP_INTERVAL * LS_MILLISECOND;
    LS_HOLD(rpc->config.monitor);
    ls_rpc_streams_sweep(rpc);
}

static void *poll_queue(void *argument) {
    struct ls_rpc *rpc = argument;
    int64_t next_sweep = 0;
    while (take_event(rpc, SWEEP_INTERVAL)) sweep(rpc, &next_sweep);
    return NULL;
}

/* ---- connections ---- */

static grpc_arg integer_argument(const char *key, int value) {
    grpc_arg argument = {.type = GRPC_ARG_INTEGER, .key = (char *)key};
    argument.value.integer = value;
    return argument;
}

static void set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

grpc_channel *ls_rpc_channel(struct ls_rpc *rpc, int fd, const char *target) {
    grpc_arg list[] = {
        integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)rpc->config.message_max),
        integer_argument(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        integer_argument(GRPC_ARG_ENABLE_RETRIES, 0),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        integer_argument(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_args arguments = {sizeof(list) / sizeof(list[0]), list};
    set_nonblocking(fd);
    return grpc_channel_create_from_fd(target, fd, rpc->channel_credentials, &arguments);
}

void ls_rpc_serve(struct ls_rpc *rpc, int fd) {
    if (rpc->stopping) {
        (void)close(fd);
        return;
    }
    set_nonblocking(fd);
    grpc_server_add_channel_from_fd(rpc->server, fd, rpc->server_credentials);
}

/* ---- calls that arrive ---- */

static void request_call(struct ls_rpc *rpc) {
    grpc_call_details_init(&rpc->arrived_details);
    grpc_metadata_array_init(&rpc->arrived_metadata);
    atomic_fetch_add(&rpc->started, 1);
    rpc->arriving = grpc_server_request_call(rpc->server, &rpc->arrived, &rpc->arrived_details, &rpc->arrived_metadata,
                                             rpc->queue, rpc->queue, &rpc->arrive_tag) == GRPC_CALL_OK;
}

/* gRPC calls a connection that was given to it "fd:17". */
void ls_rpc_identify(const struct ls_rpc *rpc, grpc_call *call, struct ls_rpc_caller *caller) {
    const struct ls_rpc_config *config = &rpc->config;
    char *name = grpc_call_get_peer(call);
    caller->certificate = NULL;
    caller->fd = strncmp(name, "fd:", 3) == 0 ? atoi(name + 3) : -1;
    if (caller->fd >= 0 && config->identify)
        config->identify(config->context, caller->fd, caller);
    else if (caller->fd >= 0)
        ls_address_describe(caller->fd, false, caller->address);
    else
        (void)snprintf(caller->address, sizeof(caller->address), "%s", name);
    gpr_free(name);
}

static void refuse_call(grpc_call *call, grpc_status_code code, const char *why) {
    (void)grpc_call_cancel_with_status(call, code, why, NULL);
    grpc_call_unref(call);
}

static void accept_control(struct ls_rpc *rpc, grpc_call *call) {
    ls_monitor_lock(rpc->config.monitor);
    bool accepted = ls_rpc_stream_accept(rpc, call);
    ls_monitor_unlock(rpc->config.monitor);
    if (!accepted) refuse_call(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no room for another stream");
}

static void accept_call(struct ls_rpc *rpc) {
    if (grpc_slice_str_cmp(rpc->arrived_details.method, LS_RPC_CONTROL) == 0)
        accept_control(rpc, rpc->arrived);
    else
        refuse_call(rpc->arrived, GRPC_STATUS_UNIMPLEMENTED, "this is a Lockstep worker");
}

/* The rpc whose field tag is. */
#define RPC_OF(tag, field) ((struct ls_rpc *)(void *)((char *)(tag)-offsetof(struct ls_rpc, field)))

/* One call is asked for at a time: the next request starts when the arrived one has been accepted or refused. gRPC
 * keeps further calls waiting meanwhile. */
static void finish_arrival(struct ls_rpc_tag *tag, bool success) {
    struct ls_rpc *rpc = RPC_OF(tag, arrive_tag);
    if (success) accept_call(rpc);
    grpc_call_details_destroy(&rpc->arrived_details);
    grpc_metadata_array_destroy(&rpc->arrived_metadata);
    LS_HOLD(rpc->config.monitor);
    atomic_fetch_add(&rpc->started, 1);
    rpc->arriving = false;
    if (!rpc->stopping) request_call(rpc);
    ls_rpc_end_queue(rpc);
}

static void finish_shutdown(struct ls_rpc_tag *tag, bool success) {
    struct ls_rpc *rpc = RPC_OF(tag, shutdown_tag);
    (void)success;
    LS_HOLD(rpc->config.monitor);
    rpc->server_down = true;
    ls_rpc_end_queue(rpc);
}

/* A connection has one call at a time (MAX_CONCURRENT_STREAMS), and one without a call is closed after LS_IDLE_TIMEOUT.
 * Compression is off, so that a message is as long as its bytes. */
static void make_server(struct ls_rpc *rpc) {
    grpc_arg list[] = {
        integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)rpc->config.message_max),
        integer_argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1),
        integer_argument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, (int)(LS_IDLE_TIMEOUT / LS_MILLISECOND)),
        integer_argument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, (int)(LS_IDLE_TIMEOUT / LS_MILLISECOND)),
        integer_argument(GRPC_ARG_ALLOW_REUSEPORT, 0),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        integer_argument(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_args arguments = {sizeof(list) / sizeof(list[0]), list};
    rpc->arrive_tag.done = finish_arrival;
    rpc->shutdown_tag.done = finish_shutdown;
    rpc->server = grpc_server_create(&arguments, NULL);
    grpc_server_register_completion_queue(rpc->server, rpc->queue, NULL);
    grpc_server_start(rpc->server);
    request_call(rpc);
}

/* ---- the whole ---- */

/* The nudge is a call on a channel without a connection. It is never sent: its empty batches are events. */
static void make_nudge(struct ls_rpc *rpc) {
    rpc->nudge_tag.done = finish_nudge;
    rpc->nowhere = grpc_lame_client_channel_create("nowhere", GRPC_STATUS_UNIMPLEMENTED, "never used");
    rpc->nudge = grpc_channel_create_call(rpc->nowhere, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue,
                                          grpc_slice_from_static_string(LS_RPC_CONTROL), NULL,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static void begin_shutdown(struct ls_rpc *rpc) {
    if (rpc->stopping) return;
    rpc->stopping = true;
    ls_rpc_streams_cancel(rpc);
    atomic_fetch_add(&rpc->started, 1);
    grpc_server_shutdown_and_notify(rpc->server, rpc->queue, &rpc->shutdown_tag);
    grpc_server_cancel_all_calls(rpc->server);
}

/* Ends all calls, serves the queue to its end and frees. thread: poll_queue has a thread of its own; else it runs here.
 */
static void stop(struct ls_rpc *rpc, bool thread) {
    ls_monitor_lock(rpc->config.monitor);
    begin_shutdown(rpc);
    ls_monitor_unlock(rpc->config.monitor);
    if (thread)
        (void)pthread_join(rpc->poller, NULL);
    else
        (void)poll_queue(rpc);
    grpc_call_unref(rpc->nudge);
    grpc_channel_destroy(rpc->nowhere);
    grpc_server_destroy(rpc->server);
    grpc_completion_queue_destroy(rpc->queue);
    grpc_server_credentials_release(rpc->server_credentials);
    grpc_channel_credentials_release(rpc->channel_credentials);
    grpc_shutdown();
    ls_free(rpc);
}

ls_status ls_rpc_new(const struct ls_rpc_config *config, struct ls_rpc **made) {
    LS_NEW(struct ls_rpc, rpc, "the control streams");
    rpc->config = *config;
    ls_rpc_log_take();
    grpc_init();
    rpc->queue = grpc_completion_queue_create_for_next(NULL);
    rpc->server_credentials = grpc_insecure_server_credentials_create();
    rpc->channel_credentials = grpc_insecure_credentials_create();
    make_nudge(rpc);
    make_server(rpc);
    ls_status status = ls_thread_start(&rpc->poller, "ls-cluster", poll_queue, rpc);
    return LS_HAND_OVER(status, made, rpc, stop(rpc, false));
}

void ls_rpc_free(struct ls_rpc *rpc) {
    if (rpc) stop(rpc, true);
}
