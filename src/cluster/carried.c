/* The two ends of carried streams. The side that dials one counts it, and its first message opens it. An end that comes
 * from the other side, or because the carrier's own stream has ended, is kept until nothing else is being done
 * (ls_carried_deliver), so that it comes as the end of a call of gRPC does, and never in the middle of a change. */
#include "cluster/carried.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"
#include "cluster/message_encode.h"
#include "cluster/speaker.h"

void ls_carried_say(struct ls_control_stream *carrier, const struct ls_carry *carry) {
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    if (!carrier) return;
    const struct ls_cluster *cluster = carrier->cluster;
    const struct ls_message message = {.kind = LS_MESSAGE_CARRY,
                                       .incarnation = cluster->incarnation,
                                       .generation = cluster->generation,
                                       .carry = *carry};
    if (ls_message_encode(&message, &data, &size) == LS_OK) (void)ls_stream_send(carrier, data, size);
}

void ls_carried_count(struct ls_peer *peer, bool incoming, int more) {
    peer->riding[incoming] += more;
    if (!incoming && !peer->riding[incoming] && peer->out && peer->out->finishing) ls_stream_finish(peer->out);
}

bool ls_carried_joins(const struct ls_peer *peer) {
    return peer->local && (peer->riding[false] || peer->riding[true]);
}

static struct ls_peer *carrier_of(const struct ls_control_stream *stream) {
    return stream->cluster->peers[stream->carried.carrier];
}

static struct ls_control_stream *link_of(const struct ls_control_stream *stream) {
    if (stream->carried.ended) return NULL;
    return stream->carried.incoming ? carrier_of(stream)->in : carrier_of(stream)->out;
}

const struct ls_control_stream *ls_carried_carrier(const struct ls_control_stream *stream) {
    return link_of(stream);
}

static struct ls_carry carry_of(const struct ls_control_stream *stream, enum ls_carry_kind kind) {
    int own = stream->cluster->rank, other = stream->carried.other;
    bool incoming = stream->carried.incoming;
    return (struct ls_carry){.kind = kind,
                             .from = incoming ? other : own,
                             .to = incoming ? own : other,
                             .number = stream->carried.number,
                             .reason = ""};
}

static void say(const struct ls_control_stream *stream, enum ls_carry_kind kind) {
    struct ls_carry carry = carry_of(stream, kind);
    ls_carried_say(link_of(stream), &carry);
}

static struct ls_control_stream *add(struct ls_cluster *cluster, struct ls_peer *peer,
                                     const struct ls_carriage *carried) {
    struct ls_control_stream *stream = ls_alloc(sizeof(*stream));
    if (!stream) return NULL;
    stream->cluster = cluster;
    stream->carried = *carried;
    stream->carried.other = peer->rank;
    stream->carried.next = peer->carried;
    peer->carried = stream;
    ls_carried_count(carrier_of(stream), carried->incoming, 1);
    return stream;
}

/* From the streams with its peer to the end of those that have ended. */
static void end_carried(struct ls_control_stream *stream) {
    struct ls_cluster *cluster = stream->cluster;
    struct ls_control_stream **at = &cluster->peers[stream->carried.other]->carried;
    if (stream->carried.ended) return;
    while (*at != stream) at = &(*at)->carried.next;
    *at = stream->carried.next;
    stream->carried.next = NULL;
    stream->carried.ended = true;
    cluster->net.finishing -= stream->finishing;
    for (at = &cluster->net.ended; *at;) at = &(*at)->carried.next;
    *at = stream;
    ls_carried_count(carrier_of(stream), stream->carried.incoming, -1);
}

ls_status ls_carried_open(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_peer *carrier,
                          struct ls_control_stream **made) {
    struct ls_carriage carried = {.carrier = carrier->rank, .number = ++cluster->net.carried};
    struct ls_control_stream *stream = add(cluster, peer, &carried);
    if (!stream) return ls_fail_memory("a control stream", sizeof(*stream));
    ls_stream_set_user(stream, peer);
    *made = stream;
    return LS_OK;
}

ls_status ls_carried_send(struct ls_control_stream *stream, const void *data, size_t size) {
    bool opens = !stream->carried.incoming && !stream->carried.opened;
    struct ls_carry carry = carry_of(stream, opens ? LS_CARRY_OPEN : LS_CARRY_DATA);
    carry.data = data;
    carry.size = size;
    stream->carried.opened = true;
    ls_carried_say(link_of(stream), &carry);
    return LS_OK;
}

/* The side that has dialled it says that nothing more comes, and hears the end when the other one has read that. The
 * answering side waits for who has dialled it. */
void ls_carried_finish(struct ls_control_stream *stream) {
    if (stream->finishing || stream->carried.ended) return;
    stream->finishing = true;
    stream->cluster->net.finishing++;
    if (!stream->carried.incoming) say(stream, LS_CARRY_FINISH);
}

void ls_carried_drop(struct ls_control_stream *stream) {
    stream->carried.dropped = true;
    say(stream, LS_CARRY_END);
    end_carried(stream);
}

