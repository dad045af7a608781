/* Control streams on gRPC core: the only file that includes gRPC. One server without a port of its own, one completion
 * queue, one poller thread ("ls-cluster"). A stream is one call of /lockstep.Cluster/Control; each of its operations
 * under way counts in `pending`, and the stream is freed when it has closed and none is left.
 *
 * gRPC gets connected sockets only, so its name resolution, proxies and reconnect back-off play no part. Its minimal
 * stack is not asked for: that would take the limits on message size and idle connections away too. */
#include "cluster/rpc.h"

#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

#define METHOD          "/lockstep.Cluster/Control"
#define MAX_STREAMS     4096  /* incoming ones at a time */
#define IDLE_CONNECTION 30000 /* milliseconds that an incoming connection may stay without a stream */
#define SWEEP_INTERVAL  500   /* milliseconds between looks for silent streams */

enum operation { OP_ARRIVE, OP_START, OP_READ, OP_SEND, OP_END, OP_SHUTDOWN, OP_COUNT };

struct tag {
    enum operation operation;
    struct ls_rpc_stream *stream; /* NULL for those of the server */
};

struct outgoing_message {
    struct outgoing_message *next;
    grpc_byte_buffer *buffer;
};

struct ls_rpc_stream {
    struct ls_rpc *rpc;
    struct ls_rpc_stream *next, **back;
    grpc_channel *channel; /* of an outgoing stream */
    grpc_call *call;
    void *user;
    struct tag tags[OP_COUNT];
    struct outgoing_message *first, **last, *in_flight;
    grpc_byte_buffer *received;
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice details;
    int64_t deadline; /* for the first message; LS_NEVER once it came */
    int pending, cancelled;
    bool incoming, sending, finishing, half_closed, quiet, closed, reading;
};

struct ls_rpc {
    struct ls_rpc_config config;
    grpc_completion_queue *queue;
    grpc_server *server;
    grpc_server_credentials *server_credentials;
    grpc_channel_credentials *channel_credentials;
    struct tag arrive_tag, shutdown_tag;
    grpc_call *arrived;
    grpc_call_details arrived_details;
    grpc_metadata_array arrived_metadata;
    struct ls_rpc_stream *streams;
    int incoming_count;
    bool arriving, stopping, server_down, queue_down;
    pthread_t poller;
};

/* Starts an operation; a stream for which gRPC refuses one can only be cancelled. */
static bool start(struct ls_rpc_stream *stream, enum operation operation, const grpc_op *op) {
    if (grpc_call_start_batch(stream->call, op, 1, &stream->tags[operation], NULL) == GRPC_CALL_OK) {
        stream->pending++;
        return true;
    }
    (void)grpc_call_cancel(stream->call, NULL);
    return false;
}

static void start_read(struct ls_rpc_stream *stream) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &stream->received;
    stream->reading = start(stream, OP_READ, &op);
}

static void free_message(struct outgoing_message *message) {
    if (!message) return;
    grpc_byte_buffer_destroy(message->buffer);
    ls_free(message);
}

static struct outgoing_message *take_message(struct ls_rpc_stream *stream) {
    struct outgoing_message *message = stream->first;
    if (!message) return NULL;
    stream->first = message->next;
    if (!stream->first) stream->last = &stream->first;
    return message;
}

static void start_send(struct ls_rpc_stream *stream) {
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .flags = GRPC_WRITE_THROUGH};
    if (stream->sending || stream->closed) return;
    if ((stream->in_flight = take_message(stream))) {
        op.data.send_message.send_message = stream->in_flight->buffer;
    } else if (stream->finishing && !stream->incoming && !stream->half_closed) {
        op = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
        stream->half_closed = true;
    } else {
        return;
    }
    stream->sending = true;
    (void)start(stream, OP_SEND, &op);
}

static struct ls_rpc_stream *add_stream(struct ls_rpc *rpc, bool incoming) {
    struct ls_rpc_stream *stream = ls_alloc(sizeof(*stream));
    if (!stream) return NULL;
    stream->rpc = rpc;
    stream->incoming = incoming;
    stream->last = &stream->first;
    stream->details = grpc_empty_slice();
    stream->deadline = incoming ? ls_deadline_in(rpc->config.silence_timeout) : LS_NEVER;
    for (int i = 0; i < OP_COUNT; i++) stream->tags[i] = (struct tag){(enum operation)i, stream};
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    stream->next = rpc->streams;
    if (stream->next) stream->next->back = &stream->next;
    stream->back = &rpc->streams;
    rpc->streams = stream;
    rpc->incoming_count += incoming;
    return stream;
}

