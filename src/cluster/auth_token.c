/* Proving the token, before a Hello counts. The dialling side sends a nonce; the answering side sends one too, with a
 * proof over both nonces, both tasks and both incarnations; the Hello that follows carries the dialling side's proof.
 * The token itself is never sent, no proof fits another pair, direction or process, and the key of a generation's
 * data connections is made out of the token as well. With the monitor held. */
#include "cluster/auth_token.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/auth_tls.h"
#include "cluster/cluster_private.h"
#include "cluster/failure.h"
#include "cluster/hello.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/rpc/rpc_stream.h"
#include "resolver/cluster_view.h"

#define ADVICE "give all workers the same token (LOCKSTEP_TOKEN_FILE or LOCKSTEP_TOKEN)"

struct task {
    char type[65];
    int index, rank;
    uint64_t incarnation;
};

/* The state of a control stream's handshake; hangs from the stream. */
struct proving {
    uint8_t asking[LS_NONCE_SIZE], answering[LS_NONCE_SIZE]; /* nonces */
    struct task asks, answers;
    bool answered; /* the answering side has proved itself, to the dialling one */
    bool admitted; /* the other way round */
};

static bool has_token(const struct ls_cluster *cluster) {
    return cluster->net.credentials.token_size != 0;
}

static void set_task(struct task *task, const char *type, int index, int rank, uint64_t incarnation) {
    *task = (struct task){.index = index, .rank = rank, .incarnation = incarnation};
    (void)snprintf(task->type, sizeof(task->type), "%s", type);
}

static void set_own_task(const struct ls_cluster *cluster, struct task *task) {
    const struct ls_task *own = cluster->peers[cluster->rank]->task;
    set_task(task, ls_cluster_view_type_name(own->type), own->index, cluster->rank, cluster->incarnation);
}

static void put_hex(FILE *to, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) (void)fprintf(to, "%02x", bytes[i]);
    (void)fputc('\n', to);
}

static void put_task(FILE *to, const struct task *task) {
    (void)fprintf(to, "%s:%d rank %d incarnation %016" PRIx64 "\n", task->type, task->index, task->rank,
                  task->incarnation);
}

/* The proof of purpose: a text of lines, of which none can hold a line's end. */
static bool make_proof(const struct ls_cluster *cluster, const struct proving *proving, const char *purpose,
                       uint8_t proof[LS_PROOF_SIZE]) {
    char text[1024] = "";
    FILE *to = fmemopen(text, sizeof(text), "w");
    if (!to) return false;
    (void)fprintf(to, "lockstep %u %s\n", LS_PROTOCOL_VERSION, purpose);
    put_hex(to, proving->asking, LS_NONCE_SIZE);
    put_hex(to, proving->answering, LS_NONCE_SIZE);
    put_task(to, &proving->asks);
    put_task(to, &proving->answers);
    if (fclose(to)) return false;
    return ls_proof_make(ls_credentials_token(&cluster->net.credentials), text, strlen(text), proof) == LS_OK;
}

static bool is_proved(const struct ls_cluster *cluster, const struct proving *proving, const char *purpose,
                      const uint8_t *shown) {
    uint8_t proof[LS_PROOF_SIZE];
    return shown && make_proof(cluster, proving, purpose, proof) && ls_proof_equal(shown, proof, sizeof(proof));
}

/* NULL: there is no memory. */
static struct proving *begin_proving(struct ls_rpc_stream *stream) {
    struct proving *proving = ls_alloc(sizeof(*proving));
    if (proving) ls_rpc_stream_attach(stream, proving);
    return proving;
}

static void send_challenge(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const uint8_t *nonce,
                           const uint8_t *proof) {
    const struct ls_task *own = cluster->peers[cluster->rank]->task;
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_CHALLENGE);
    message.challenge =
        (struct ls_challenge){nonce, ls_cluster_view_type_name(own->type), own->index, cluster->rank, proof};
    ls_outbox_send(stream, &message);
}

/* ---- the dialling side ---- */

void ls_auth_token_open(struct ls_cluster *cluster, struct ls_rpc_stream *stream) {
    if (!has_token(cluster)) {
        ls_hello_send(cluster, stream, NULL);
        return;
    }
    struct proving *proving = begin_proving(stream);
    if (!proving || ls_entropy_fill(proving->asking, LS_NONCE_SIZE)) return; /* no answer will come */
    set_own_task(cluster, &proving->asks);
    send_challenge(cluster, stream, proving->asking, NULL);
}

/* The two of a pair in the order of their ranks, so that both find the same words. */
static void refuse_pair(struct ls_cluster *cluster, struct ls_peer *peer, const char *format) {
    char text[LS_ERROR_SIZE];
    const struct ls_peer *own = cluster->peers[cluster->rank];
    const struct ls_peer *low = peer->rank < own->rank ? peer : own, *high = low == own ? peer : own;
    (void)snprintf(text, sizeof(text), "%s (rank %d) and %s (rank %d) %s", low->name, low->rank, high->name, high->rank,
                   format);
    ls_failure_refuse_join(cluster, LS_UNAUTHENTICATED, text);
}

