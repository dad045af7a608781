/* The checked decoding of control messages. Nothing that arrives from the network is used before it has passed here:
 * lengths, ranges, printable text, known kinds. */
#include "cluster/message.h"

#include <cluster.pb-c.h>
#include <string.h>

#include "base/new.h"

#define VERSION_MAX 64
#define NAME_MAX    255
#define CLUSTER_MAX (2U << 20)
#define OPTIONS_MAX 4096

static ls_status bad(const char *field) {
    return ls_fail(LS_INVALID_ARGUMENT, "a control message has a bad %s", field);
}

static bool printable(const char *text, size_t limit) {
    if (!text || strlen(text) > limit) return false;
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) return false;
    return true;
}

static bool is_rank(uint32_t value) {
    return value < LS_MAX_WORKERS;
}

/* Absent, or of the one size. */
static bool is_proof(const ProtobufCBinaryData *proof) {
    return proof->len == 0 || proof->len == LS_PROOF_SIZE;
}

static const uint8_t *proof_of(const ProtobufCBinaryData *proof) {
    return proof->len ? proof->data : NULL;
}

static ls_status check_hello(const Ls__Hello *body, struct ls_hello *hello) {
    if (!printable(body->version, VERSION_MAX)) return bad("Hello.version");
    if (!printable(body->task_type, VERSION_MAX)) return bad("Hello.task_type");
    if (body->task_index > INT32_MAX) return bad("Hello.task_index");
    if (!is_rank(body->rank)) return bad("Hello.rank");
    if (body->size > LS_MAX_WORKERS) return bad("Hello.size");
    if (!body->cluster || strlen(body->cluster) > CLUSTER_MAX) return bad("Hello.cluster");
    if (!printable(body->host, NAME_MAX)) return bad("Hello.host");
    if (!printable(body->transport, VERSION_MAX)) return bad("Hello.transport");
    if (!printable(body->elastic, VERSION_MAX)) return bad("Hello.elastic");
    if (!body->options || strlen(body->options) > OPTIONS_MAX) return bad("Hello.options");
    if (!is_proof(&body->proof)) return bad("Hello.proof");
    *hello = (struct ls_hello){.protocol = body->protocol,
                               .version = body->version,
                               .task_type = body->task_type,
                               .task_index = (int)body->task_index,
                               .rank = (int)body->rank,
                               .size = (int)body->size,
                               .cluster = body->cluster,
                               .host = body->host,
                               .transport = body->transport,
                               .elastic = body->elastic,
                               .options = body->options,
                               .proof = proof_of(&body->proof)};
    return LS_OK;
}

static ls_status check_reply(const Ls__HelloReply *body, struct ls_handshake_reply *reply) {
    if (body->verdict < LS__HELLO_REPLY__VERDICT__ACCEPTED || body->verdict > LS__HELLO_REPLY__VERDICT__OVER)
        return bad("HelloReply.verdict");
    if (body->code > LS_UNAUTHENTICATED) return bad("HelloReply.code");
    bool stopped = body->verdict == LS__HELLO_REPLY__VERDICT__OVER && body->code == LS_CANCELLED;
    if ((body->verdict == LS__HELLO_REPLY__VERDICT__REFUSED) != (body->code != 0) && !stopped)
        return bad("HelloReply.code");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("HelloReply.message");
    if (!printable(body->task_type, VERSION_MAX)) return bad("HelloReply.task_type");
    if (body->task_index > INT32_MAX) return bad("HelloReply.task_index");
    if (!is_rank(body->rank)) return bad("HelloReply.rank");
    *reply = (struct ls_handshake_reply){.verdict = (enum ls_verdict)body->verdict,
                                         .code = (ls_status)body->code,
                                         .message = body->message,
                                         .task_type = body->task_type,
                                         .task_index = (int)body->task_index,
                                         .rank = (int)body->rank};
    return LS_OK;
}

static ls_status check_share(const Ls__Share *body, struct ls_share *share) {
    if (!body->sequence) return bad("Share.sequence");
    if (!printable(body->name, NAME_MAX) || !*body->name) return bad("Share.name");
    if (body->payload.len > LS_PAYLOAD_MAX) return bad("Share.payload");
    *share = (struct ls_share){body->sequence, body->name, body->payload.data, body->payload.len};
    return LS_OK;
}

/* The parts make up the payload, or there are none and a code. */
static bool are_parts(const Ls__Shares *body) {
    uint64_t sum = 0;
    for (size_t i = 0; i < body->n_size; i++) sum += body->size[i];
    return sum == body->payload.len && (body->n_size > 0) == !body->code;
}

