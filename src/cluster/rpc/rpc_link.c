/* A data link is one call of /lockstep.Cluster/Data behind collective's transport interface (rpc_link.h says how bytes
 * flow). Its threads are its user's (send, receive, close) and the poller. Each link has a mutex, which is not held
 * while bytes are copied or written. `pending` counts the operations that gRPC has; the call is released when it has
 * ended and none is left, and the link is freed when its user has closed it as well. */
#include "cluster/rpc/rpc_link.h"

#include <errno.h>
#include <grpc/byte_buffer.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "cluster/rpc/rpc_private.h"
#include "cluster/rpc/rpc_stream.h"

#define PREFACE_KEY "lockstep-preface-bin"
#define ANSWER_KEY  "lockstep-accepted"

enum {
    MESSAGE_MAX = 512 * 1024,     /* bytes; also the limit of the outbox */
    OUTBOX_PIECES = 32,           /* of one message */
    INBOX_MESSAGES = 64,          /* no more are asked for once there are so many, ... */
    INBOX_BYTES = 4 * 1024 * 1024 /* ... or so many bytes */
};

enum operation { OP_ANSWER, OP_READ, OP_SEND, OP_END, OP_COUNT };

struct ls_rpc_link;
struct link_tag {
    struct ls_rpc_tag tag; /* first */
    enum operation operation;
    struct ls_rpc_link *link;
};

struct ls_rpc_link {
    struct ls_link link; /* first: the handle is a pointer to it */
    struct ls_rpc *rpc;
    struct ls_rpc_link *next, **back; /* of all links; guarded by the monitor */
    grpc_channel *channel;            /* of a link that this side has opened */
    struct link_tag tags[OP_COUNT];
    grpc_metadata_array initial, trailing; /* gRPC's until their operations have ended, as the next four */
    grpc_status_code code;
    grpc_slice details;
    int cancelled;
    grpc_byte_buffer *arriving;

    pthread_mutex_t mutex; /* guards all below */
    grpc_call *call;       /* NULL once gRPC has nothing of the link any more */
    enum ls_rpc_link_state state;
    int pending; /* operations under way */
    bool used;   /* not closed by its user yet */
    bool ended;  /* the call is over: pending only goes down */
    bool over;   /* nothing more comes or goes */
    bool reading, sending;
    grpc_byte_buffer *in_flight;
    grpc_slice outbox[OUTBOX_PIECES];
    int outbox_count;
    size_t outbox_bytes;
    grpc_byte_buffer *inbox[INBOX_MESSAGES]; /* a ring */
    int inbox_first, inbox_count;
    size_t inbox_bytes;
    size_t slice, offset; /* in the first message: where reading goes on; the user's own */
};

static struct ls_rpc_link *link_of(struct ls_link *link) {
    return (struct ls_rpc_link *)(void *)link;
}

static void lock(struct ls_rpc_link *link) {
    (void)pthread_mutex_lock(&link->mutex);
}

static void unlock(struct ls_rpc_link *link) {
    (void)pthread_mutex_unlock(&link->mutex);
}

/* ---- with the mutex held ---- */

static bool has_room(const struct ls_rpc_link *link) {
    return link->outbox_bytes < MESSAGE_MAX && link->outbox_count < OUTBOX_PIECES;
}

/* Makes one message of the outbox, for start_send; NULL: there is none, or another message is on its way. */
static grpc_byte_buffer *take_outbox(struct ls_rpc_link *link) {
    if (link->sending || link->over || !link->outbox_count) return NULL;
    link->in_flight = grpc_raw_byte_buffer_create(link->outbox, (size_t)link->outbox_count);
    while (link->outbox_count) grpc_slice_unref(link->outbox[--link->outbox_count]);
    link->outbox_bytes = 0;
    link->sending = true;
    link->pending++;
    return link->in_flight;
}