struct ls_peer *ls_carried_root(const struct ls_control_stream *stream) {
    return stream->raw || !stream->carried.echo ? NULL : carrier_of(stream);
}

void ls_carried_strand(struct ls_cluster *cluster, struct ls_peer *peer, bool incoming) {
    for (const struct ls_peer *other = cluster->first_peer; other && peer->riding[incoming]; other = other->next) {
        struct ls_control_stream *next;
        for (struct ls_control_stream *stream = other->carried; stream; stream = next) {
            next = stream->carried.next;
            if (stream->carried.carrier != peer->rank || stream->carried.incoming != incoming) continue;
            stream->carried.echo = true;
            (void)snprintf(stream->carried.reason, sizeof(stream->carried.reason),
                           "its connection through %s was closed", peer->name);
            end_carried(stream);
        }
    }
}

void ls_carried_deliver(struct ls_cluster *cluster) {
    struct ls_control_stream *stream;
    while ((stream = cluster->net.ended)) {
        cluster->net.ended = stream->carried.next;
        if (!stream->carried.dropped) cluster->net.closed(cluster, stream);
        ls_free(stream);
    }
}

static void free_all(struct ls_control_stream **list) {
    while (*list) {
        struct ls_control_stream *stream = *list;
        *list = stream->carried.next;
        ls_free(stream);
    }
}

void ls_carried_release(struct ls_cluster *cluster) {
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) free_all(&peer->carried);
    free_all(&cluster->net.ended);
}

/* ---- What comes ---- */

static struct ls_control_stream *find_carried(const struct ls_peer *peer, int carrier, bool incoming, uint64_t number) {
    struct ls_control_stream *stream = peer->carried;
    while (stream && (stream->carried.carrier != carrier || stream->carried.incoming != incoming ||
                      stream->carried.number != number))
        stream = stream->carried.next;
    return stream;
}

/* A stream that nobody has proved to be at the other end of: a worker opens one at a time. */
static struct ls_control_stream *find_unproved(const struct ls_peer *peer) {
    struct ls_control_stream *stream = peer->carried;
    while (stream && (!stream->carried.incoming || stream->user)) stream = stream->carried.next;
    return stream;
}

static bool open_incoming(struct ls_cluster *cluster, const struct ls_peer *carrier, struct ls_peer *peer,
                          const struct ls_carry *carry) {
    struct ls_control_stream *before = find_unproved(peer);
    struct ls_carriage carried = {.carrier = carrier->rank, .number = carry->number, .incoming = true};
    carried.caller.fd = -1;
    (void)snprintf(carried.caller.address, sizeof(carried.caller.address), "%.24s through %.24s", peer->name,
                   carrier->name);
    if (find_carried(peer, carrier->rank, true, carry->number)) return false;
    if (before) ls_carried_drop(before);
    struct ls_control_stream *stream = add(cluster, peer, &carried);
    if (!stream) return false;
    if (!cluster->star.shared)
        ls_carried_drop(stream);
    else
        cluster->net.message(cluster, stream, carry->data, carry->size);
    return true;
}

static void note_end(struct ls_control_stream *stream, const struct ls_carry *carry) {
    stream->carried.by_kernel = carry->by_kernel;
    (void)snprintf(stream->carried.reason, sizeof(stream->carried.reason), "%.250s", carry->reason);
    end_carried(stream);
}

/* The kinds that fit the direction: only who dials opens and finishes. A stream that is not known has been dropped
 * here, and its end is on its way. */
static bool receive_carried(struct ls_cluster *cluster, struct ls_control_stream *stream, const struct ls_carry *carry,
                            bool incoming) {
    if (carry->kind == LS_CARRY_OPEN || (carry->kind == LS_CARRY_FINISH && !incoming)) return false;
    if (!stream) return true;
    if (carry->kind == LS_CARRY_DATA) {
        cluster->net.message(cluster, stream, carry->data, carry->size);
    } else {
        if (carry->kind == LS_CARRY_FINISH) say(stream, LS_CARRY_END);
        note_end(stream, carry);
    }
    return true;
}

bool ls_carried_receive(struct ls_cluster *cluster, const struct ls_control_stream *stream,
                        const struct ls_carry *carry) {
    const struct ls_peer *carrier = stream->user;
    if (!stream->raw) return false;
    bool incoming = ls_stream_incoming(stream);
    if ((incoming ? carry->to : carry->from) != cluster->rank) return ls_speaker_receive(cluster, stream, carry);
    struct ls_peer *peer = cluster->peers[incoming ? carry->from : carry->to];
    if (peer == carrier || peer->rank == cluster->rank) return false;
    if (incoming && carry->kind == LS_CARRY_OPEN)
        return ls_speaker_may_carry(cluster, carrier, peer) && open_incoming(cluster, carrier, peer, carry);
    return receive_carried(cluster, find_carried(peer, carrier->rank, incoming, carry->number), carry, incoming);
}
