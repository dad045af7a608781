/* The functions of cluster/rpc/rpc.h and rpc_stream.h, on simulated wires. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/rpc/rpc_private.h"
#include "cluster/rpc/rpc_stream.h"
#include "simulation/clock_world.h"
#include "simulation/libc.h"
#include "simulation/wire_private.h"

ls_status ls_rpc_new(const struct ls_rpc_config *config, struct ls_rpc **made) {
    struct ls_rpc *rpc = ls_alloc(sizeof(*rpc));
    if (!rpc) return ls_fail_memory("the control streams", sizeof(*rpc));
    rpc->config = *config;
    process_now()->wires->rpc = *made = rpc;
    return LS_OK;
}

void ls_rpc_free(struct ls_rpc *rpc) {
    struct wires *wires = process_now()->wires;
    if (!rpc) return;
    rpc->stopping = true;
    for (struct ls_rpc_stream *end = wires->streams; end; end = wires->streams) ls_rpc_stream_drop(end);
    wires->rpc = NULL;
    ls_free(rpc);
}

bool ls_rpc_is_served(struct ls_rpc *rpc) {
    bool moved = rpc->served != rpc->looked;
    rpc->looked = rpc->served;
    return moved;
}

void ls_rpc_nudge(struct ls_rpc *rpc) {
    rpc->served++;
}

void wire_listen(bool listens) {
    struct wires *wires = process_now()->wires;
    if (listens) wire_net.listening[wires->process->rank] = wires;
    if (!listens && wire_net.listening[wires->process->rank] == wires) wire_net.listening[wires->process->rank] = NULL;
}

ls_status ls_rpc_stream_open(struct ls_rpc *rpc, int fd, const char *target, struct ls_rpc_stream **stream) {
    struct process *to = descriptor_of(fd)->remote, *from = process_now();
    struct wire *wire = calloc(1, sizeof(*wire));
    (void)rpc, (void)target;
    wire_must(wire);
    wire->ends[0] = (struct ls_rpc_stream){.wire = wire, .process = from, .deadline = LS_NEVER};
    wire->ends[1] = (struct ls_rpc_stream){.wire = wire, .process = to, .incoming = true, .deadline = LS_NEVER};
    (void)snprintf(wire->ends[1].caller.address, sizeof(wire->ends[1].caller.address), "host-%d:%d", from->host,
                   from->rank);
    wire->ends[1].caller.fd = -1;
    wire_add_end(&wire->ends[0]);
    if (!to->alive) wire_end_later(&wire->ends[0], clock_now() + WIRE_LEAST_DELAY);
    (void)__wrap_close(fd);
    *stream = &wire->ends[0];
    return LS_OK;
}

/* The field of the envelope's body: after the incarnation, 8 bytes, and the generation, a varint. */
static unsigned field_of(const uint8_t *data, size_t size) {
    size_t at = 0;
    if (at < size && data[at] == 0x09) at += 9;
    if (at < size && data[at] == 0x10)
        for (at++; at < size && data[at++] & 0x80;) continue;
    if (at + 1 >= size) return 0;
    unsigned tag = data[at] & 0x80 ? (unsigned)(data[at] & 0x7F) | (unsigned)data[at + 1] << 7 : data[at];
    return tag >> 3 < WIRE_KINDS ? tag >> 3 : 0;
}

static struct wire_payload *payload_of(const void *data, size_t size) {
    if (!wire_net.last || wire_net.last->size != size || memcmp(wire_net.last->data, data, size) != 0) {
        wire_release_payload(wire_net.last);
        wire_net.last = malloc(sizeof(*wire_net.last) + size);
        wire_must(wire_net.last);
        wire_net.last->references = 1;
        wire_net.last->size = size;
        memcpy(wire_net.last->data, data, size);
    }
    wire_net.last->references++;
    return wire_net.last;
}

ls_status ls_rpc_stream_send(struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct wire_traffic *traffic = stream->process->wires->traffic;
    traffic->sent[field_of(data, size)]++;
    traffic->bytes += size;
    wire_post(stream, LETTER_MESSAGE, payload_of(data, size), false);
    stream->process->wires->rpc->served++; /* the end of a sending is an event of the queue */
    return LS_OK;
}

bool ls_rpc_stream_is_idle(const struct ls_rpc_stream *stream) {
    return clock_now() >= stream->departed;
}

double ls_rpc_stream_unanswered(const struct ls_rpc_stream *stream) {
    if (!stream || stream->incoming || !stream->open) return -1;
    int64_t since = wire_cut_since(stream->process, wire_other_end(stream)->process, clock_now());
    return since ? (double)(clock_now() - since) / (double)LS_SECOND : 0;
}

static void expire_stream(void *context, uint64_t number) {
    struct wire *wire = context;
    struct ls_rpc_stream *end = &wire->ends[1];
    (void)number;
    if (end->open && end->process->alive && end->deadline <= clock_now()) {
        struct process *before = process_enter(end->process);
        wire_post(end, LETTER_END, NULL, false);
        wire_close_end(end);
        (void)process_enter(before);
    }
    wire_release(wire);
}

void ls_rpc_stream_finish(struct ls_rpc_stream *stream) {
    stream->finishing = true;
    if (!stream->incoming) {
        wire_post(stream, LETTER_FINISH, NULL, false);
        return;
    }
    stream->deadline = clock_now() + LS_REFUSED_TIMEOUT;
    stream->wire->references++;
    clock_at(stream->deadline, expire_stream, stream->wire, 0);
}

static void free_attachment(void *context, uint64_t number) {
    struct ls_rpc_stream *stream = context;
    (void)number;
    if (stream->process->alive) ls_free(stream->attachment); /* else it has ended with the process */
    wire_release(stream->wire);
}

void ls_rpc_stream_drop(struct ls_rpc_stream *stream) {
    if (!stream->open) return;
    stream->quiet = true;
    stream->loses = clock_random() % 2;
    wire_post(stream, LETTER_END, NULL, false);
    stream->wire->references++;
    clock_at(clock_now(), free_attachment, stream, 0); /* the caller may be in a callback of it */
    wire_remove_end(stream);
}

int ls_rpc_streams_finishing(const struct ls_rpc *rpc) {
    int count = 0;
    (void)rpc;
    for (const struct ls_rpc_stream *end = process_now()->wires->streams; end; end = end->next) count += end->finishing;
    return count;
}

bool ls_rpc_stream_closed_by_kernel(const struct ls_rpc_stream *stream) {
    return !stream->incoming && stream->by_kernel;
}

void ls_rpc_stream_reason(const struct ls_rpc_stream *stream, char *text, size_t size) {
    (void)snprintf(text, size, "%s", stream->by_kernel ? "Socket closed" : "the call was cancelled");
}

void ls_rpc_stream_set_user(struct ls_rpc_stream *stream, void *user) {
    stream->user = user;
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