/* True when start_read is to be called. */
static bool wants_read(struct ls_rpc_link *link) {
    if (link->reading || link->over || link->inbox_count == INBOX_MESSAGES || link->inbox_bytes >= INBOX_BYTES)
        return false;
    link->reading = true;
    link->pending++;
    return true;
}

/* ---- life ---- */

static void free_link(struct ls_rpc_link *link) {
    if (link->in_flight) grpc_byte_buffer_destroy(link->in_flight);
    if (link->arriving) grpc_byte_buffer_destroy(link->arriving);
    while (link->outbox_count) grpc_slice_unref(link->outbox[--link->outbox_count]);
    for (; link->inbox_count; link->inbox_count--)
        grpc_byte_buffer_destroy(link->inbox[link->inbox_first++ % INBOX_MESSAGES]);
    grpc_metadata_array_destroy(&link->initial);
    grpc_metadata_array_destroy(&link->trailing);
    grpc_slice_unref(link->details);
    (void)pthread_mutex_destroy(&link->mutex);
    ls_rpc_let_go(link->rpc);
    ls_free(link);
}

/* gRPC has nothing of the link any more. */
static void release_rpc_link(struct ls_rpc_link *link) {
    struct ls_rpc *rpc = link->rpc;
    ls_monitor_lock(rpc->config.monitor);
    *link->back = link->next;
    if (link->next) link->next->back = link->back;
    ls_monitor_unlock(rpc->config.monitor);
    grpc_channel *channel = link->channel;
    lock(link);
    grpc_call *call = link->call;
    bool used = link->used;
    link->call = NULL;
    unlock(link);
    grpc_call_unref(call);
    if (channel) grpc_channel_destroy(channel);
    if (!used) free_link(link);
    ls_monitor_lock(rpc->config.monitor);
    rpc->link_count--;
    ls_rpc_end_queue(rpc);
    ls_monitor_unlock(rpc->config.monitor);
}

/* One operation less is under way; the link must not be used after it. With nothing held. */
static void drop(struct ls_rpc_link *link) {
    lock(link);
    bool last = !--link->pending && link->ended;
    unlock(link);
    if (last) release_rpc_link(link);
}

/* Starts an operation that is counted in pending. With nothing held but, for a link that has just been made, the
 * monitor. False: gRPC refuses it, and the link is over. */
static bool start_rpc_link(struct ls_rpc_link *link, enum operation operation, const grpc_op *op) {
    if (ls_rpc_start(link->rpc, link->call, op, &link->tags[operation].tag)) return true;
    lock(link);
    link->over = true;
    (void)grpc_call_cancel(link->call, NULL);
    unlock(link);
    drop(link);
    return false;
}

static void start_read(struct ls_rpc_link *link) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &link->arriving;
    (void)start_rpc_link(link, OP_READ, &op);
}

static void start_send(struct ls_rpc_link *link, grpc_byte_buffer *message) {
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = message;
    (void)start_rpc_link(link, OP_SEND, &op);
}

/* ---- the poller's side ---- */

static bool is_good(const grpc_byte_buffer *message) {
    return message->data.raw.compression == GRPC_COMPRESS_NONE && message->data.raw.slice_buffer.length <= MESSAGE_MAX;
}

static void finish_read(struct ls_rpc_link *link, bool success) {
    lock(link);
    link->reading = false;
    if (success && link->arriving && is_good(link->arriving)) {
        link->inbox[(link->inbox_first + link->inbox_count++) % INBOX_MESSAGES] = link->arriving;
        link->inbox_bytes += link->arriving->data.raw.slice_buffer.length;
        link->arriving = NULL;
    } else {
        link->over = true;
        (void)grpc_call_cancel(link->call, NULL);
    }
    bool more = wants_read(link);
    unlock(link);
    if (more) start_read(link);
}

