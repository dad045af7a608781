/* The handshake: who may join. A Hello is compared with what this worker knows; a difference ends the join on both
 * sides with one and the same text, which names the lower rank first. Only while joining: once the group runs, a
 * stranger is refused and nobody else hears of it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "cluster/lines.h"
#include "cluster/state.h"

#define SAME_CONFIG "give all workers the same TF_CONFIG cluster"

/* One thing that two workers must agree on. */
struct compared {
    const char *field, *own, *other, *advice;
};

void ls_hello_refuse_join(struct ls_cluster *cluster, ls_status status, const char *text) {
    if (cluster->refusal || cluster->generation) return;
    cluster->refusal = status;
    cluster->refusal_deadline = ls_now() + LS_TELL_TIMEOUT;
    (void)snprintf(cluster->refusal_text, sizeof(cluster->refusal_text), "%s", text);
    ls_cluster_notify(cluster);
}

static struct ls_hello own_hello(const struct ls_cluster *cluster) {
    const struct ls_task *task = cluster->peers[cluster->rank].task;
    return (struct ls_hello){.protocol = LS_PROTOCOL_VERSION,
                             .version = cluster->version,
                             .task_type = ls_task_type_name(task->type),
                             .task_index = task->index,
                             .rank = cluster->rank,
                             .size = cluster->size,
                             .cluster = cluster->config.tf_config->canonical,
                             .host = cluster->host,
                             .transport = ls_transport_name(cluster->config.settings->transport),
                             .elastic = cluster->elastic};
}

void ls_hello_send(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const uint8_t *proof) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_HELLO);
    message.hello = own_hello(cluster);
    message.hello.proof = proof;
    ls_cluster_send(stream, &message);
}

static struct ls_message reply_of(const struct ls_cluster *cluster, enum ls_verdict verdict, const char *text) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_HELLO_REPLY);
    const struct ls_task *task = cluster->peers[cluster->rank].task;
    message.reply = (struct ls_hello_reply){.verdict = verdict,
                                            .message = text,
                                            .task_type = ls_task_type_name(task->type),
                                            .task_index = task->index,
                                            .rank = cluster->rank};
    return message;
}

static void answer_retry(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const char *text) {
    struct ls_message message = reply_of(cluster, LS_VERDICT_RETRY, text);
    ls_cluster_send(stream, &message);
    ls_rpc_finish(stream);
}

/* A survivor of an earlier generation that is not on the roster of this worker's. */
static bool is_left_out(const struct ls_cluster *cluster, const struct ls_message *message, int rank) {
    return message->generation && message->generation < cluster->generation &&
           cluster->roster[rank] != message->incarnation;
}

/* A joiner for a place that the running generation does not fill: it waits, connected, until all stop for it. */
static bool may_knock(const struct ls_cluster *cluster, const struct ls_message *message) {
    return cluster->least && cluster->phase == LS_PHASE_MEMBER && !message->generation &&
           !cluster->roster[message->hello.rank];
}

static void answer_fenced(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *hello) {
    char text[LS_ERROR_SIZE];
    (void)snprintf(text, sizeof(text),
                   "the group has gone on to generation %llu without this process, which is of %llu",
                   (unsigned long long)cluster->generation, (unsigned long long)hello->generation);
    struct ls_message message = reply_of(cluster, LS_VERDICT_FENCED, text);
    ls_cluster_send(stream, &message);
    ls_rpc_finish(stream);
}

/* A member that lost its streams, because it or this process was frozen, and seeks the others. */
static void answer_over(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *hello) {
    struct ls_message message = reply_of(cluster, LS_VERDICT_OVER, "all have finished, and this process leaves");
    cluster->peers[hello->hello.rank].told_over = true;
    ls_cluster_send(stream, &message);
    ls_rpc_finish(stream);
}

static bool is_over_for(const struct ls_cluster *cluster, const struct ls_message *hello) {
    return cluster->over && hello->generation && hello->generation == cluster->generation &&
           cluster->roster[hello->hello.rank] == hello->incarnation;
}

static void send_refused(struct ls_cluster *cluster, struct ls_rpc_stream *stream, ls_status code, const char *text) {
    struct ls_message message = reply_of(cluster, LS_VERDICT_REFUSED, text);
    message.reply.code = code;
    ls_cluster_send(stream, &message);
    ls_rpc_finish(stream);
}

static void answer_refused(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, ls_status code,
                           const char *text) {
    send_refused(cluster, stream, code, text);
    if (rank < cluster->size) cluster->peers[rank].told = true;
    ls_hello_refuse_join(cluster, code, text);
}

void ls_hello_told(struct ls_cluster *cluster, int rank) {
    if (rank < cluster->size) cluster->peers[rank].told = true;
    ls_cluster_notify(cluster);
}

void ls_hello_refuse_stranger(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, enum ls_refusal kind,
                              const char *text) {
    struct ls_message message = reply_of(cluster, LS_VERDICT_REFUSED, text);
    message.reply.code = LS_UNAUTHENTICATED;
    ls_hello_told(cluster, rank);
    ls_refuse(&cluster->refusals, kind, ls_rpc_caller(stream)->address, text);
    ls_cluster_send(stream, &message);
    ls_rpc_finish(stream);
}

