/* This worker's own words in a handshake: its Hello, and its answers to a Hello. With the monitor held. */
#include "cluster/hello.h"

#include "base/random.h"
#include "cluster/failure.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/rpc/rpc_stream.h"
#include "resolver/cluster_view.h"

/* A Propose carries it for each member, in place of a name. */
uint64_t ls_hello_host(const char *host) {
    uint64_t digest = ls_random_stream(host);
    return digest ? digest : 1;
}

static struct ls_hello own_hello(const struct ls_cluster *cluster) {
    const struct ls_task *task = cluster->peers[cluster->rank]->task;
    return (struct ls_hello){.protocol = LS_PROTOCOL_VERSION,
                             .version = cluster->terms.version,
                             .task_type = ls_cluster_view_type_name(task->type),
                             .task_index = task->index,
                             .rank = cluster->rank,
                             .size = cluster->size,
                             .cluster = cluster->terms.cluster,
                             .host = cluster->terms.host,
                             .transport = ls_settings_transport_name(cluster->config.settings->transport),
                             .elastic = cluster->terms.elastic,
                             .options = cluster->terms.options};
}

void ls_hello_send(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const uint8_t *proof) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_HELLO);
    message.hello = own_hello(cluster);
    message.hello.proof = proof;
    ls_outbox_send(stream, &message);
}

struct ls_message ls_hello_reply(const struct ls_cluster *cluster, enum ls_verdict verdict, const char *text) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_HELLO_REPLY);
    const struct ls_task *task = cluster->peers[cluster->rank]->task;
    message.reply = (struct ls_handshake_reply){.verdict = verdict,
                                                .message = text,
                                                .task_type = ls_cluster_view_type_name(task->type),
                                                .task_index = task->index,
                                                .rank = cluster->rank};
    return message;
}

static void answer_last(struct ls_cluster *cluster, struct ls_rpc_stream *stream, enum ls_verdict verdict,
                        ls_status code, const char *text) {
    struct ls_message message = ls_hello_reply(cluster, verdict, text);
    message.reply.code = code;
    ls_outbox_send(stream, &message);
    ls_rpc_stream_finish(stream);
}

void ls_hello_answer(struct ls_cluster *cluster, struct ls_rpc_stream *stream, enum ls_verdict verdict,
                     const char *text) {
    answer_last(cluster, stream, verdict, LS_OK, text);
}

void ls_hello_answer_over(struct ls_cluster *cluster, struct ls_rpc_stream *stream) {
    const char *stopped = cluster->end.stopped;
    answer_last(cluster, stream, LS_VERDICT_OVER, *stopped ? LS_CANCELLED : LS_OK,
                *stopped ? stopped : "all have finished, and this process leaves");
}

void ls_hello_refuse(struct ls_cluster *cluster, struct ls_rpc_stream *stream, ls_status code, const char *text) {
    answer_last(cluster, stream, LS_VERDICT_REFUSED, code, text);
}

static void set_told(struct ls_cluster *cluster, int rank) {
    if (rank < cluster->size && cluster->peers[rank]) cluster->peers[rank]->end.told = true;
}

void ls_hello_refuse_worker(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, ls_status code,
                            const char *text) {
    ls_hello_refuse(cluster, stream, code, text);
    set_told(cluster, rank);
    ls_failure_refuse_join(cluster, code, text);
}

void ls_hello_told(struct ls_cluster *cluster, int rank) {
    set_told(cluster, rank);
    ls_outbox_notify(cluster);
}

void ls_hello_refuse_stranger(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, enum ls_refusal kind,
                              const char *text) {
    ls_hello_told(cluster, rank);
    ls_refusals_note(&cluster->net.refusals, kind, ls_rpc_stream_caller(stream)->address, text);
    ls_hello_refuse(cluster, stream, LS_UNAUTHENTICATED, text);
}

void ls_hello_end_attempt(struct ls_cluster *cluster, struct ls_peer *peer, const char *why) {
    ls_rpc_stream_drop(peer->out);
    ls_peer_end_out(peer, why);
    ls_outbox_notify(cluster);
}
