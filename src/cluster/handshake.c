/* The handshake: who may join. A Hello is compared with what this worker knows; a difference ends the join on both
 * sides with one and the same text, which names the lower rank first. Only while joining: once the group runs, a
 * stranger is refused and nobody else hears of it. */
#include "cluster/join.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/difference.h"
#include "cluster/auth_tls.h"
#include "cluster/auth_token.h"
#include "cluster/cluster_private.h"
#include "cluster/failure.h"
#include "cluster/hello.h"
#include "cluster/loss.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/servers.h"
#include "cluster/rpc/rpc_stream.h"
#include "resolver/cluster_view.h"

#define SAME_CONFIG "give all workers the same TF_CONFIG cluster"

/* One thing that two workers must agree on. */
struct compared {
    const char *field, *own, *other, *advice;
    int rank; /* of the worker whose value `own` is */
};

/* A survivor of an earlier generation that is not on the roster of this worker's. */
static bool is_left_out(const struct ls_cluster *cluster, const struct ls_message *message, int rank) {
    return message->generation && message->generation < cluster->generation &&
           cluster->roster[rank] != message->incarnation;
}

/* A joiner for a place that the running generation does not fill: it waits, connected, until all stop for it. */
static bool may_knock(const struct ls_cluster *cluster, const struct ls_message *message) {
    bool wanted = cluster->elastic.least || ls_servers_takes(cluster, message->hello.rank);
    return wanted && cluster->phase == LS_PHASE_MEMBER && !message->generation && !cluster->roster[message->hello.rank];
}

static void answer_fenced(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *hello) {
    char text[LS_ERROR_SIZE];
    (void)snprintf(text, sizeof(text),
                   "the group has gone on without this process (to generation %llu, and this is of %llu)",
                   (unsigned long long)cluster->generation, (unsigned long long)hello->generation);
    ls_hello_answer(cluster, stream, LS_VERDICT_FENCED, text);
}

/* A worker that was never met is not waited for. */
static void tell_over(struct ls_cluster *cluster, int rank) {
    if (cluster->peers[rank]) cluster->peers[rank]->end.told_over = true;
}

static bool is_over_for(const struct ls_cluster *cluster, const struct ls_message *hello) {
    if (cluster->end.over && ls_servers_has(cluster, hello->hello.rank)) return true;
    return cluster->end.over && hello->generation && hello->generation == cluster->generation &&
           cluster->roster[hello->hello.rank] == hello->incarnation;
}

/* Returns true if another worker is known to have what this one has. */
static bool has_company(const struct ls_cluster *cluster) {
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (peer->accepted || peer->in) return true;
    return false;
}

/* One of this cluster who has another build, or another's index, is none of another cluster. */
static bool is_of_another_cluster(const struct ls_cluster *cluster, const struct ls_hello *other) {
    struct ls_difference difference;
    return other->protocol == LS_PROTOCOL_VERSION &&
           ls_line_difference_find(cluster->terms.cluster, other->cluster, &difference);
}

/* Somebody whose Hello differs is refused. It is a worker of this cluster that was started otherwise, or a stranger
 * that has come to the wrong place. That is seen when this worker dials the address that the task has here: whoever
 * answers there is no stranger. Until then it ends this worker's join only where nobody else is left that could agree.
 * A caller of another cluster leaves the other of two workers. */
static void answer_different(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *hello,
                             const char *text) {
    int rank = hello->hello.rank;
    struct ls_peer *peer = rank < cluster->size && rank != cluster->rank ? cluster->peers[rank] : NULL;
    bool alone = !cluster->generation && !has_company(cluster);
    bool last = (cluster->size == 2 && !is_of_another_cluster(cluster, &hello->hello)) ||
                (cluster->end.refusal.stranger >= 0 && cluster->end.refusal.stranger != rank);
    bool reached = peer && peer->accepted && peer->incarnation == hello->incarnation;
    if (reached || (alone && last)) {
        ls_hello_refuse_worker(cluster, stream, rank, LS_INVALID_ARGUMENT, text);
        return;
    }
    if (alone) cluster->end.refusal.stranger = rank;
    ls_hello_refuse(cluster, stream, LS_INVALID_ARGUMENT, text);
    ls_refusals_note(&cluster->net.refusals, LS_REFUSED_DIFFERENT, ls_rpc_stream_caller(stream)->address, text);
    if (peer && !peer->out) ls_dial_reset(&peer->attempt.dial);
    ls_outbox_notify(cluster);
}