static void finish_send(struct ls_rpc_link *link, bool success) {
    lock(link);
    grpc_byte_buffer *sent = link->in_flight;
    link->in_flight = NULL;
    link->sending = false;
    link->over = link->over || !success;
    grpc_byte_buffer *next = take_outbox(link);
    unlock(link);
    if (next) start_send(link, next);
    if (sent) grpc_byte_buffer_destroy(sent);
}

static const grpc_slice *find_rpc_link(const grpc_metadata_array *metadata, const char *key) {
    for (size_t i = 0; i < metadata->count; i++)
        if (grpc_slice_str_cmp(metadata->metadata[i].key, key) == 0) return &metadata->metadata[i].value;
    return NULL;
}

/* The other side has answered, or the call has ended without an answer. */
static void finish_opening(struct ls_rpc_link *link, bool accepted) {
    lock(link);
    bool changed = link->state == LS_RPC_LINK_OPENING;
    if (changed) link->state = accepted ? LS_RPC_LINK_OPEN : LS_RPC_LINK_CLOSED;
    unlock(link);
    if (changed) link->rpc->config.link_changed(link->rpc->config.context);
}

static void finish_call(struct ls_rpc_link *link) {
    lock(link);
    link->ended = link->over = true;
    unlock(link);
    finish_opening(link, false);
}

static void finish_rpc_link(struct ls_rpc_tag *tag, bool success) {
    const struct link_tag *own = (const struct link_tag *)(const void *)tag;
    struct ls_rpc_link *link = own->link;
    switch (own->operation) {
    case OP_ANSWER:
        finish_opening(link, success && find_rpc_link(&link->initial, ANSWER_KEY));
        break;
    case OP_READ:
        finish_read(link, success);
        break;
    case OP_SEND:
        finish_send(link, success);
        break;
    default:
        finish_call(link);
    }
    drop(link);
}

/* ---- the user's side ---- */

static grpc_slice copy_pieces(const struct iovec *pieces, int count, size_t room) {
    size_t size = 0, used = 0;
    for (int i = 0; i < count; i++) size += pieces[i].iov_len;
    grpc_slice slice = grpc_slice_malloc(size < room ? size : room);
    for (int i = 0; i < count && used < GRPC_SLICE_LENGTH(slice); i++) {
        size_t part = pieces[i].iov_len, rest = GRPC_SLICE_LENGTH(slice) - used;
        if (part > rest) part = rest;
        memcpy(GRPC_SLICE_START_PTR(slice) + used, pieces[i].iov_base, part);
        used += part;
    }
    return slice;
}

static ssize_t link_send(struct ls_link *base, const struct iovec *pieces, int count) {
    struct ls_rpc_link *link = link_of(base);
    lock(link);
    bool over = link->over, blocked = !has_room(link);
    size_t room = MESSAGE_MAX - link->outbox_bytes;
    unlock(link);
    errno = ECONNRESET;
    if (over || blocked) return over ? -1 : 0;
    grpc_slice slice = copy_pieces(pieces, count, room);
    ssize_t sent = (ssize_t)GRPC_SLICE_LENGTH(slice);
    lock(link);
    link->outbox[link->outbox_count++] = slice;
    link->outbox_bytes += (size_t)sent;
    grpc_byte_buffer *message = take_outbox(link);
    unlock(link);
    if (message) start_send(link, message);
    return sent;
}

/* Takes bytes out of the first message; size may be more than it has. */
static size_t copy_out(struct ls_rpc_link *link, const grpc_slice_buffer *slices, unsigned char *to, size_t size) {
    size_t taken = 0;
    while (taken < size && link->slice < slices->count) {
        const grpc_slice *slice = &slices->slices[link->slice];
        size_t part = GRPC_SLICE_LENGTH(*slice) - link->offset;
        if (part > size - taken) part = size - taken;
        memcpy(to + taken, GRPC_SLICE_START_PTR(*slice) + link->offset, part);
        taken += part;
        link->offset += part;
        if (link->offset < GRPC_SLICE_LENGTH(*slice)) break;
        link->slice++;
        link->offset = 0;
    }
    return taken;
}