static ls_status check_shares(const Ls__Shares *body, struct ls_shares *shares) {
    if (!body->sequence) return bad("Shares.sequence");
    if (!printable(body->name, NAME_MAX) || !*body->name) return bad("Shares.name");
    if (!is_rank(body->first) || body->n_size > LS_MAX_WORKERS - body->first) return bad("Shares.first");
    if (body->code > LS_UNAUTHENTICATED) return bad("Shares.code");
    if (!are_parts(body)) return bad("Shares.size");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("Shares.message");
    *shares = (struct ls_shares){.sequence = body->sequence,
                                 .name = body->name,
                                 .first = (int)body->first,
                                 .count = (int)body->n_size,
                                 .sizes = body->size,
                                 .payload = body->payload.data,
                                 .size = body->payload.len,
                                 .code = (ls_status)body->code,
                                 .message = body->message};
    return LS_OK;
}

static ls_status check_finished(const Ls__Finished *body, struct ls_finished *finished) {
    if (!is_rank(body->rank)) return bad("Finished.rank");
    *finished = (struct ls_finished){(int)body->rank, body->calls};
    return LS_OK;
}

static ls_status check_waiting(const Ls__Waiting *body, struct ls_waiting *waiting) {
    if (body->missing > LS_MAX_WORKERS) return bad("Waiting.missing");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("Waiting.message");
    *waiting = (struct ls_waiting){body->sequence, (int)body->missing, body->message};
    return LS_OK;
}

static ls_status check_beat(const Ls__Beat *body, int *leader) {
    if (body->leader > LS_MAX_WORKERS) return bad("Beat.leader");
    *leader = (int)body->leader - 1;
    return LS_OK;
}

static ls_status check_leave(const Ls__Leave *body, struct ls_leave *leave) {
    if (body->code > LS_UNAUTHENTICATED) return bad("Leave.code");
    if (!is_rank(body->root)) return bad("Leave.root");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("Leave.message");
    *leave = (struct ls_leave){(ls_status)body->code, (int)body->root, body->lost != 0, body->message};
    return LS_OK;
}

static ls_status check_challenge(const Ls__Challenge *body, struct ls_challenge *challenge) {
    if (body->nonce.len != LS_NONCE_SIZE) return bad("Challenge.nonce");
    if (!printable(body->task_type, VERSION_MAX)) return bad("Challenge.task_type");
    if (body->task_index > INT32_MAX) return bad("Challenge.task_index");
    if (!is_rank(body->rank)) return bad("Challenge.rank");
    if (!is_proof(&body->proof)) return bad("Challenge.proof");
    *challenge = (struct ls_challenge){body->nonce.data, body->task_type, (int)body->task_index, (int)body->rank,
                                       proof_of(&body->proof)};
    return LS_OK;
}

static ls_status check_stall(const Ls__Stall *body, struct ls_stall *stall) {
    if (body->call.len > LS_STALL_MAX) return bad("Stall.call");
    *stall = (struct ls_stall){body->sequence, body->call.data, body->call.len};
    return LS_OK;
}

static ls_status check_stop(const Ls__Stop *body, struct ls_stop *stop) {
    if (!is_rank(body->root)) return bad("Stop.root");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("Stop.message");
    if (body->code > LS_UNAUTHENTICATED) return bad("Stop.code");
    *stop = (struct ls_stop){(int)body->root, body->message, (ls_status)body->code};
    return LS_OK;
}

/* Rosters of equal size, each with a number and somebody on it. */
static bool read_ledger(const uint64_t *numbers, size_t count, const uint64_t *incarnations, size_t words,
                        struct ls_rosters *rosters) {
    size_t size = count ? words / count : 0;
    *rosters = (struct ls_rosters){numbers, incarnations, (int)count, (int)size};
    if (count > LS_LEDGER_MOST || words != count * size || size > LS_MAX_WORKERS || (count && !size)) return false;
    for (size_t i = 0; i < count; i++)
        if (!numbers[i] || numbers[i] > LS_NUMBER_MAX) return false;
    return count || !words;
}

static ls_status check_report(const Ls__Report *body, struct ls_report *report) {
    if (body->position < 0 || (body->position && !body->holds)) return bad("Report.position");
    if (body->heard > LS_NUMBER_MAX) return bad("Report.heard");
    if (body->n_closed > LS_CLOSED_MOST) return bad("Report.closed");
    *report = (struct ls_report){.holds = body->holds != 0,
                                 .position = body->position,
                                 .heard = body->heard,
                                 .closed = body->closed,
                                 .closed_count = (int)body->n_closed};
    if (!read_ledger(body->ledger_number, body->n_ledger_number, body->ledger_incarnation, body->n_ledger_incarnation,
                     &report->ledger))
        return bad("Report.ledger");
    return LS_OK;
}

