/* Control streams: one call of /lockstep.Cluster/Control each. Each of a stream's operations under way counts in
 * `pending`, and the stream is freed when it has closed and none is left. */
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/rpc_private.h"

#define MAX_STREAMS   4096 /* incoming ones at a time ... */
#define MAX_STRANGERS 128  /* ... of which nobody has said yet whose they are; the oldest then goes */

enum operation { OP_START, OP_READ, OP_SEND, OP_END, OP_COUNT };

struct stream_tag {
    struct ls_rpc_tag tag; /* first */
    enum operation operation;
    struct ls_rpc_stream *stream;
};

struct outgoing_message {
    struct outgoing_message *next;
    grpc_byte_buffer *buffer;
};

struct ls_rpc_stream {
    struct ls_rpc *rpc;
    struct ls_rpc_stream *next, **back;
    grpc_channel *channel; /* of an outgoing stream */
    int fd;                /* likewise: the channel's; -1 with TLS */
    grpc_call *call;
    void *user, *attachment;
    struct ls_rpc_caller caller;
    struct stream_tag tags[OP_COUNT];
    struct outgoing_message *first, **last, *in_flight;
    grpc_byte_buffer *received;
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice details;
    int64_t deadline; /* until somebody has said whose it is, or, once it is finished, for the other side to close */
    int pending, cancelled;
    bool incoming, sending, finishing, half_closed, quiet, closed, reading, evicted;
};

/* Starts an operation; a stream for which gRPC refuses one can only be cancelled. */
static bool start(struct ls_rpc_stream *stream, enum operation operation, const grpc_op *op) {
    if (ls_rpc_start(stream->rpc, stream->call, op, &stream->tags[operation].tag)) {
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

static void finish(struct ls_rpc_tag *tag, bool success);

static struct ls_rpc_stream *add_stream(struct ls_rpc *rpc, bool incoming) {
    struct ls_rpc_stream *stream = ls_alloc(sizeof(*stream));
    if (!stream) return NULL;
    stream->rpc = rpc;
    stream->incoming = incoming;
    stream->last = &stream->first;
    stream->details = grpc_empty_slice();
    stream->deadline = incoming ? ls_deadline_in(rpc->config.silence_timeout) : LS_NEVER;
    for (int i = 0; i < OP_COUNT; i++) stream->tags[i] = (struct stream_tag){{finish}, (enum operation)i, stream};
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    stream->next = rpc->streams;
    if (stream->next) stream->next->back = &stream->next;
    stream->back = &rpc->streams;
    rpc->streams = stream;
    rpc->incoming_streams += incoming;
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
    stream->rpc->incoming_streams -= stream->incoming;
    ls_free(stream->caller.certificate);
    ls_free(stream->attachment);
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

/* The oldest stands last in the list. */
static void make_room(struct ls_rpc *rpc) {
    struct ls_rpc_stream *oldest = NULL;
    int strangers = 0;
    for (struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next) {
        if (!stream->incoming || stream->user || stream->evicted) continue;
        strangers++;
        oldest = stream;
    }
    if (strangers < MAX_STRANGERS) return;
    oldest->evicted = true;
    (void)grpc_call_cancel_with_status(oldest->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many strangers", NULL);
}

bool ls_rpc_stream_accept(struct ls_rpc *rpc, grpc_call *call) {
    struct ls_rpc_stream *stream = rpc->incoming_streams < MAX_STREAMS && !rpc->stopping ? add_stream(rpc, true) : NULL;
    if (!stream) return false;
    make_room(rpc);
    stream->call = call;
    ls_rpc_identify(call, &stream->caller);
    begin_incoming(stream);
    return true;
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

static void finish(struct ls_rpc_tag *tag, bool success) {
    const struct stream_tag *own = (const struct stream_tag *)(const void *)tag;
    struct ls_rpc *rpc = own->stream->rpc;
    ls_monitor_lock(rpc->config.monitor);
    dispatch_stream(own->stream, own->operation, success);
    ls_rpc_end_queue(rpc);
    ls_monitor_broadcast(rpc->config.monitor);
    ls_monitor_unlock(rpc->config.monitor);
}

void ls_rpc_streams_sweep(struct ls_rpc *rpc) {
    int64_t now = ls_now();
    for (struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next)
        if (stream->deadline <= now) {
            stream->deadline = LS_NEVER;
            (void)grpc_call_cancel_with_status(stream->call, GRPC_STATUS_DEADLINE_EXCEEDED, "no Hello that counts came",
                                               NULL);
        }
}

void ls_rpc_streams_cancel(struct ls_rpc *rpc) {
    for (struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next) ls_rpc_drop(stream);
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
    stream->fd = rpc->secure ? -1 : fd; /* with TLS gRPC makes another, unknown one */
    stream->channel = ls_rpc_channel(rpc, fd, target);
    stream->call = grpc_channel_create_call(stream->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue,
                                            grpc_slice_from_static_string(LS_RPC_CONTROL), NULL,
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

bool ls_rpc_is_idle(const struct ls_rpc_stream *stream) {
    return !stream->sending && !stream->first;
}

/* gRPC owns the socket, but while the stream has not closed it is open, and its kernel knows. */
double ls_rpc_unanswered(const struct ls_rpc_stream *stream) {
    struct tcp_info info;
    socklen_t size = sizeof(info);
    if (!stream || stream->incoming || stream->closed) return -1;
    if (getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &size)) return -1;
    return info.tcpi_last_ack_recv * 1e-3;
}

void ls_rpc_finish(struct ls_rpc_stream *stream) {
    stream->finishing = true;
    if (stream->incoming) stream->deadline = ls_now() + LS_REFUSED_TIMEOUT;
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

void ls_rpc_reason(const struct ls_rpc_stream *stream, char *text, size_t size) {
    char *details = grpc_slice_to_c_string(stream->details);
    (void)snprintf(text, size, "%s", details);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = ' ';
    gpr_free(details);
}

void ls_rpc_set_user(struct ls_rpc_stream *stream, void *user) {
    stream->user = user;
    stream->deadline = LS_NEVER;
}

void *ls_rpc_user(const struct ls_rpc_stream *stream) {
    return stream->user;
}

void ls_rpc_attach(struct ls_rpc_stream *stream, void *memory) {
    ls_free(stream->attachment);
    stream->attachment = memory;
}

void *ls_rpc_attachment(const struct ls_rpc_stream *stream) {
    return stream->attachment;
}

const struct ls_rpc_caller *ls_rpc_caller(const struct ls_rpc_stream *stream) {
    return &stream->caller;
}

bool ls_rpc_incoming(const struct ls_rpc_stream *stream) {
    return stream->incoming;
}
