/* All that arrives on control streams: messages and ends (the poller's callbacks, with the monitor held). A message
 * counts only from the process that the stream's Hello named. */
#include "cluster/heartbeat.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/auth_tls.h"
#include "cluster/auth_token.h"
#include "cluster/cluster_private.h"
#include "cluster/exchange.h"
#include "cluster/failure.h"
#include "cluster/join.h"
#include "cluster/loss.h"
#include "cluster/message.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/servers.h"
#include "cluster/star.h"
#include "cluster/rpc/rpc_stream.h"

/* The end of a stream says whether the process behind it has ended, or has itself closed it. */
static void note_end(struct ls_cluster *cluster, const struct ls_rpc_stream *stream, uint64_t incarnation) {
    if (cluster->elastic.least && cluster->generation && incarnation && ls_rpc_stream_closed_by_kernel(stream))
        ls_propose_note_end(cluster, incarnation);
}

void ls_control_closed(void *context, struct ls_rpc_stream *stream) {
    struct ls_cluster *cluster = context;
    struct ls_peer *peer = ls_rpc_stream_user(stream);
    if (!peer) {
        ls_auth_token_ended(cluster, stream);
        return;
    }
    if (stream == peer->fading.stream) {
        peer->fading.stream = NULL;
        note_end(cluster, stream, peer->fading.incarnation);
        return;
    }
    if (ls_rpc_stream_incoming(stream)) {
        peer->in = NULL;
    } else {
        char reason[512];
        ls_rpc_stream_reason(stream, reason, sizeof(reason));
        if (peer->accepted && ls_peer_shows_end(cluster, peer)) note_end(cluster, stream, peer->incarnation);
        if (!peer->accepted) ls_auth_tls_failed(cluster, peer, reason);
        ls_peer_end_out(peer, peer->accepted ? "its connection was closed"
                                             : "what answers there is no Lockstep worker, or is just ending");
    }
    ls_loss_of_stream(cluster, peer, "its connection was closed");
}

/* Nothing more is read from a stream that does not keep to the protocol. */
static void reject(struct ls_cluster *cluster, struct ls_rpc_stream *stream) {
    struct ls_peer *peer = ls_rpc_stream_user(stream);
    ls_rpc_stream_drop(stream);
    if (!peer) {
        ls_refusals_note(&cluster->net.refusals, LS_REFUSED_MESSAGE, ls_rpc_stream_caller(stream)->address,
                         "it sent a message that is not Lockstep's");
        return;
    }
    if (ls_rpc_stream_incoming(stream))
        peer->in = NULL;
    else
        ls_peer_end_out(peer, "its answer is not Lockstep's");
    ls_loss_of_stream(cluster, peer, "it sent a message that is not Lockstep's");
}

static bool store_share(struct ls_peer *peer, const struct ls_share *share) {
    struct ls_stored_share *stored = ls_alloc(sizeof(*stored));
    if (!stored) return false;
    *stored = (struct ls_stored_share){.next = peer->shares.list, .sequence = share->sequence};
    (void)snprintf(stored->name, sizeof(stored->name), "%s", share->name);
    stored->bytes = (struct ls_bytes){ls_alloc(share->size), share->size};
    if (!stored->bytes.data) {
        ls_peer_share_free(stored);
        return false;
    }
    if (share->size) memcpy(stored->bytes.data, share->payload, share->size);
    peer->shares.list = stored;
    peer->shares.last = share->sequence;
    return true;
}

/* Of the generation that this worker is in, or is about to enter: who has heard Begin earlier may be ahead. A late
 * share of an older one is let pass. */
static bool is_present(const struct ls_cluster *cluster, uint64_t generation) {
    if (cluster->phase == LS_PHASE_READY) return generation == cluster->proposal.number;
    return cluster->phase >= LS_PHASE_MEMBER && generation == cluster->generation;
}

/* A peer is at most one exchange ahead: it needs this worker's share to go further. */
static bool receive_share(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_share *share) {
    if (share->sequence != peer->shares.last + 1 || share->sequence > cluster->exchanges.begun + 1) return false;
    if (!store_share(peer, share)) return false;
    peer->end.finished = strcmp(share->name, LS_EXIT_EXCHANGE) == 0;
    if (peer->end.finished) ls_exchange_note_exit(cluster, peer->rank, share->payload, share->size);
    ls_outbox_notify(cluster);
    return true;
}

static bool is_refusal(ls_status code) {
    return code == LS_INVALID_ARGUMENT || code == LS_FAILED_PRECONDITION || code == LS_UNAUTHENTICATED;
}

static void raise_reported(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_leave *leave,
                           ls_status status) {
    char text[LS_ERROR_SIZE + 64];
    if (leave->lost && leave->root != cluster->rank && ls_peer_is_member(cluster, leave->root) &&
        cluster->peers[leave->root])
        cluster->peers[leave->root]->silence.over = true;
    struct ls_failure failure = {.status = status, .root = leave->root, .lost = leave->lost};
    (void)snprintf(failure.message, sizeof(failure.message), "%s", leave->message);
    if (leave->root == peer->rank)
        (void)snprintf(text, sizeof(text), "%s", leave->message);
    else
        (void)snprintf(text, sizeof(text), "%s (reported by %s)", leave->message, peer->name);
    bool ends_all = !leave->lost && leave->code != LS_UNAVAILABLE;
    if (ends_all && !cluster->end.fatal.status) cluster->end.fatal = failure;
    if (status == LS_CANCELLED && !*cluster->end.stop)
        memcpy(cluster->end.stop, failure.message, sizeof(cluster->end.stop));
    ls_failure_raise(cluster, &failure, text);
}