static ls_status check_propose(const Ls__Propose *body, struct ls_propose *propose) {
    if (!body->number || body->number > LS_NUMBER_MAX) return bad("Propose.number");
    if (!body->n_incarnation || body->n_incarnation > LS_MAX_WORKERS) return bad("Propose.incarnation");
    if (body->position < 0) return bad("Propose.position");
    if (body->n_host != body->n_incarnation) return bad("Propose.host");
    if (body->source >= body->n_incarnation || !body->incarnation[body->source]) return bad("Propose.source");
    if (body->key.len != LS_PROOF_SIZE) return bad("Propose.key");
    *propose = (struct ls_propose){.number = body->number,
                                   .incarnations = body->incarnation,
                                   .size = (int)body->n_incarnation,
                                   .position = body->position,
                                   .source = (int)body->source,
                                   .copy = body->copy != 0,
                                   .key = body->key.data,
                                   .hosts = body->host};
    if (!read_ledger(body->ledger_number, body->n_ledger_number, body->ledger_incarnation, body->n_ledger_incarnation,
                     &propose->ledger))
        return bad("Propose.ledger");
    return LS_OK;
}

static ls_status check_number(uint64_t number, const char *field, uint64_t *checked) {
    *checked = number;
    return number ? LS_OK : bad(field);
}

static ls_status check_envelope(const Ls__Envelope *envelope, struct ls_message *message) {
    if (!envelope->incarnation) return bad("incarnation");
    message->incarnation = envelope->incarnation;
    message->generation = envelope->generation;
    switch (envelope->body_case) {
    case LS__ENVELOPE__BODY_HELLO:
        message->kind = LS_MESSAGE_HELLO;
        return check_hello(envelope->hello, &message->hello);
    case LS__ENVELOPE__BODY_HELLO_REPLY:
        message->kind = LS_MESSAGE_HELLO_REPLY;
        return check_reply(envelope->hello_reply, &message->reply);
    case LS__ENVELOPE__BODY_SHARE:
        message->kind = LS_MESSAGE_SHARE;
        return check_share(envelope->share, &message->share);
    case LS__ENVELOPE__BODY_LEAVE:
        message->kind = LS_MESSAGE_LEAVE;
        return check_leave(envelope->leave, &message->leave);
    case LS__ENVELOPE__BODY_BEAT:
        message->kind = LS_MESSAGE_BEAT;
        return check_beat(envelope->beat, &message->leader);
    case LS__ENVELOPE__BODY_CHALLENGE:
        message->kind = LS_MESSAGE_CHALLENGE;
        return check_challenge(envelope->challenge, &message->challenge);
    case LS__ENVELOPE__BODY_STOP:
        message->kind = LS_MESSAGE_STOP;
        return check_stop(envelope->stop, &message->stop);
    case LS__ENVELOPE__BODY_REPORT:
        message->kind = LS_MESSAGE_REPORT;
        return check_report(envelope->report, &message->report);
    case LS__ENVELOPE__BODY_PROPOSE:
        message->kind = LS_MESSAGE_PROPOSE;
        return check_propose(envelope->propose, &message->propose);
    case LS__ENVELOPE__BODY_ACCEPT:
        message->kind = LS_MESSAGE_ACCEPT;
        return check_number(envelope->accept->number, "Accept.number", &message->number);
    case LS__ENVELOPE__BODY_BEGIN:
        message->kind = LS_MESSAGE_BEGIN;
        return check_number(envelope->begin->number, "Begin.number", &message->number);
    case LS__ENVELOPE__BODY_SHARES:
        message->kind = LS_MESSAGE_SHARES;
        return check_shares(envelope->shares, &message->shares);
    case LS__ENVELOPE__BODY_FINISHED:
        message->kind = LS_MESSAGE_FINISHED;
        return check_finished(envelope->finished, &message->finished);
    case LS__ENVELOPE__BODY_WAITING:
        message->kind = LS_MESSAGE_WAITING;
        return check_waiting(envelope->waiting, &message->waiting);
    case LS__ENVELOPE__BODY_STALL:
        message->kind = LS_MESSAGE_STALL;
        return check_stall(envelope->stall, &message->stall);
    default:
        return bad("body");
    }
}

ls_status ls_message_decode(const void *data, size_t size, struct ls_message *message) {
    if (size > LS_MESSAGE_MAX) return bad("length");
    Ls__Envelope *envelope = ls__envelope__unpack(NULL, size, data);
    if (!envelope) return ls_fail(LS_INVALID_ARGUMENT, "a control message of %zu bytes is no Envelope", size);
    struct ls_message decoded = {.storage = envelope};
    ls_status status = check_envelope(envelope, &decoded);
    return LS_HAND_OVER(status, message, decoded, ls_message_decode_release(&decoded));
}

void ls_message_decode_release(struct ls_message *message) {
    if (message->storage) ls__envelope__free_unpacked(message->storage, NULL);
    message->storage = NULL;
}