/* The first message has been read to its end. */
static void next_message(struct ls_rpc_link *link) {
    lock(link);
    grpc_byte_buffer *message = link->inbox[link->inbox_first];
    link->inbox_bytes -= message->data.raw.slice_buffer.length;
    link->inbox_first = (link->inbox_first + 1) % INBOX_MESSAGES;
    link->inbox_count--;
    link->slice = link->offset = 0;
    bool more = wants_read(link);
    unlock(link);
    grpc_byte_buffer_destroy(message);
    if (more) start_read(link);
}

static ssize_t link_receive(struct ls_link *base, void *data, size_t size) {
    struct ls_rpc_link *link = link_of(base);
    size_t taken = 0;
    lock(link);
    bool over = link->over;
    int count = link->inbox_count;
    unlock(link);
    for (; count && taken < size; count--) {
        const grpc_slice_buffer *slices = &link->inbox[link->inbox_first]->data.raw.slice_buffer;
        taken += copy_out(link, slices, (unsigned char *)data + taken, size - taken);
        if (link->slice < slices->count) return (ssize_t)taken;
        next_message(link);
    }
    errno = ECONNRESET; /* end of stream: the peer closed its end */
    return taken || !over ? (ssize_t)taken : -1;
}

static bool link_flushed(struct ls_link *base) {
    struct ls_rpc_link *link = link_of(base);
    lock(link);
    bool flushed = link->over || (!link->sending && !link->outbox_count);
    unlock(link);
    return flushed;
}

static void link_wait(struct ls_link *base, int milliseconds) {
    ls_rpc_wait(link_of(base)->rpc, milliseconds);
}

static bool link_readable(struct ls_link *base) {
    struct ls_rpc_link *link = link_of(base);
    lock(link);
    bool readable = link->over || link->inbox_count;
    unlock(link);
    return readable;
}

static void link_close(struct ls_link *base) {
    struct ls_rpc_link *link = link_of(base);
    lock(link);
    link->used = false;
    link->over = true;
    bool released = !link->call;
    if (link->call) (void)grpc_call_cancel(link->call, NULL);
    unlock(link);
    if (released) free_link(link);
}

static const struct ls_link_ops ops = {
    .name = "grpc",
    .send = link_send,
    .receive = link_receive,
    .flushed = link_flushed,
    .wait = link_wait,
    .readable = link_readable,
    .close = link_close,
};

/* ---- making ---- */

static struct ls_rpc_link *new_link(struct ls_rpc *rpc) {
    struct ls_rpc_link *link = ls_alloc(sizeof(*link));
    if (!link) return NULL;
    if (pthread_mutex_init(&link->mutex, NULL)) {
        ls_free(link);
        return NULL;
    }
    ls_rpc_hold(rpc);
    link->link.ops = &ops;
    link->rpc = rpc;
    link->used = link->sending = link->reading = true; /* sending: until the initial metadata is out */
    link->details = grpc_empty_slice();
    grpc_metadata_array_init(&link->initial);
    grpc_metadata_array_init(&link->trailing);
    for (int i = 0; i < OP_COUNT; i++) link->tags[i] = (struct link_tag){{finish_rpc_link}, (enum operation)i, link};
    return link;
}

/* With the monitor held. */
static void enlist(struct ls_rpc_link *link) {
    struct ls_rpc *rpc = link->rpc;
    link->next = rpc->links;
    if (link->next) link->next->back = &link->next;
    link->back = &rpc->links;
    rpc->links = link;
    rpc->link_count++;
}