void ls_auth_token_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    struct proving *proving = ls_rpc_stream_attachment(peer->out);
    const struct ls_challenge *answer = &message->challenge;
    uint8_t proof[LS_PROOF_SIZE];
    memcpy(proving->answering, answer->nonce, LS_NONCE_SIZE);
    set_task(&proving->answers, answer->task_type, answer->task_index, answer->rank, message->incarnation);
    if (!is_proved(cluster, proving, "answer", answer->proof)) {
        refuse_pair(cluster, peer, "have different tokens: " ADVICE);
        ls_hello_end_attempt(cluster, peer, "it has another token: " ADVICE);
    } else if (make_proof(cluster, proving, "hello", proof)) {
        proving->answered = true;
        ls_hello_send(cluster, peer->out, proof);
    }
}

bool ls_auth_token_is_open(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    const struct proving *proving = ls_rpc_stream_attachment(peer->out);
    return has_token(cluster) && proving && !proving->answered;
}

bool ls_auth_token_trusts(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    const struct proving *proving = ls_rpc_stream_attachment(peer->out);
    if (!has_token(cluster)) return true;
    if (ls_credentials_has_tls(&cluster->net.credentials) && message->reply.verdict == LS_VERDICT_REFUSED) return true;
    if (proving && proving->answered) return message->incarnation == proving->answers.incarnation;
    if (message->reply.verdict == LS_VERDICT_REFUSED && message->reply.code == LS_UNAUTHENTICATED)
        refuse_pair(cluster, peer, "differ: one has a token and the other has none; " ADVICE ", or none");
    ls_hello_end_attempt(cluster, peer, "it has no token, or ends just now");
    return false;
}

/* ---- the answering side ---- */

bool ls_auth_token_asked(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message) {
    const struct ls_challenge *challenge = &message->challenge;
    uint8_t proof[LS_PROOF_SIZE];
    char text[LS_ERROR_SIZE];
    if (ls_rpc_stream_attachment(stream)) return false;
    if (!ls_auth_tls_caller(cluster, ls_rpc_stream_caller(stream), challenge->task_type, challenge->task_index, text)) {
        ls_hello_refuse_stranger(cluster, stream, challenge->rank, LS_REFUSED_CERTIFICATE, text);
        return true;
    }
    if (!has_token(cluster)) {
        (void)snprintf(text, sizeof(text), "%s (rank %d) has no token: " ADVICE ", or none",
                       cluster->peers[cluster->rank]->name, cluster->rank);
        ls_hello_refuse_stranger(cluster, stream, challenge->rank, LS_REFUSED_TOKEN, text);
        return true;
    }
    struct proving *proving = begin_proving(stream);
    if (!proving || ls_entropy_fill(proving->answering, LS_NONCE_SIZE)) return false;
    memcpy(proving->asking, challenge->nonce, LS_NONCE_SIZE);
    set_task(&proving->asks, challenge->task_type, challenge->task_index, challenge->rank, message->incarnation);
    set_own_task(cluster, &proving->answers);
    if (!make_proof(cluster, proving, "answer", proof)) return false;
    send_challenge(cluster, stream, proving->answering, proof);
    return true;
}

static bool is_task(const struct task *task, const struct ls_message *message) {
    const struct ls_hello *hello = &message->hello;
    return task->rank == hello->rank && task->index == hello->task_index && strcmp(task->type, hello->task_type) == 0 &&
           task->incarnation == message->incarnation;
}

bool ls_auth_token_admits(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message) {
    struct proving *proving = ls_rpc_stream_attachment(stream);
    if (!has_token(cluster)) return true;
    if (proving && is_task(&proving->asks, message) && is_proved(cluster, proving, "hello", message->hello.proof)) {
        proving->admitted = true;
        return true;
    }
    char text[LS_ERROR_SIZE];
    (void)snprintf(text, sizeof(text), "%s (rank %d) has a token, and who connected %s: " ADVICE,
                   cluster->peers[cluster->rank]->name, cluster->rank, proving ? "has another one" : "showed none");
    ls_hello_refuse_stranger(cluster, stream, message->hello.rank, LS_REFUSED_TOKEN, text);
    return false;
}

void ls_auth_token_ended(struct ls_cluster *cluster, struct ls_rpc_stream *stream) {
    const struct proving *proving = ls_rpc_stream_attachment(stream);
    if (!proving || proving->admitted) return;
    ls_hello_told(cluster, proving->asks.rank);
    ls_refusals_note(&cluster->net.refusals, LS_REFUSED_TOKEN, ls_rpc_stream_caller(stream)->address,
                     "it asked to be let in and did not prove the token");
}

bool ls_auth_token_key(const struct ls_cluster *cluster, const uint8_t drawn[LS_PROOF_SIZE],
                       uint8_t key[LS_PROOF_SIZE]) {
    char text[256] = "";
    if (!has_token(cluster)) {
        memcpy(key, drawn, LS_PROOF_SIZE);
        return true;
    }
    FILE *to = fmemopen(text, sizeof(text), "w");
    if (!to) return false;
    (void)fprintf(to, "lockstep %u data\n", LS_PROTOCOL_VERSION);
    put_hex(to, drawn, LS_PROOF_SIZE);
    if (fclose(to)) return false;
    return ls_proof_make(ls_credentials_token(&cluster->net.credentials), text, strlen(text), key) == LS_OK;
}