static void describe(const struct ls_cluster *cluster, const struct ls_hello *other, const struct compared *compared,
                     char text[LS_ERROR_SIZE]) {
    char own[400], theirs[400];
    bool own_first =
        cluster->rank < other->rank || (cluster->rank == other->rank && strcmp(compared->own, compared->other) < 0);
    (void)snprintf(own, sizeof(own), "'%s' on %s (rank %d)", compared->own, cluster->peers[cluster->rank].name,
                   cluster->rank);
    (void)snprintf(theirs, sizeof(theirs), "'%s' on %s:%d (rank %d)", compared->other, other->task_type,
                   other->task_index, other->rank);
    (void)snprintf(text, LS_ERROR_SIZE, "%s differs: %s, %s; %s", compared->field, own_first ? own : theirs,
                   own_first ? theirs : own, compared->advice);
}

/* Whether only one of the two wants gRPC; all else is found out when the group is made. */
static bool transports_differ(const struct ls_cluster *cluster, const struct ls_hello *other) {
    bool own = cluster->config.settings->transport == LS_TRANSPORT_GRPC;
    return own != (strcmp(other->transport, ls_transport_name(LS_TRANSPORT_GRPC)) == 0);
}

/* Fills text when the two cannot be in one group. */
static bool differs(const struct ls_cluster *cluster, const struct ls_hello *other, char text[LS_ERROR_SIZE]) {
    struct ls_difference difference;
    char own[16], theirs[16];
    struct compared compared = {"the protocol version", own, theirs, "start all workers from the same build"};
    (void)snprintf(own, sizeof(own), "%u", LS_PROTOCOL_VERSION);
    (void)snprintf(theirs, sizeof(theirs), "%u", other->protocol);
    if (other->protocol == LS_PROTOCOL_VERSION) {
        compared.field = "the library version";
        compared.own = cluster->version;
        compared.other = other->version;
    }
    if (strcmp(compared.own, compared.other) == 0) {
        if (ls_lines_differ(cluster->config.tf_config->canonical, other->cluster, &difference))
            compared = (struct compared){difference.field, difference.first, difference.second, SAME_CONFIG};
        else if (strcmp(cluster->elastic, other->elastic) != 0)
            compared = (struct compared){"what LOCKSTEP_ELASTIC says", cluster->elastic, other->elastic,
                                         "start all workers with the same"};
        else if (transports_differ(cluster, other))
            compared = (struct compared){"LOCKSTEP_TRANSPORT", ls_transport_name(cluster->config.settings->transport),
                                         other->transport, "start all workers with grpc, or none"};
        else
            return false;
    }
    describe(cluster, other, &compared, text);
    return true;
}

/* The Hello's task must be another one of this cluster. */
static bool misplaced(const struct ls_cluster *cluster, const struct ls_hello *other, char text[LS_ERROR_SIZE]) {
    const struct ls_peer *own = &cluster->peers[cluster->rank];
    if (other->rank == cluster->rank) {
        (void)snprintf(text, LS_ERROR_SIZE,
                       "two processes say that they are %s (rank %d): give each its own task index in TF_CONFIG",
                       own->name, own->rank);
        return true;
    }
    const struct ls_task *task = other->rank < cluster->size ? cluster->peers[other->rank].task : NULL;
    if (task && task->index == other->task_index && strcmp(ls_task_type_name(task->type), other->task_type) == 0)
        return false;
    (void)snprintf(text, LS_ERROR_SIZE, "a process says that it is %s:%d with rank %d, which %s (rank %d) has as %s",
                   other->task_type, other->task_index, other->rank, own->name, own->rank,
                   task ? cluster->peers[other->rank].name : "no task");
    return true;
}

/* Another process of the same task is connected already: the one before, about to be seen closed, or a second one. In
 * a recovery that is one that was fenced and finds its task taken: it ends, and nobody else. */
static void answer_rival(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_rpc_stream *stream) {
    char text[LS_ERROR_SIZE];
    int64_t now = ls_now();
    if (!peer->rival_since) peer->rival_since = now;
    (void)snprintf(text, sizeof(text),
                   "two processes say that they are %s (rank %d): give each its own task index in "
                   "TF_CONFIG, or end the one left over from an earlier run",
                   peer->name, peer->rank);
    if (now - peer->rival_since > LS_RIVAL_TIMEOUT && ls_cluster_knows_survivor(cluster))
        send_refused(cluster, stream, LS_INVALID_ARGUMENT, text);
    else if (now - peer->rival_since > LS_RIVAL_TIMEOUT)
        answer_refused(cluster, stream, peer->rank, LS_INVALID_ARGUMENT, text);
    else
        answer_retry(cluster, stream, "an earlier process of this task is still connected");
}