static void describe_difference(const struct ls_cluster *cluster, const struct ls_hello *other,
                                const struct compared *compared, char text[LS_ERROR_SIZE]) {
    char own[400], theirs[400];
    int rank = compared->rank;
    bool own_first = rank < other->rank || (rank == other->rank && strcmp(compared->own, compared->other) < 0);
    (void)snprintf(own, sizeof(own), "'%s' on %s (rank %d)", compared->own, cluster->peers[rank]->name, rank);
    (void)snprintf(theirs, sizeof(theirs), "'%s' on %s:%d (rank %d)", compared->other, other->task_type,
                   other->task_index, other->rank);
    (void)snprintf(text, LS_ERROR_SIZE, "%s differs: %s, %s; %s", compared->field, own_first ? own : theirs,
                   own_first ? theirs : own, compared->advice);
}

static enum ls_transport transport_of(const struct ls_hello *hello) {
    for (int i = LS_TRANSPORT_AUTO; i <= LS_TRANSPORT_TCP; i++)
        if (strcmp(hello->transport, ls_settings_transport_name((enum ls_transport)i)) == 0)
            return (enum ls_transport)i;
    return LS_TRANSPORT_AUTO;
}

/* Returns true if one of the two wants shared memory alone and the other one none. */
static bool transports_differ(enum ls_transport own, enum ls_transport other) {
    return (own == LS_TRANSPORT_SHM && other == LS_TRANSPORT_TCP) ||
           (own == LS_TRANSPORT_TCP && other == LS_TRANSPORT_SHM);
}

/* The worker, this one or one that is connected, whose transport does not go with that of the Hello; -1: there is none.
 * Two workers that each go with this one need not go with each other, and may never meet. */
static int find_other_transport(const struct ls_cluster *cluster, const struct ls_hello *hello,
                                enum ls_transport *found) {
    *found = cluster->config.settings->transport;
    if (*found == transport_of(hello)) return -1; /* whoever is connected goes with it */
    if (transports_differ(*found, transport_of(hello))) return cluster->rank;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (!peer->in || peer->rank == hello->rank) continue;
        *found = peer->transport;
        if (transports_differ(*found, transport_of(hello))) return peer->rank;
    }
    return -1;
}

/* Fills text when the two cannot be in one group. */
static bool differs(const struct ls_cluster *cluster, const struct ls_hello *other, char text[LS_ERROR_SIZE]) {
    struct ls_difference difference;
    char own[16], theirs[16];
    enum ls_transport transport;
    int rank = find_other_transport(cluster, other, &transport);
    struct compared compared = {"the protocol version", own, theirs, "start all workers from the same build",
                                cluster->rank};
    (void)snprintf(own, sizeof(own), "%u", LS_PROTOCOL_VERSION);
    (void)snprintf(theirs, sizeof(theirs), "%u", other->protocol);
    if (other->protocol == LS_PROTOCOL_VERSION) {
        compared.field = "the library version";
        compared.own = cluster->terms.version;
        compared.other = other->version;
    }
    if (strcmp(compared.own, compared.other) == 0) {
        if (ls_line_difference_find(cluster->terms.cluster, other->cluster, &difference))
            compared =
                (struct compared){difference.field, difference.first, difference.second, SAME_CONFIG, cluster->rank};
        else if (!ls_servers_joins(cluster, other->rank) && strcmp(cluster->terms.elastic, other->elastic) != 0)
            compared = (struct compared){"what LOCKSTEP_ELASTIC says", cluster->terms.elastic, other->elastic,
                                         "start all workers with the same", cluster->rank};
        else if (rank >= 0)
            compared = (struct compared){"LOCKSTEP_TRANSPORT", ls_settings_transport_name(transport), other->transport,
                                         "start all workers with the same", rank};
        else if (!ls_servers_joins(cluster, other->rank) &&
                 ls_line_difference_find(cluster->terms.options, other->options, &difference))
            compared = (struct compared){difference.field, difference.first, difference.second,
                                         "start all workers alike", cluster->rank};
        else
            return false;
    }
    describe_difference(cluster, other, &compared, text);
    return true;
}

/* The Hello's task must be another one of this cluster. */
static bool misplaced(const struct ls_cluster *cluster, const struct ls_hello *other, char text[LS_ERROR_SIZE]) {
    const struct ls_peer *own = cluster->peers[cluster->rank];
    if (other->rank == cluster->rank) {
        (void)snprintf(text, LS_ERROR_SIZE,
                       "two processes say that they are %s (rank %d): give each its own task index in TF_CONFIG",
                       own->name, own->rank);
        return true;
    }
    const struct ls_task *task = ls_cluster_view_member(cluster->config.tf_config, other->rank);
    if (task && task->index == other->task_index &&
        strcmp(ls_cluster_view_type_name(task->type), other->task_type) == 0)
        return false;
    (void)snprintf(text, LS_ERROR_SIZE, "a process says that it is %s:%d with rank %d, which %s (rank %d) has as %s",
                   other->task_type, other->task_index, other->rank, own->name, own->rank,
                   task ? task->name : "no task");
    return true;
}

