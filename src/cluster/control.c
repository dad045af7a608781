/* What arrives: messages and ends of the control streams (the poller's callbacks, with the monitor held) and new data
 * connections (the listener's). A message counts only from the process that the stream's Hello named. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/socket.h"
#include "cluster/state.h"

void ls_control_fail(struct ls_cluster *cluster, const struct ls_failure *failure, const char *message) {
    if (!cluster->failure.status) cluster->failure = *failure;
    ls_abort_raise(cluster->config.abort, failure->status, message);
    ls_cluster_notify(cluster);
}

/* A process that was stopped for longer than the limit has been given up by the others: what it sees of them is the
 * echo of that. False: it was not. */
static bool blame_absence(struct ls_cluster *cluster, const char *echo) {
    const struct ls_peer *own = &cluster->peers[cluster->rank];
    struct ls_failure failure = {.status = LS_UNAVAILABLE, .root = cluster->rank, .lost = true};
    int64_t absence = ls_liveness_absence(cluster);
    if (!absence) return false;
    (void)snprintf(failure.message, sizeof(failure.message),
                   "%s (rank %d, %s) was itself stopped for %.1f s (LOCKSTEP_HEARTBEAT_LIMIT is %g s), and the others "
                   "went on without it: %.600s",
                   own->name, own->rank, own->task->address, (double)absence / (double)LS_SECOND,
                   cluster->config.settings->heartbeat_limit, echo);
    ls_control_fail(cluster, &failure, failure.message);
    return true;
}

/* To all members: the root, if this worker has not said it before. */
static void say_stop(struct ls_cluster *cluster) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_STOP);
    message.stop = (struct ls_stop){cluster->failure.root, cluster->failure.message};
    for (int rank = 0; rank < cluster->size; rank++)
        if (cluster->peers[rank].accepted) ls_cluster_send(cluster->peers[rank].out, &message);
}

void ls_control_stop(struct ls_cluster *cluster, int root, const char *message) {
    struct ls_failure failure = {.status = LS_UNAVAILABLE, .root = root, .lost = true};
    (void)snprintf(failure.message, sizeof(failure.message), "%s", message);
    ls_control_fail(cluster, &failure, failure.message);
    say_stop(cluster);
}

static void describe_loss(const struct ls_peer *peer, const char *how, char text[LS_ERROR_SIZE]) {
    (void)snprintf(text, LS_ERROR_SIZE, "%s (rank %d, %s) was lost: %s", peer->name, peer->rank, peer->task->address,
                   how);
}

void ls_control_lose(struct ls_cluster *cluster, struct ls_peer *peer, const char *how) {
    struct ls_failure failure = {.status = LS_UNAVAILABLE, .root = peer->rank, .lost = true};
    bool first = !cluster->failure.status;
    describe_loss(peer, how, failure.message);
    if (!blame_absence(cluster, failure.message)) ls_control_fail(cluster, &failure, failure.message);
    if (first) say_stop(cluster);
}

/* Before the group runs a peer may come back; then a member is lost, unless it has taken its leave. */
void ls_control_gone(struct ls_cluster *cluster, struct ls_peer *peer, const char *how) {
    char text[LS_ERROR_SIZE];
    bool attempted = ls_convene_is_attempting(cluster) && cluster->proposal.roster[peer->rank];
    bool member = cluster->phase >= LS_PHASE_MEMBER && ls_cluster_has_member(cluster, peer->rank);
    if (!member) {
        ls_convene_forget(cluster, peer);
        if (!peer->in && !peer->out) ls_peer_adopt(peer, 0);
    }
    if (attempted) {
        describe_loss(peer, how, text);
        ls_convene_fail(cluster, text);
    }
    if (cluster->phase == LS_PHASE_MEMBER && member && !peer->left && !peer->finished)
        ls_control_lose(cluster, peer, how);
    ls_cluster_notify(cluster);
}

void ls_control_drop(struct ls_cluster *cluster, struct ls_peer *peer, const char *why) {
    ls_peer_sever(peer, why);
    ls_control_gone(cluster, peer, why);
}

void ls_control_closed(void *context, struct ls_rpc_stream *stream) {
    struct ls_cluster *cluster = context;
    struct ls_peer *peer = ls_rpc_user(stream);
    if (!peer) {
        ls_prove_ended(cluster, stream);
        return;
    }
    if (ls_rpc_incoming(stream)) {
        peer->in = NULL;
    } else {
        char reason[512];
        ls_rpc_reason(stream, reason, sizeof(reason));
        if (peer->accepted || !ls_certify_failed(cluster, peer, reason))
            (void)snprintf(
                peer->why, sizeof(peer->why), "%s",
                peer->accepted
                    ? "its connection was closed"
                    : "what answers there is no Lockstep worker, is just ending, or uses TLS (LOCKSTEP_TLS_*)");
        peer->out = NULL;
        peer->accepted = false;
        peer->attempt_over = true;
    }
    ls_control_gone(cluster, peer, "its connection was closed");
}