static void free_stream(struct ls_rpc_stream *stream) {
    free_message(stream->in_flight);
    while (stream->first) free_message(take_message(stream));
    if (stream->received) grpc_byte_buffer_destroy(stream->received);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_slice_unref(stream->details);
    if (stream->call) grpc_call_unref(stream->call);
    if (stream->channel) grpc_channel_destroy(stream->channel);
    *stream->back = stream->next;
    if (stream->next) stream->next->back = stream->back;
    stream->rpc->incoming_count -= stream->incoming;
    ls_free(stream);
}

static void close_stream(struct ls_rpc_stream *stream) {
    if (stream->closed) return;
    stream->closed = true;
    if (!stream->quiet) stream->rpc->config.closed(stream->rpc->config.context, stream);
    stream->quiet = true;
}

static void deliver(struct ls_rpc_stream *stream) {
    const struct ls_rpc_config *config = &stream->rpc->config;
    grpc_byte_buffer_reader reader;
    stream->deadline = LS_NEVER;
    if (stream->received->data.raw.compression != GRPC_COMPRESS_NONE ||
        grpc_byte_buffer_length(stream->received) > config->message_max ||
        !grpc_byte_buffer_reader_init(&reader, stream->received)) {
        (void)grpc_call_cancel(stream->call, NULL);
        return;
    }
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    config->message(config->context, stream, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
}

/* The other side has read everything and says no more: an incoming stream answers with the final status. */
static void end_incoming(struct ls_rpc_stream *stream) {
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = GRPC_STATUS_OK;
    close_stream(stream);
    (void)start(stream, OP_START, &op);
}

static void finish_read(struct ls_rpc_stream *stream, bool success) {
    if (success && stream->received) {
        if (!stream->quiet) deliver(stream);
        grpc_byte_buffer_destroy(stream->received);
        stream->received = NULL;
        start_read(stream);
        return;
    }
    stream->reading = false;
    if (stream->incoming) end_incoming(stream);
}

static void finish_send(struct ls_rpc_stream *stream, bool success) {
    stream->sending = false;
    free_message(stream->in_flight);
    stream->in_flight = NULL;
    if (success) start_send(stream);
}

static void begin_incoming(struct ls_rpc_stream *stream) {
    grpc_op begin = {.op = GRPC_OP_SEND_INITIAL_METADATA}, close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    close.data.recv_close_on_server.cancelled = &stream->cancelled;
    stream->sending = true; /* until the initial metadata is out */
    (void)start(stream, OP_SEND, &begin);
    (void)start(stream, OP_END, &close);
    start_read(stream);
}

static void refuse_call(grpc_call *call, grpc_status_code code, const char *why) {
    (void)grpc_call_cancel_with_status(call, code, why, NULL);
    grpc_call_unref(call);
}

static void request_call(struct ls_rpc *rpc) {
    grpc_call_details_init(&rpc->arrived_details);
    grpc_metadata_array_init(&rpc->arrived_metadata);
    rpc->arriving = grpc_server_request_call(rpc->server, &rpc->arrived, &rpc->arrived_details, &rpc->arrived_metadata,
                                             rpc->queue, rpc->queue, &rpc->arrive_tag) == GRPC_CALL_OK;
}

static void accept_call(struct ls_rpc *rpc, grpc_call *call, bool known) {
    struct ls_rpc_stream *stream = NULL;
    if (!known) {
        refuse_call(call, GRPC_STATUS_UNIMPLEMENTED, "this is a Lockstep worker");
        return;
    }
    if (rpc->incoming_count < MAX_STREAMS && !rpc->stopping) stream = add_stream(rpc, true);
    if (!stream) {
        refuse_call(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no room for another stream");
        return;
    }
    stream->call = call;
    begin_incoming(stream);
}

static void finish_arrival(struct ls_rpc *rpc, bool success) {
    bool known = success && grpc_slice_str_cmp(rpc->arrived_details.method, METHOD) == 0;
    grpc_call *call = rpc->arrived;
    grpc_call_details_destroy(&rpc->arrived_details);
    grpc_metadata_array_destroy(&rpc->arrived_metadata);
    rpc->arrived = NULL;
    rpc->arriving = false;
    if (success) accept_call(rpc, call, known);
    if (!rpc->stopping) request_call(rpc);
}

static void dispatch_stream(struct ls_rpc_stream *stream, enum operation operation, bool success) {
    stream->pending--;
    switch (operation) {
    case OP_READ:
        finish_read(stream, success);
        break;
    case OP_SEND:
        finish_send(stream, success);
        break;
    case OP_END:
        if (!stream->incoming || !stream->reading) close_stream(stream);
        break;
    default:
        break;
    }
    if (stream->closed && !stream->pending) free_stream(stream);
}

static void dispatch(struct ls_rpc *rpc, const struct tag *tag, bool success) {
    if (tag->stream)
        dispatch_stream(tag->stream, tag->operation, success);
    else if (tag->operation == OP_ARRIVE)
        finish_arrival(rpc, success);
    else
        rpc->server_down = true;
}

static void close_silent_streams(struct ls_rpc *rpc) {
    int64_t now = ls_now();
    for (struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next)
        if (stream->deadline <= now) {
            stream->deadline = LS_NEVER;
            (void)grpc_call_cancel_with_status(stream->call, GRPC_STATUS_DEADLINE_EXCEEDED, "no Hello came", NULL);
        }
}

/* Once nothing is left that could put events into the queue, the queue itself is shut down. */
static void end_queue(struct ls_rpc *rpc) {
    if (!rpc->stopping || rpc->queue_down || rpc->streams || rpc->arriving || !rpc->server_down) return;
    rpc->queue_down = true;
    grpc_completion_queue_shutdown(rpc->queue);
}

static void *poll_queue(void *argument) {
    struct ls_rpc *rpc = argument;
    for (;;) {
        gpr_timespec until =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(SWEEP_INTERVAL, GPR_TIMESPAN));
        grpc_event event = grpc_completion_queue_next(rpc->queue, until, NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        ls_monitor_lock(rpc->config.monitor);
        if (event.type == GRPC_OP_COMPLETE)
            dispatch(rpc, event.tag, event.success != 0);
        else
            close_silent_streams(rpc);
        end_queue(rpc);
        ls_monitor_broadcast(rpc->config.monitor);
        ls_monitor_unlock(rpc->config.monitor);
    }
}

static grpc_arg integer_argument(const char *key, int value) {
    union {
        const char *in;
        char *out;
    } cast = {key};
    grpc_arg argument = {.type = GRPC_ARG_INTEGER, .key = cast.out};
    argument.value.integer = value;
    return argument;
}

static void make_server(struct ls_rpc *rpc) {
    grpc_arg list[] = {
        integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)rpc->config.message_max),
        integer_argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4),
        integer_argument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_CONNECTION),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        integer_argument(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_args arguments = {sizeof(list) / sizeof(list[0]), list};
    rpc->server = grpc_server_create(&arguments, NULL);
    grpc_server_register_completion_queue(rpc->server, rpc->queue, NULL);
    grpc_server_start(rpc->server);
    request_call(rpc);
}