/* Another process of the same task is connected already: the one before, about to be seen closed, or a second one. In
 * a recovery that is one that was fenced and finds its task taken: it ends, and nobody else. */
static void answer_rival(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_rpc_stream *stream,
                         uint64_t incarnation) {
    char text[LS_ERROR_SIZE];
    struct ls_peer_rival *rival = &peer->rival;
    int64_t now = ls_now();
    bool another = rival->incarnation != incarnation && now - rival->heard > LS_RIVAL_TIMEOUT;
    *rival = (struct ls_peer_rival){incarnation, !rival->since || another ? now : rival->since, now};
    (void)snprintf(text, sizeof(text),
                   "two processes say that they are %s (rank %d): give each its own task index in "
                   "TF_CONFIG, or end the one left over from an earlier run",
                   peer->name, peer->rank);
    bool lives = peer->silence.lasts <= cluster->net.heartbeat.limit / 2; /* else it is about to be found lost */
    bool twice = lives && now - rival->since > LS_RIVAL_TIMEOUT;
    if (twice && ls_peer_is_any_survivor(cluster))
        ls_hello_refuse(cluster, stream, LS_INVALID_ARGUMENT, text);
    else if (twice)
        ls_hello_refuse_worker(cluster, stream, peer->rank, LS_INVALID_ARGUMENT, text);
    else
        ls_hello_answer(cluster, stream, LS_VERDICT_RETRY, "an earlier process of this task is still connected");
}

/* The process is connected, whatever has become of its streams before. */
static void is_alive(struct ls_cluster *cluster, struct ls_peer *peer) {
    ls_closed_remove(&cluster->elastic.closed, peer->incarnation);
    if (peer->fading.incarnation == peer->incarnation) ls_peer_end_fading(peer);
}

/* The same process dials anew: it has closed the stream before, and its Report there holds no more. */
static void end_before(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (!peer->in) return;
    ls_rpc_stream_drop(peer->in);
    peer->in = NULL;
    if (ls_propose_is_own(cluster)) ls_loss_of_stream(cluster, peer, "its connection was closed");
}

static void accept(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_rpc_stream *stream,
                   const struct ls_message *message) {
    struct ls_message reply = ls_hello_reply(cluster, LS_VERDICT_ACCEPTED, "");
    end_before(cluster, peer);
    ls_peer_adopt(peer, message->incarnation);
    is_alive(cluster, peer);
    peer->in = stream;
    peer->generation = message->generation;
    if (!peer->out && !peer->attempt.dial.tls) ls_dial_reset(&peer->attempt.dial); /* it is there now */
    peer->silence.lasts = 0;
    ls_rpc_stream_set_user(stream, peer);
    ls_listener_trust(cluster->net.listener, ls_rpc_stream_caller(stream)->fd);
    peer->host = ls_hello_host(message->hello.host);
    peer->transport = transport_of(&message->hello);
    ls_outbox_send(stream, &reply);
    ls_outbox_notify(cluster);
}