/* Nothing more is read from a stream that does not keep to the protocol. */
static void reject(struct ls_cluster *cluster, struct ls_rpc_stream *stream) {
    struct ls_peer *peer = ls_rpc_user(stream);
    ls_rpc_drop(stream);
    if (!peer) {
        ls_refuse(&cluster->refusals, LS_REFUSED_MESSAGE, ls_rpc_caller(stream)->address,
                  "it sent a message that is not Lockstep's");
        return;
    }
    if (ls_rpc_incoming(stream)) {
        peer->in = NULL;
    } else {
        peer->out = NULL;
        peer->accepted = false;
        peer->attempt_over = true;
        (void)snprintf(peer->why, sizeof(peer->why), "its answer is not Lockstep's");
    }
    ls_control_gone(cluster, peer, "it sent a message that is not Lockstep's");
}

static bool store_share(struct ls_peer *peer, const struct ls_share *share) {
    struct ls_stored_share *stored = ls_alloc(sizeof(*stored));
    if (!stored) return false;
    *stored = (struct ls_stored_share){.next = peer->shares, .sequence = share->sequence};
    stored->name = ls_strdup(share->name);
    stored->bytes = (struct ls_bytes){ls_alloc(share->size), share->size};
    if (!stored->name || !stored->bytes.data) {
        ls_stored_share_free(stored);
        return false;
    }
    if (share->size) memcpy(stored->bytes.data, share->payload, share->size);
    peer->shares = stored;
    peer->last_share = share->sequence;
    return true;
}

/* Of the generation that this worker is in, or is about to enter: who has heard Begin earlier may be ahead. What comes
 * late of an older one is let pass. */
static bool is_present(const struct ls_cluster *cluster, uint64_t generation) {
    if (cluster->phase == LS_PHASE_READY) return generation == cluster->proposal.number;
    return cluster->phase >= LS_PHASE_MEMBER && generation == cluster->generation;
}

/* A peer is at most one exchange ahead: it needs this worker's share to go further. */
static bool receive_share(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_share *share) {
    if (share->sequence != peer->last_share + 1 || share->sequence > cluster->sequence + 1) return false;
    if (!store_share(peer, share)) return false;
    peer->finished = strcmp(share->name, LS_EXIT_EXCHANGE) == 0;
    ls_cluster_notify(cluster);
    return true;
}

static bool is_refusal(ls_status code) {
    return code == LS_INVALID_ARGUMENT || code == LS_FAILED_PRECONDITION || code == LS_UNAUTHENTICATED;
}

static void receive_failure(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_leave *leave) {
    char text[LS_ERROR_SIZE + 64];
    if (leave->lost && leave->root == cluster->rank && blame_absence(cluster, leave->message)) return;
    if (leave->lost && leave->root != cluster->rank && ls_cluster_has_member(cluster, leave->root))
        cluster->peers[leave->root].silent = true;
    struct ls_failure failure = {
        .status = leave->lost ? LS_UNAVAILABLE : LS_ABORTED, .root = leave->root, .lost = leave->lost};
    (void)snprintf(failure.message, sizeof(failure.message), "%s", leave->message);
    if (leave->root == peer->rank)
        (void)snprintf(text, sizeof(text), "%s", leave->message);
    else
        (void)snprintf(text, sizeof(text), "%s (reported by %s)", leave->message, peer->name);
    ls_control_fail(cluster, &failure, text);
}

static void receive_leave(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_leave *leave) {
    bool member = cluster->generation && peer->generation == cluster->generation;
    if (!cluster->generation && is_refusal(leave->code)) {
        peer->told = true;
        ls_hello_refuse_join(cluster, leave->code, leave->message);
    } else if (member) {
        peer->left = true;
        cluster->over = cluster->over || !leave->code;
        if (leave->code && cluster->phase < LS_PHASE_LEAVING) receive_failure(cluster, peer, leave);
    }
    ls_cluster_notify(cluster);
}

/* The root of a loss, from a member that has seen it or heard of it. */
static void receive_stop(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_message *message) {
    const struct ls_leave loss = {LS_UNAVAILABLE, message->stop.root, true, message->stop.message};
    if (cluster->phase == LS_PHASE_READY && message->generation == cluster->proposal.number)
        ls_convene_fail(cluster, message->stop.message); /* it has begun and is over, before this worker heard of it */
    else if (cluster->phase == LS_PHASE_MEMBER && message->generation == cluster->generation)
        receive_failure(cluster, peer, &loss);
}

static bool receive_from_member(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (message->incarnation != peer->incarnation || peer->left) return false;
    ls_liveness_heard(peer);
    peer->generation = message->generation;
    switch (message->kind) {
    case LS_MESSAGE_BEAT:
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
        return ls_convene_receive(cluster, peer, message);
    }
}

