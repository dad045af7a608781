/* A control stream is one call of /lockstep.Cluster/Control. Two workers that are connected have two: each dials one,
 * over which it sends its messages, and the other side answers with one HelloReply (docs/protocol.md, "Messages").
 *
 * gRPC takes one message of a stream at a time. A further one waits in the list from `first`, and finish_send starts
 * it. The list needs no limit: the steps of the protocol send few messages, and a Beat is sent only on an idle stream.
 * The next read starts as soon as the message's callback has returned, so the sender's window opens again at once (RFC
 * 9113, section 5.2).
 *
 * A stream ends in two steps. The side that dialled half-closes it after its last message (END_STREAM, RFC 9113,
 * section 5.1). The other side has then read everything and answers with the final status. Each operation under way
 * counts in `pending`, and the stream is freed when it has closed and none is left. */
#include "cluster/rpc/rpc_stream.h"

#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/deadlines.h"
#include "base/new.h"
#include "cluster/rpc/rpc_private.h"

#define MAX_STRANGERS 128 /* incoming streams of which no Hello has named the sender yet; the oldest then goes */

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
    int fd;                /* of an outgoing stream: a second descriptor of its connection; -1: none */
    grpc_call *call;
    void *user, *attachment;
    struct ls_rpc_caller caller;
    struct stream_tag tags[OP_COUNT];
    struct outgoing_message *first, **last, *in_flight;
    grpc_byte_buffer *received;
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice details;
    int64_t deadline; /* for the Hello that names its sender or, once it is finished, for the other side to close */
    int pending, cancelled;
    bool incoming, sending, finishing, half_closed, quiet, closed, reading, evicted;
};

/* Starts an operation; a stream for which gRPC refuses one can only be cancelled. */
static bool start_operation(struct ls_rpc_stream *stream, enum operation operation, const grpc_op *op) {
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
    stream->reading = start_operation(stream, OP_READ, &op);
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

/* Starts the next message, or half-closes a finished stream whose list is empty. `sending` holds the next one back
 * until the present one is out. GRPC_WRITE_THROUGH ends a message when the socket has taken it, not when gRPC has
 * copied it, so an idle stream is one whose bytes have left the process. */
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
    (void)start_operation(stream, OP_SEND, &op);
}

static void finish_operation(struct ls_rpc_tag *tag, bool success);

static struct ls_rpc_stream *add_stream(struct ls_rpc *rpc, bool incoming) {
    struct ls_rpc_stream *stream = ls_alloc(sizeof(*stream));
    if (!stream) return NULL;
    stream->rpc = rpc;
    stream->fd = -1;
    stream->incoming = incoming;
    stream->last = &stream->first;
    stream->details = grpc_empty_slice();
    stream->deadline = incoming ? ls_deadline_in(rpc->config.silence_timeout) : LS_NEVER;
    for (int i = 0; i < OP_COUNT; i++)
        stream->tags[i] = (struct stream_tag){{finish_operation}, (enum operation)i, stream};
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
    if (stream->fd >= 0) (void)close(stream->fd);
    stream->fd = -1;
    if (!stream->quiet) stream->rpc->config.closed(stream->rpc->config.context, stream);
    stream->quiet = true;
}

/* A message that is compressed or too long is no worker's: a few compressed bytes could become gigabytes. It ends the
 * stream. */
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

/* The other side has half-closed: it sends no more, and the final status is the answer. */
static void end_incoming(struct ls_rpc_stream *stream) {
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = GRPC_STATUS_OK;
    close_stream(stream);
    (void)start_operation(stream, OP_START, &op);
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
    (void)start_operation(stream, OP_SEND, &begin);
    (void)start_operation(stream, OP_END, &close);
    start_read(stream);
}

/* Ends the oldest stranger's stream if there are too many (docs/security.md, "Strangers"). New streams are put in
 * front, so the oldest stands last. A stream that is being ended stays in the list for a while, and counts no more. */
static void evict_oldest(struct ls_rpc *rpc) {
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
    struct ls_rpc_stream *stream =
        rpc->incoming_streams < rpc->config.streams_most && !rpc->stopping ? add_stream(rpc, true) : NULL;
    if (!stream) return false;
    evict_oldest(rpc);
    stream->call = call;
    ls_rpc_identify(rpc, call, &stream->caller);
    begin_incoming(stream);
    return true;
}

/* Acts on the end of one operation. An outgoing stream has closed when its status has come, after all else. On an
 * incoming one the end may come while a read is under way, whose last message counts: the read's own end then closes
 * the stream (finish_read). The last operation frees it. */
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

static void finish_operation(struct ls_rpc_tag *tag, bool success) {
    const struct stream_tag *own = (const struct stream_tag *)(const void *)tag;
    struct ls_rpc *rpc = own->stream->rpc;
    LS_HOLD(rpc->config.monitor);
    dispatch_stream(own->stream, own->operation, success);
    ls_rpc_end_queue(rpc);
    ls_monitor_broadcast(rpc->config.monitor);
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
    for (struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next) ls_rpc_stream_drop(stream);
}