static void accept(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_rpc_stream *stream,
                   const struct ls_message *message) {
    struct ls_message reply = reply_of(cluster, LS_VERDICT_ACCEPTED, "");
    uint8_t given[LS_DATA_KEY_SIZE], key[LS_PROOF_SIZE];
    if (ls_proof_random(given, sizeof(given)) || !ls_prove_key(cluster, stream, given, key)) {
        answer_retry(cluster, stream, "no random numbers");
        return;
    }
    if (peer->in) ls_rpc_drop(peer->in);
    ls_peer_adopt(peer, message->incarnation);
    peer->in = stream;
    peer->generation = message->generation;
    if (!peer->out) ls_dial_reset(&peer->control); /* it is there now */
    ls_liveness_heard(peer);
    ls_rpc_set_user(stream, peer);
    ls_listener_trust(cluster->listener, ls_rpc_caller(stream)->fd);
    (void)snprintf(peer->host, sizeof(peer->host), "%s", message->hello.host);
    memcpy(peer->key_in, key, sizeof(key));
    peer->data_admitted = 0;
    reply.reply.data_key = given;
    ls_cluster_send(stream, &reply);
    ls_cluster_notify(cluster);
}

void ls_hello_received(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message) {
    char text[LS_ERROR_SIZE];
    if (!ls_certify_caller(cluster, ls_rpc_caller(stream), message->hello.task_type, message->hello.task_index, text)) {
        ls_hello_refuse_stranger(cluster, stream, message->hello.rank, LS_REFUSED_CERTIFICATE, text);
        return;
    }
    if (!ls_prove_admits(cluster, stream, message)) return;
    if (message->incarnation == cluster->incarnation) {
        answer_retry(cluster, stream, ""); /* the asking side, this process too, sees whom it has reached */
    } else if (differs(cluster, &message->hello, text) || misplaced(cluster, &message->hello, text)) {
        answer_refused(cluster, stream, message->hello.rank, LS_INVALID_ARGUMENT, text);
    } else if (cluster->refusal) {
        answer_refused(cluster, stream, message->hello.rank, cluster->refusal, cluster->refusal_text);
    } else if (is_left_out(cluster, message, message->hello.rank)) {
        answer_fenced(cluster, stream, message);
    } else if (is_over_for(cluster, message)) {
        answer_over(cluster, stream, message);
    } else if (cluster->phase >= LS_PHASE_MEMBER && !may_knock(cluster, message)) {
        if (cluster->phase == LS_PHASE_LEAVING)
            cluster->peers[message->hello.rank].told_over = true; /* another process */
        answer_retry(cluster, stream, "the group has started without it and has not ended yet");
    } else {
        struct ls_peer *peer = &cluster->peers[message->hello.rank];
        if (peer->incarnation && peer->incarnation != message->incarnation)
            answer_rival(cluster, peer, stream);
        else
            accept(cluster, peer, stream, message);
    }
}

void ls_hello_end_attempt(struct ls_cluster *cluster, struct ls_peer *peer, const char *why) {
    ls_rpc_drop(peer->out);
    peer->out = NULL;
    peer->attempt_over = true;
    (void)snprintf(peer->why, sizeof(peer->why), "%s", why);
    ls_cluster_notify(cluster);
}

static bool reached_another(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    const struct ls_hello_reply *reply = &message->reply;
    const char *own = cluster->peers[cluster->rank].name;
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
    ls_hello_refuse_join(cluster, LS_INVALID_ARGUMENT, text);
    return true;
}

static void accepted(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (is_left_out(cluster, message, peer->rank)) {
        ls_hello_end_attempt(cluster, peer, "it is of a generation that is over, and will hear so when it dials");
        return;
    }
    if (peer->in && peer->incarnation != message->incarnation) { /* of a process that this one has replaced */
        ls_rpc_drop(peer->in);
        peer->in = NULL;
    }
    ls_peer_adopt(peer, message->incarnation);
    peer->generation = message->generation;
    if (!ls_prove_key(cluster, peer->out, message->reply.data_key, peer->key_out)) return;
    peer->accepted = true;
    ls_cluster_notify(cluster);
}

void ls_hello_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    if (!ls_prove_trusts(cluster, peer, message)) return;
    if (message->reply.verdict == LS_VERDICT_REFUSED) {
        peer->told = message->reply.code != LS_UNAUTHENTICATED; /* strangers are refused without being heard */
        ls_hello_refuse_join(cluster, message->reply.code, message->reply.message);
        ls_hello_end_attempt(cluster, peer, message->reply.message);
    } else if (reached_another(cluster, peer, message)) {
        ls_hello_end_attempt(cluster, peer, cluster->refusal_text);
    } else if (message->reply.verdict == LS_VERDICT_FENCED) {
        ls_hello_end_attempt(cluster, peer, message->reply.message);
        ls_convene_fence(cluster, message->reply.message);
    } else if (message->reply.verdict == LS_VERDICT_OVER) {
        peer->left = cluster->over = cluster->generation && message->generation == cluster->generation;
        ls_hello_end_attempt(cluster, peer, message->reply.message);
    } else if (message->reply.verdict == LS_VERDICT_RETRY) {
        ls_hello_end_attempt(cluster, peer, message->reply.message);
    } else {
        accepted(cluster, peer, message);
    }
}