ls_status ls_rpc_new(const struct ls_rpc_config *config, struct ls_rpc **made) {
    struct ls_rpc *rpc = ls_alloc(sizeof(*rpc));
    if (!rpc) return ls_fail_memory("the control streams", sizeof(*rpc));
    rpc->config = *config;
    rpc->arrive_tag = (struct tag){OP_ARRIVE, NULL};
    rpc->shutdown_tag = (struct tag){OP_SHUTDOWN, NULL};
    grpc_init();
    rpc->queue = grpc_completion_queue_create_for_next(NULL);
    rpc->server_credentials = grpc_insecure_server_credentials_create();
    rpc->channel_credentials = grpc_insecure_credentials_create();
    make_server(rpc);
    ls_status status = ls_thread_start(&rpc->poller, "ls-cluster", poll_queue, rpc);
    if (status) {
        rpc->stopping = true;
        grpc_server_shutdown_and_notify(rpc->server, rpc->queue, &rpc->shutdown_tag);
        grpc_server_cancel_all_calls(rpc->server);
        (void)poll_queue(rpc);
        rpc->poller = pthread_self();
        ls_rpc_free(rpc);
        return status;
    }
    *made = rpc;
    return LS_OK;
}

static void begin_shutdown(struct ls_rpc *rpc) {
    if (rpc->stopping) return;
    rpc->stopping = true;
    for (struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next) {
        stream->quiet = true;
        (void)grpc_call_cancel(stream->call, NULL);
    }
    grpc_server_shutdown_and_notify(rpc->server, rpc->queue, &rpc->shutdown_tag);
    grpc_server_cancel_all_calls(rpc->server);
}