/* The one that leads says a failure on, the first one, to all: also of its own absence, which not all may have seen. */
static void receive_failure(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_leave *leave,
                            ls_status status) {
    bool first = !cluster->failure.status, own = leave->lost && leave->root == cluster->rank;
    if (!own || !ls_failure_blame_absence(cluster, leave->message)) raise_reported(cluster, peer, leave, status);
    bool leads = cluster->phase < LS_PHASE_MEMBER ? ls_propose_is_own(cluster) : ls_star_coordinates(cluster);
    if (first && leads) ls_failure_say_stop(cluster);
}

/* The failure of another one's program is no failure of this one's. */
static ls_status status_of(const struct ls_leave *leave) {
    if (leave->lost) return LS_UNAVAILABLE;
    return leave->code == LS_CANCELLED ? LS_CANCELLED : LS_ABORTED;
}

/* A worker that joins and has waited long enough. It has seen who is missing; to the others it is missing itself now.
 */
static void note_given_up(struct ls_cluster *cluster, const struct ls_peer *peer, const char *why) {
    if (!*cluster->next.cause)
        (void)snprintf(cluster->next.cause, sizeof(cluster->next.cause), "%s (rank %d), which has given up: %.480s",
                       peer->name, peer->rank, why);
}

static void receive_leave(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_leave *leave) {
    bool member = cluster->generation && peer->generation == cluster->generation;
    if (!cluster->generation && is_refusal(leave->code)) {
        peer->end.told = true;
        ls_failure_refuse_join(cluster, leave->code, leave->message);
    } else if (!cluster->generation && leave->code == LS_DEADLINE_EXCEEDED) {
        note_given_up(cluster, peer, leave->message);
    } else if (member && leave->code && ls_servers_has(cluster, peer->rank) && cluster->phase <= LS_PHASE_MEMBER) {
        /* The training does without it. A group that forms hears of it when its stream ends. */
        if (cluster->phase == LS_PHASE_MEMBER) ls_loss_declare(cluster, peer, leave->message);
    } else if (member) {
        peer->end.left = true;
        if (!leave->code) ls_failure_note_over(cluster, leave->message);
        bool misses_nothing = peer->end.finished && leave->code == LS_CANCELLED;
        if (leave->code && !misses_nothing && cluster->phase < LS_PHASE_LEAVING)
            receive_failure(cluster, peer, leave, status_of(leave));
    }
    ls_outbox_notify(cluster);
}

/* The root of a loss, from a member that has seen it or heard of it; or a failure that ends all, with its status: of a
 * collective, or as the coordinator passes one on. */
static void receive_stop(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_message *message) {
    bool lost = message->stop.code == LS_OK;
    const struct ls_leave loss = {lost ? LS_UNAVAILABLE : message->stop.code, message->stop.root, lost,
                                  message->stop.message};
    if (cluster->phase == LS_PHASE_READY && message->generation == cluster->proposal.number)
        ls_propose_fail(cluster, message->stop.message); /* it has begun and is over, before this worker heard of it */
    else if ((cluster->phase == LS_PHASE_MEMBER || (!lost && cluster->phase < LS_PHASE_MEMBER)) &&
             message->generation == cluster->generation)
        receive_failure(cluster, peer, &loss, loss.code);
}

static bool receive_from_member(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (message->incarnation != peer->incarnation || peer->end.left) return false;
    peer->silence.lasts = 0;
    peer->generation = message->generation;
    switch (message->kind) {
    case LS_MESSAGE_BEAT:
        ls_star_hear(cluster, message->leader);
        return true;
    case LS_MESSAGE_SHARES:
    case LS_MESSAGE_FINISHED:
    case LS_MESSAGE_WAITING:
        return ls_exchange_receive(cluster, peer, message);
    case LS_MESSAGE_STALL:
        ls_stall_receive(cluster, peer, &message->stall);
        return true;
    case LS_MESSAGE_SHARE:
        return !is_present(cluster, message->generation) || receive_share(cluster, peer, &message->share);
    case LS_MESSAGE_LEAVE:
        if (message->leave.root >= cluster->size) return false;
        receive_leave(cluster, peer, &message->leave);
        return true;
    case LS_MESSAGE_STOP:
        if (message->stop.root >= cluster->size) return false;
        receive_stop(cluster, peer, message);
        return true;
    default:
        return ls_propose_receive(cluster, peer, message);
    }
}

static bool receive_handshake(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (message->kind == LS_MESSAGE_CHALLENGE && ls_auth_token_is_open(cluster, peer))
        ls_auth_token_answered(cluster, peer, message);
    else if (message->kind == LS_MESSAGE_HELLO_REPLY)
        ls_handshake_answered(cluster, peer, message);
    else
        return false;
    return true;
}

static bool receive_message(struct ls_cluster *cluster, struct ls_rpc_stream *stream,
                            const struct ls_message *message) {
    struct ls_peer *peer = ls_rpc_stream_user(stream);
    if (!ls_rpc_stream_incoming(stream)) {
        if (!peer) return false;
        if (!peer->accepted) return receive_handshake(cluster, peer, message);
        return ls_handshake_ended(cluster, message);
    }
    if (peer) return receive_from_member(cluster, peer, message);
    if (message->kind == LS_MESSAGE_CHALLENGE) return ls_auth_token_asked(cluster, stream, message);
    if (message->kind != LS_MESSAGE_HELLO) return false;
    ls_handshake_received(cluster, stream, message);
    return true;
}

void ls_control_message(void *context, struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct ls_message message;
    const struct ls_peer *peer = ls_rpc_stream_user(stream);
    if (peer && stream == peer->fading.stream) return; /* its end alone counts */
    if (ls_message_decode(data, size, &message) != LS_OK) {
        reject(context, stream);
        return;
    }
    if (!receive_message(context, stream, &message)) reject(context, stream);
    ls_message_decode_release(&message);
}