static bool receive_answer(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (message->kind == LS_MESSAGE_CHALLENGE && ls_prove_is_open(cluster, peer))
        ls_prove_answered(cluster, peer, message);
    else if (message->kind == LS_MESSAGE_HELLO_REPLY)
        ls_hello_answered(cluster, peer, message);
    else
        return false;
    return true;
}

static bool receive(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message) {
    struct ls_peer *peer = ls_rpc_user(stream);
    if (!ls_rpc_incoming(stream)) {
        if (!peer || peer->accepted) return false;
        return receive_answer(cluster, peer, message);
    }
    if (peer) return receive_from_member(cluster, peer, message);
    if (message->kind == LS_MESSAGE_CHALLENGE) return ls_prove_asked(cluster, stream, message);
    if (message->kind != LS_MESSAGE_HELLO) return false;
    ls_hello_received(cluster, stream, message);
    return true;
}

void ls_control_message(void *context, struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct ls_message message;
    if (ls_message_decode(data, size, &message) != LS_OK) {
        reject(context, stream);
        return;
    }
    if (!receive(context, stream, &message)) reject(context, stream);
    ls_message_release(&message);
}

enum admission { ADMITTED, UNTIMELY, REFUSED };

/* Each attempt once: who replays a preface is refused. A worker that has heard of a proposal earlier than this one, or
 * later of its end, comes again. */
static enum admission admit(const struct ls_cluster *cluster, const struct ls_preface *preface) {
    if (cluster->phase >= LS_PHASE_MEMBER || preface->protocol != LS_PROTOCOL_VERSION) return REFUSED;
    if (preface->rank <= cluster->rank || preface->rank >= cluster->size) return REFUSED;
    struct ls_peer *peer = &cluster->peers[preface->rank];
    if (!peer->in || peer->incarnation != preface->incarnation || preface->attempt <= peer->data_admitted)
        return REFUSED;
    if (!ls_preface_is_signed(preface, peer->key_in)) return REFUSED;
    peer->data_admitted = preface->attempt;
    bool timely = cluster->phase == LS_PHASE_FORMING && preface->generation == cluster->proposal.number &&
                  preface->incarnation == cluster->proposal.roster[preface->rank];
    return timely ? ADMITTED : UNTIMELY;
}

/* What is refused may be a stranger, a worker of another run or one that was stopped and has woken. */
static void report_refusal(struct ls_cluster *cluster, const char *who, int rank) {
    char text[128];
    (void)snprintf(text, sizeof(text), "it says it is rank %d's, for data, and is not from a process of this group",
                   rank);
    ls_refuse(&cluster->refusals, LS_REFUSED_DATA, who, text);
}

void ls_control_data(void *context, int fd, const struct ls_preface *preface) {
    static const uint8_t ack = LS_PREFACE_ACK;
    struct ls_cluster *cluster = context;
    struct ls_link *link = NULL;
    ls_monitor_lock(&cluster->monitor);
    enum admission admission = ls_cluster_data_over_grpc(cluster) ? REFUSED : admit(cluster, preface);
    if (admission == ADMITTED && send(fd, &ack, 1, MSG_NOSIGNAL) == 1 && ls_tcp_link_new(fd, &link) == LS_OK) {
        ls_peer_set_link(&cluster->peers[preface->rank], link);
        ls_cluster_notify(cluster);
    }
    ls_monitor_unlock(&cluster->monitor);
    if (admission == REFUSED) {
        char who[LS_ADDRESS_TEXT];
        ls_socket_describe(fd, who);
        report_refusal(cluster, who, preface->rank);
    }
    if (!link) (void)close(fd);
}

static bool certified(struct ls_cluster *cluster, const struct ls_rpc_caller *caller, int rank) {
    char text[LS_ERROR_SIZE];
    if (rank >= cluster->size) return false;
    const struct ls_task *task = cluster->peers[rank].task;
    return ls_certify_caller(cluster, caller, ls_task_type_name(task->type), task->index, text);
}

bool ls_control_link(void *context, const struct ls_rpc_caller *caller, const void *bytes, size_t size,
                     struct ls_link *link) {
    struct ls_cluster *cluster = context;
    struct ls_preface preface = {.rank = -1};
    bool read = size == LS_PREFACE_SIZE && ls_preface_decode(bytes, &preface) == LS_OK;
    ls_monitor_lock(&cluster->monitor);
    enum admission admission = read && certified(cluster, caller, preface.rank) ? admit(cluster, &preface) : REFUSED;
    if (admission == ADMITTED) {
        ls_peer_set_link(&cluster->peers[preface.rank], link);
        ls_listener_trust(cluster->listener, caller->fd);
        ls_cluster_notify(cluster);
    }
    ls_monitor_unlock(&cluster->monitor);
    if (admission == REFUSED) report_refusal(cluster, caller->address, preface.rank);
    return admission == ADMITTED;
}

void ls_control_link_changed(void *context) {
    struct ls_cluster *cluster = context;
    ls_monitor_lock(&cluster->monitor);
    ls_cluster_notify(cluster);
    ls_monitor_unlock(&cluster->monitor);
}