static void begin_opening(struct ls_rpc_link *link, grpc_metadata *preface) {
    grpc_op begin = {.op = GRPC_OP_SEND_INITIAL_METADATA}, answer = {.op = GRPC_OP_RECV_INITIAL_METADATA},
            end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    begin.data.send_initial_metadata.count = 1;
    begin.data.send_initial_metadata.metadata = preface;
    answer.data.recv_initial_metadata.recv_initial_metadata = &link->initial;
    end.data.recv_status_on_client.trailing_metadata = &link->trailing;
    end.data.recv_status_on_client.status = &link->code;
    end.data.recv_status_on_client.status_details = &link->details;
    link->pending = 4;
    (void)start_rpc_link(link, OP_SEND, &begin);
    (void)start_rpc_link(link, OP_ANSWER, &answer);
    (void)start_rpc_link(link, OP_END, &end);
    start_read(link);
}

ls_status ls_rpc_link_open(struct ls_rpc *rpc, int fd, const char *target, const void *preface, size_t size,
                           struct ls_link **made) {
    struct ls_rpc_link *link = rpc->stopping ? NULL : new_link(rpc);
    if (!link) {
        (void)close(fd);
        return ls_fail_memory("a data link", sizeof(*link));
    }
    link->channel = ls_rpc_channel(rpc, fd, target);
    link->call = grpc_channel_create_call(link->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue,
                                          grpc_slice_from_static_string(LS_RPC_DATA), NULL,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    enlist(link);
    grpc_metadata metadata = {.key = grpc_slice_from_static_string(PREFACE_KEY),
                              .value = grpc_slice_from_copied_buffer(preface, size)};
    begin_opening(link, &metadata);
    grpc_slice_unref(metadata.value);
    *made = &link->link;
    return LS_OK;
}

enum ls_rpc_link_state ls_rpc_link_state(struct ls_link *base) {
    struct ls_rpc_link *link = link_of(base);
    lock(link);
    enum ls_rpc_link_state state = link->state;
    unlock(link);
    return state;
}

static void answer(struct ls_rpc_link *link) {
    grpc_metadata metadata = {.key = grpc_slice_from_static_string(ANSWER_KEY),
                              .value = grpc_slice_from_static_string("yes")};
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    op.data.send_initial_metadata.count = 1;
    op.data.send_initial_metadata.metadata = &metadata;
    (void)start_rpc_link(link, OP_SEND, &op);
}

/* Another thread may handle the call's end meanwhile. So pending begins with 3: the end, the read, and this function
 * itself, whose count passes to the answer. */
void ls_rpc_link_accept(struct ls_rpc *rpc, grpc_call *call, const grpc_metadata_array *metadata) {
    const struct ls_rpc_config *config = &rpc->config;
    const grpc_slice *preface = find_rpc_link(metadata, PREFACE_KEY);
    struct ls_rpc_caller caller;
    struct ls_rpc_link *link = new_link(rpc);
    grpc_op end = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    if (!link) {
        (void)grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no room for another link", NULL);
        grpc_call_unref(call);
        return;
    }
    ls_rpc_identify(rpc, call, &caller);
    link->call = call;
    link->state = LS_RPC_LINK_OPEN;
    link->pending = 3;
    end.data.recv_close_on_server.cancelled = &link->cancelled;
    ls_monitor_lock(config->monitor);
    enlist(link);
    if (rpc->stopping) (void)grpc_call_cancel(call, NULL);
    ls_monitor_unlock(config->monitor);
    (void)start_rpc_link(link, OP_END, &end);
    start_read(link);
    bool taken = preface && config->link_arrived(config->context, &caller, GRPC_SLICE_START_PTR(*preface),
                                                 GRPC_SLICE_LENGTH(*preface), &link->link);
    ls_free(caller.certificate);
    if (taken) {
        answer(link);
    } else {
        (void)grpc_call_cancel_with_status(call, GRPC_STATUS_PERMISSION_DENIED, "no worker of this group", NULL);
        link_close(&link->link);
        drop(link);
    }
}

void ls_rpc_links_cancel(struct ls_rpc *rpc) {
    for (struct ls_rpc_link *link = rpc->links; link; link = link->next) (void)grpc_call_cancel(link->call, NULL);
}