void ls_rpc_free(struct ls_rpc *rpc) {
    if (!rpc) return;
    ls_monitor_lock(rpc->config.monitor);
    begin_shutdown(rpc);
    ls_monitor_unlock(rpc->config.monitor);
    if (!pthread_equal(rpc->poller, pthread_self())) (void)pthread_join(rpc->poller, NULL);
    grpc_server_destroy(rpc->server);
    grpc_completion_queue_destroy(rpc->queue);
    grpc_server_credentials_release(rpc->server_credentials);
    grpc_channel_credentials_release(rpc->channel_credentials);
    grpc_shutdown();
    ls_free(rpc);
}

static void set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void ls_rpc_serve(struct ls_rpc *rpc, int fd) {
    if (rpc->stopping) {
        (void)close(fd);
        return;
    }
    set_nonblocking(fd);
    grpc_server_add_channel_from_fd(rpc->server, fd, rpc->server_credentials);
}

static grpc_channel *open_channel(struct ls_rpc *rpc, int fd, const char *target) {
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

static void begin_outgoing(struct ls_rpc_stream *stream) {
    grpc_op begin = {.op = GRPC_OP_SEND_INITIAL_METADATA}, initial = {.op = GRPC_OP_RECV_INITIAL_METADATA},
            end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    initial.data.recv_initial_metadata.recv_initial_metadata = &stream->initial;
    end.data.recv_status_on_client.trailing_metadata = &stream->trailing;
    end.data.recv_status_on_client.status = &stream->code;
    end.data.recv_status_on_client.status_details = &stream->details;
    stream->sending = true; /* until the initial metadata is out */
    (void)start(stream, OP_SEND, &begin);
    (void)start(stream, OP_START, &initial);
    (void)start(stream, OP_END, &end);
    start_read(stream);
}

ls_status ls_rpc_open(struct ls_rpc *rpc, int fd, const char *target, struct ls_rpc_stream **made) {
    struct ls_rpc_stream *stream = rpc->stopping ? NULL : add_stream(rpc, false);
    if (!stream) {
        (void)close(fd);
        return ls_fail_memory("a control stream", sizeof(*stream));
    }
    stream->channel = open_channel(rpc, fd, target);
    stream->call = grpc_channel_create_call(stream->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue,
                                            grpc_slice_from_static_string(METHOD), NULL,
                                            gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    begin_outgoing(stream);
    *made = stream;
    return LS_OK;
}

ls_status ls_rpc_send(struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct outgoing_message *message = ls_alloc(sizeof(*message));
    if (!message) return ls_fail_memory("a control message", sizeof(*message));
    grpc_slice slice = grpc_slice_from_copied_buffer(data, size);
    message->buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    *stream->last = message;
    stream->last = &message->next;
    start_send(stream);
    return LS_OK;
}

void ls_rpc_finish(struct ls_rpc_stream *stream) {
    stream->finishing = true;
    start_send(stream);
}

void ls_rpc_drop(struct ls_rpc_stream *stream) {
    stream->quiet = true;
    (void)grpc_call_cancel(stream->call, NULL);
}

int ls_rpc_finishing(const struct ls_rpc *rpc) {
    int count = 0;
    for (const struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next)
        count += stream->finishing && !stream->closed;
    return count;
}

void ls_rpc_set_user(struct ls_rpc_stream *stream, void *user) {
    stream->user = user;
}

void *ls_rpc_user(const struct ls_rpc_stream *stream) {
    return stream->user;
}

bool ls_rpc_incoming(const struct ls_rpc_stream *stream) {
    return stream->incoming;
}