void ls_handshake_received(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message) {
    char text[LS_ERROR_SIZE];
    if (!ls_auth_tls_caller(cluster, ls_rpc_stream_caller(stream), message->hello.task_type, message->hello.task_index,
                            text)) {
        ls_hello_refuse_stranger(cluster, stream, message->hello.rank, LS_REFUSED_CERTIFICATE, text);
        return;
    }
    if (!ls_auth_token_admits(cluster, stream, message)) return;
    if (message->incarnation == cluster->incarnation) {
        ls_hello_answer(cluster, stream, LS_VERDICT_RETRY,
                        ""); /* the asking side, this process too, sees whom it has reached */
    } else if (differs(cluster, &message->hello, text) || misplaced(cluster, &message->hello, text)) {
        answer_different(cluster, stream, message, text);
    } else if (cluster->end.refusal.status) {
        ls_hello_refuse_worker(cluster, stream, message->hello.rank, cluster->end.refusal.status,
                               cluster->end.refusal.text);
    } else if (ls_servers_has(cluster, message->hello.rank) && !ls_servers_takes(cluster, message->hello.rank)) {
        ls_hello_refuse(cluster, stream, LS_FAILED_PRECONDITION,
                        "the workers train without parameter servers (LOCKSTEP_PS is off there)");
    } else if (is_left_out(cluster, message, message->hello.rank)) {
        answer_fenced(cluster, stream, message);
    } else if (is_over_for(cluster, message)) {
        tell_over(cluster, message->hello.rank);
        ls_hello_answer_over(cluster, stream);
    } else if (cluster->phase >= LS_PHASE_MEMBER && !may_knock(cluster, message)) {
        if (cluster->phase == LS_PHASE_LEAVING) tell_over(cluster, message->hello.rank); /* another process */
        ls_hello_answer(cluster, stream, LS_VERDICT_RETRY, "the group has started without it and has not ended yet");
    } else {
        struct ls_peer *peer = ls_peer_meet(cluster, message->hello.rank);
        if (!peer)
            ls_hello_answer(cluster, stream, LS_VERDICT_RETRY, "there is no memory for another worker");
        else if (peer->incarnation && peer->incarnation != message->incarnation)
            answer_rival(cluster, peer, stream, message->incarnation);
        else
            accept(cluster, peer, stream, message);
    }
}

static void note_over(struct ls_cluster *cluster, const struct ls_message *message) {
    ls_failure_note_over(cluster, message->reply.code ? message->reply.message : "");
}

bool ls_handshake_ended(struct ls_cluster *cluster, const struct ls_message *message) {
    bool over = message->kind == LS_MESSAGE_HELLO_REPLY && message->reply.verdict == LS_VERDICT_OVER;
    if (!over || !ls_servers_has(cluster, cluster->rank)) return false;
    note_over(cluster, message);
    ls_outbox_notify(cluster);
    return true;
}

static bool reached_another(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    const struct ls_handshake_reply *reply = &message->reply;
    const char *own = cluster->peers[cluster->rank]->name;
    char text[LS_ERROR_SIZE];
    if (message->incarnation == cluster->incarnation)
        (void)snprintf(text, sizeof(text),
                       "the address of %s leads to this process, which is %s: its task index in TF_CONFIG does not fit "
                       "the host that it runs on",
                       peer->where, own);
    else if (reply->rank != peer->rank)
        (void)snprintf(text, sizeof(text),
                       "the address of %s, seen from %s, leads to a process that is %s:%d: its task index in TF_CONFIG "
                       "does not fit the host that it runs on",
                       peer->where, own, reply->task_type, reply->task_index);
    else
        return false;
    ls_failure_refuse_join(cluster, LS_INVALID_ARGUMENT, text);
    return true;
}

static void accepted(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (is_left_out(cluster, message, peer->rank)) {
        ls_hello_end_attempt(cluster, peer, "the group has gone on without it, as it will hear when it dials");
        return;
    }
    if (peer->in && peer->incarnation != message->incarnation) { /* of a process that this one has replaced */
        ls_rpc_stream_drop(peer->in);
        peer->in = NULL;
    }
    ls_peer_adopt(peer, message->incarnation);
    is_alive(cluster, peer);
    peer->generation = message->generation;
    peer->accepted = true;
    ls_outbox_notify(cluster);
}

void ls_handshake_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (!ls_auth_token_trusts(cluster, peer, message)) return;
    if (message->reply.verdict == LS_VERDICT_REFUSED) {
        peer->end.refused = message->reply.code != LS_UNAUTHENTICATED; /* strangers are refused without being heard */
        ls_failure_refuse_join(cluster, message->reply.code, message->reply.message);
        ls_hello_end_attempt(cluster, peer, message->reply.message);
    } else if (reached_another(cluster, peer, message)) {
        ls_hello_end_attempt(cluster, peer, cluster->end.refusal.text);
    } else if (message->reply.verdict == LS_VERDICT_FENCED) {
        ls_hello_end_attempt(cluster, peer, message->reply.message);
        ls_propose_fence(cluster, message->reply.message);
    } else if (message->reply.verdict == LS_VERDICT_OVER) {
        bool serves = ls_servers_has(cluster, cluster->rank);
        peer->end.left = serves || (cluster->generation && message->generation == cluster->generation);
        if (peer->end.left) note_over(cluster, message);
        ls_hello_end_attempt(cluster, peer, message->reply.message);
    } else if (message->reply.verdict == LS_VERDICT_RETRY) {
        ls_hello_end_attempt(cluster, peer, message->reply.message);
    } else {
        accepted(cluster, peer, message);
    }
}