static void begin_outgoing(struct ls_rpc_stream *stream) {
    grpc_op begin = {.op = GRPC_OP_SEND_INITIAL_METADATA}, initial = {.op = GRPC_OP_RECV_INITIAL_METADATA},
            end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    initial.data.recv_initial_metadata.recv_initial_metadata = &stream->initial;
    end.data.recv_status_on_client.trailing_metadata = &stream->trailing;
    end.data.recv_status_on_client.status = &stream->code;
    end.data.recv_status_on_client.status_details = &stream->details;
    stream->sending = true; /* until the initial metadata is out */
    (void)start_operation(stream, OP_SEND, &begin);
    (void)start_operation(stream, OP_START, &initial);
    (void)start_operation(stream, OP_END, &end);
    start_read(stream);
}

ls_status ls_rpc_stream_open(struct ls_rpc *rpc, int fd, const char *target, struct ls_rpc_stream **made) {
    struct ls_rpc_stream *stream = rpc->stopping ? NULL : add_stream(rpc, false);
    if (!stream) {
        (void)close(fd);
        return ls_fail_memory("a control stream", sizeof(*stream));
    }
    stream->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    ls_forked_closes(stream->fd);
    stream->channel = ls_rpc_channel(rpc, fd, target);
    stream->call = grpc_channel_create_call(stream->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue,
                                            grpc_slice_from_static_string(LS_RPC_CONTROL), NULL,
                                            gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    begin_outgoing(stream);
    *made = stream;
    return LS_OK;
}

ls_status ls_rpc_stream_send(struct ls_rpc_stream *stream, const void *data, size_t size) {
    LS_NEW(struct outgoing_message, message, "a control message");
    grpc_slice slice = grpc_slice_from_copied_buffer(data, size);
    message->buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    *stream->last = message;
    stream->last = &message->next;
    start_send(stream);
    return LS_OK;
}

bool ls_rpc_stream_is_idle(const struct ls_rpc_stream *stream) {
    return !stream->sending && !stream->first;
}

/* The kernel acknowledges bytes for its host even while the process there is frozen. So the age of the last
 * acknowledgement tells a process that is frozen from a host that is cut off (docs/protocol.md, "Who may form a
 * generation"). */
double ls_rpc_stream_unanswered(const struct ls_rpc_stream *stream) {
    struct tcp_info info;
    socklen_t size = sizeof(info);
    if (!stream || stream->incoming || stream->closed) return -1;
    if (getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &size)) return -1;
    return info.tcpi_last_ack_recv * 1e-3;
}

void ls_rpc_stream_finish(struct ls_rpc_stream *stream) {
    stream->finishing = true;
    if (stream->incoming) stream->deadline = ls_now() + LS_REFUSED_TIMEOUT;
    start_send(stream);
}

void ls_rpc_stream_drop(struct ls_rpc_stream *stream) {
    stream->quiet = true;
    (void)grpc_call_cancel(stream->call, NULL);
}

int ls_rpc_streams_finishing(const struct ls_rpc *rpc) {
    int count = 0;
    for (const struct ls_rpc_stream *stream = rpc->streams; stream; stream = stream->next)
        count += stream->finishing && !stream->closed;
    return count;
}

/* A process that closes a stream of its own will resets it first (RST_STREAM, RFC 9113, section 6.4), and the call then
 * ends with another code. A kernel that closes the connection sends only FIN or RST. gRPC has no code for these, only
 * words. */
bool ls_rpc_stream_closed_by_kernel(const struct ls_rpc_stream *stream) {
    static const char *const ends[] = {"Socket closed", "Connection reset by peer", "Broken pipe"};
    char text[512];
    if (stream->incoming || stream->code != GRPC_STATUS_UNAVAILABLE) return false;
    ls_rpc_stream_reason(stream, text, sizeof(text));
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strstr(text, ends[i])) return true;
    return false;
}

void ls_rpc_stream_reason(const struct ls_rpc_stream *stream, char *text, size_t size) {
    char *details = grpc_slice_to_c_string(stream->details);
    (void)snprintf(text, size, "%s", details);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = ' ';
    gpr_free(details);
}

void ls_rpc_stream_set_user(struct ls_rpc_stream *stream, void *user) {
    stream->user = user;
    stream->deadline = LS_NEVER;
}

void *ls_rpc_stream_user(const struct ls_rpc_stream *stream) {
    return stream->user;
}

void ls_rpc_stream_attach(struct ls_rpc_stream *stream, void *memory) {
    ls_free(stream->attachment);
    stream->attachment = memory;
}

void *ls_rpc_stream_attachment(const struct ls_rpc_stream *stream) {
    return stream->attachment;
}

const struct ls_rpc_caller *ls_rpc_stream_caller(const struct ls_rpc_stream *stream) {
    return &stream->caller;
}

bool ls_rpc_stream_incoming(const struct ls_rpc_stream *stream) {
    return stream->incoming;
}
