/* Streams of their own, each a call of gRPC (rpc/rpc_stream.h), and the choice between these and carried ones. The
 * cluster attaches what it knows of a call to the call, so it lasts as long. */
#include "cluster/stream.h"

#include <stdio.h>

#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/carried.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/speaker.h"

static struct ls_control_stream *wrap_raw(struct ls_cluster *cluster, struct ls_rpc_stream *raw) {
    struct ls_control_stream *stream = ls_alloc(sizeof(*stream));
    if (!stream) return NULL;
    stream->cluster = cluster;
    stream->raw = raw;
    ls_rpc_stream_attach(raw, stream);
    return stream;
}

ls_status ls_stream_open(struct ls_cluster *cluster, int fd, struct ls_peer *peer, struct ls_control_stream **made) {
    struct ls_rpc_stream *raw;
    ls_status status = ls_rpc_stream_open(cluster->net.rpc, fd, peer->task->address, &raw);
    if (status) return status;
    struct ls_control_stream *stream = wrap_raw(cluster, raw);
    if (!stream) {
        ls_rpc_stream_drop(raw);
        return ls_fail_memory("a control stream", sizeof(*stream));
    }
    ls_stream_set_user(stream, peer);
    *made = stream;
    return LS_OK;
}

ls_status ls_stream_send(struct ls_control_stream *stream, const void *data, size_t size) {
    return stream->raw ? ls_rpc_stream_send(stream->raw, data, size) : ls_carried_send(stream, data, size);
}

bool ls_stream_is_idle(const struct ls_control_stream *stream) {
    if (stream->raw) return ls_rpc_stream_is_idle(stream->raw);
    const struct ls_control_stream *carrier = ls_carried_carrier(stream);
    return carrier && ls_rpc_stream_is_idle(carrier->raw);
}

double ls_stream_unanswered(const struct ls_control_stream *stream) {
    return stream && stream->raw ? ls_rpc_stream_unanswered(stream->raw) : -1;
}

/* A stream ends after those that pass over it. */
static bool is_needed(const struct ls_control_stream *stream) {
    return stream->user && stream == stream->user->out && stream->user->riding[false];
}

void ls_stream_finish(struct ls_control_stream *stream) {
    if (!stream->raw) {
        ls_carried_finish(stream);
    } else if (is_needed(stream)) {
        stream->finishing = true;
    } else {
        stream->finishing = false;
        ls_rpc_stream_finish(stream->raw);
    }
}

/* True: that is the peer's present stream, to this worker or from it. */
static bool is_present(const struct ls_control_stream *stream) {
    const struct ls_peer *peer = stream->user;
    return peer && (stream == peer->in || (stream == peer->out && peer->accepted));
}

static void unload(struct ls_control_stream *stream, bool by_kernel) {
    bool incoming = ls_rpc_stream_incoming(stream->raw);
    ls_carried_strand(stream->cluster, stream->user, incoming);
    ls_speaker_strand(stream->cluster, stream->user, incoming, by_kernel);
}

void ls_stream_unload(struct ls_control_stream *stream) {
    if (stream->raw) unload(stream, false);
}

void ls_stream_drop(struct ls_control_stream *stream) {
    if (!stream->raw) {
        ls_carried_drop(stream);
        return;
    }
    if (is_present(stream)) unload(stream, false);
    stream->finishing = false;
    ls_rpc_stream_drop(stream->raw);
}

int ls_stream_count_finishing(const struct ls_cluster *cluster) {
    int count = ls_rpc_streams_finishing(cluster->net.rpc) + cluster->net.finishing;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        count += peer->out && peer->out->raw && peer->out->finishing;
    return count;
}

bool ls_stream_closed_by_kernel(const struct ls_control_stream *stream) {
    return stream->raw ? ls_rpc_stream_closed_by_kernel(stream->raw) : stream->carried.by_kernel;
}

void ls_stream_reason(const struct ls_control_stream *stream, char *text, size_t size) {
    if (stream->raw)
        ls_rpc_stream_reason(stream->raw, text, size);
    else
        (void)snprintf(text, size, "%s", stream->carried.reason);
}

void ls_stream_set_user(struct ls_control_stream *stream, struct ls_peer *peer) {
    stream->user = peer;
    if (stream->raw) ls_rpc_stream_set_user(stream->raw, peer);
}

struct ls_peer *ls_stream_user(const struct ls_control_stream *stream) {
    return stream->user;
}

void *ls_stream_attach(struct ls_control_stream *stream) {
    stream->attached = true;
    return stream->room;
}

void *ls_stream_attachment(struct ls_control_stream *stream) {
    return stream->attached ? stream->room : NULL;
}

const struct ls_rpc_caller *ls_stream_caller(const struct ls_control_stream *stream) {
    return stream->raw ? ls_rpc_stream_caller(stream->raw) : &stream->carried.caller;
}

bool ls_stream_incoming(const struct ls_control_stream *stream) {
    return stream->raw ? ls_rpc_stream_incoming(stream->raw) : stream->carried.incoming;
}

bool ls_stream_is_carried(const struct ls_control_stream *stream) {
    return stream && !stream->raw;
}

void ls_stream_message(void *context, struct ls_rpc_stream *raw, const void *data, size_t size) {
    struct ls_cluster *cluster = context;
    struct ls_control_stream *stream = ls_rpc_stream_attachment(raw);
    if (!stream) stream = wrap_raw(cluster, raw);
    if (stream)
        cluster->net.message(cluster, stream, data, size);
    else
        ls_rpc_stream_drop(raw);
    ls_carried_deliver(cluster);
}

/* TLS ends in a relay, where a connection that timed out looks like one that was closed. */
static bool shows_end(const struct ls_control_stream *stream) {
    bool tls = ls_credentials_has_tls(&stream->cluster->net.credentials);
    return ls_rpc_stream_closed_by_kernel(stream->raw) && (!tls || stream->user->silence < LS_HELLO_TIMEOUT);
}

/* The loss of a worker is the root, and the ends of the streams that it has carried are echoes: they come after it. */
void ls_stream_closed(void *context, struct ls_rpc_stream *raw) {
    struct ls_cluster *cluster = context;
    struct ls_control_stream *stream = ls_rpc_stream_attachment(raw);
    if (!stream) return;
    bool present = is_present(stream), by_kernel = present && shows_end(stream);
    stream->finishing = false;
    cluster->net.closed(cluster, stream);
    if (present) unload(stream, by_kernel);
    ls_carried_deliver(cluster);
}
