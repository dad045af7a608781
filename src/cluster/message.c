/* Encoding and checked decoding of control messages; the only file that includes protobuf-c. Nothing that arrives from
 * the network is used before it has passed here: lengths, ranges, printable text, known kinds. */
#include "cluster/message.h"

#include <cluster.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

#define VERSION_MAX 64
#define NAME_MAX    255
#define CLUSTER_MAX (2U << 20)

/* A copy of text in buffer, cut to fit, with control characters as spaces. */
static char *clean(const char *text, char buffer[LS_ERROR_SIZE]) {
    (void)snprintf(buffer, LS_ERROR_SIZE, "%s", text ? text : "");
    for (char *at = buffer; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = ' ';
    return buffer;
}

/* protobuf-c's structs hold char * and uint8_t * also for what it only reads. */
static char *readable(const char *text) {
    union {
        const char *in;
        char *out;
    } cast = {text};
    return cast.out;
}

static ProtobufCBinaryData bytes_of(const void *data, size_t size) {
    union {
        const void *in;
        uint8_t *out;
    } cast = {data};
    return (ProtobufCBinaryData){size, cast.out};
}

static uint64_t *words_of(const uint64_t *words) {
    union {
        const uint64_t *in;
        uint64_t *out;
    } cast = {words};
    return cast.out;
}

static ls_status pack(const Ls__Envelope *envelope, void **data, size_t *size) {
    size_t needed = ls__envelope__get_packed_size(envelope);
    if (needed > LS_MESSAGE_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "a control message of %zu bytes is above the limit of %u", needed,
                       LS_MESSAGE_MAX);
    void *packed = ls_alloc(needed);
    if (!packed) return ls_fail_memory("a control message", needed);
    *size = ls__envelope__pack(envelope, packed);
    *data = packed;
    return LS_OK;
}

static ls_status encode_hello(Ls__Envelope *envelope, const struct ls_hello *hello, void **data, size_t *size) {
    Ls__Hello body = LS__HELLO__INIT;
    body.protocol = hello->protocol;
    body.version = readable(hello->version);
    body.task_type = readable(hello->task_type);
    body.task_index = (uint32_t)hello->task_index;
    body.rank = (uint32_t)hello->rank;
    body.size = (uint32_t)hello->size;
    body.cluster = readable(hello->cluster);
    body.host = readable(hello->host);
    body.transport = readable(hello->transport);
    body.elastic = readable(hello->elastic);
    if (hello->proof) body.proof = bytes_of(hello->proof, LS_PROOF_SIZE);
    envelope->body_case = LS__ENVELOPE__BODY_HELLO;
    envelope->hello = &body;
    return pack(envelope, data, size);
}

static ls_status encode_reply(Ls__Envelope *envelope, const struct ls_hello_reply *reply, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__HelloReply body = LS__HELLO_REPLY__INIT;
    body.verdict = (Ls__HelloReply__Verdict)reply->verdict;
    body.code = (uint32_t)reply->code;
    body.message = clean(reply->message, text);
    body.task_type = readable(reply->task_type);
    body.task_index = (uint32_t)reply->task_index;
    body.rank = (uint32_t)reply->rank;
    if (reply->data_key) body.data_key = bytes_of(reply->data_key, LS_DATA_KEY_SIZE);
    envelope->body_case = LS__ENVELOPE__BODY_HELLO_REPLY;
    envelope->hello_reply = &body;
    return pack(envelope, data, size);
}

static ls_status encode_share(Ls__Envelope *envelope, const struct ls_share *share, void **data, size_t *size) {
    Ls__Share body = LS__SHARE__INIT;
    body.sequence = share->sequence;
    body.name = readable(share->name);
    body.payload = bytes_of(share->payload, share->size);
    envelope->body_case = LS__ENVELOPE__BODY_SHARE;
    envelope->share = &body;
    return pack(envelope, data, size);
}

static ls_status encode_leave(Ls__Envelope *envelope, const struct ls_leave *leave, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__Leave body = LS__LEAVE__INIT;
    body.code = (uint32_t)leave->code;
    body.root = (uint32_t)leave->root;
    body.lost = leave->lost;
    body.message = clean(leave->message, text);
    envelope->body_case = LS__ENVELOPE__BODY_LEAVE;
    envelope->leave = &body;
    return pack(envelope, data, size);
}

static ls_status encode_beat(Ls__Envelope *envelope, void **data, size_t *size) {
    Ls__Beat body = LS__BEAT__INIT;
    envelope->body_case = LS__ENVELOPE__BODY_BEAT;
    envelope->beat = &body;
    return pack(envelope, data, size);
}

static ls_status encode_challenge(Ls__Envelope *envelope, const struct ls_challenge *challenge, void **data,
                                  size_t *size) {
    Ls__Challenge body = LS__CHALLENGE__INIT;
    body.nonce = bytes_of(challenge->nonce, LS_NONCE_SIZE);
    body.task_type = readable(challenge->task_type);
    body.task_index = (uint32_t)challenge->task_index;
    body.rank = (uint32_t)challenge->rank;
    if (challenge->proof) body.proof = bytes_of(challenge->proof, LS_PROOF_SIZE);
    envelope->body_case = LS__ENVELOPE__BODY_CHALLENGE;
    envelope->challenge = &body;
    return pack(envelope, data, size);
}

static ls_status encode_stop(Ls__Envelope *envelope, const struct ls_stop *stop, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__Stop body = LS__STOP__INIT;
    body.root = (uint32_t)stop->root;
    body.message = clean(stop->message, text);
    envelope->body_case = LS__ENVELOPE__BODY_STOP;
    envelope->stop = &body;
    return pack(envelope, data, size);
}

static ls_status encode_report(Ls__Envelope *envelope, const struct ls_report *report, void **data, size_t *size) {
    Ls__Report body = LS__REPORT__INIT;
    body.holds = report->holds;
    body.position = report->position;
    body.heard = report->heard;
    body.ledger_number = words_of(report->ledger.numbers);
    body.n_ledger_number = (size_t)report->ledger.count;
    body.ledger_incarnation = words_of(report->ledger.incarnations);
    body.n_ledger_incarnation = (size_t)report->ledger.count * (size_t)report->ledger.size;
    envelope->body_case = LS__ENVELOPE__BODY_REPORT;
    envelope->report = &body;
    return pack(envelope, data, size);
}

static ls_status encode_propose(Ls__Envelope *envelope, const struct ls_propose *propose, void **data, size_t *size) {
    Ls__Propose body = LS__PROPOSE__INIT;
    body.number = propose->number;
    body.incarnation = words_of(propose->incarnations);
    body.n_incarnation = (size_t)propose->size;
    body.position = propose->position;
    body.source = (uint32_t)propose->source;
    body.copy = propose->copy;
    body.ledger_number = words_of(propose->ledger.numbers);
    body.n_ledger_number = (size_t)propose->ledger.count;
    body.ledger_incarnation = words_of(propose->ledger.incarnations);
    body.n_ledger_incarnation = (size_t)propose->ledger.count * (size_t)propose->ledger.size;
    envelope->body_case = LS__ENVELOPE__BODY_PROPOSE;
    envelope->propose = &body;
    return pack(envelope, data, size);
}

static ls_status encode_accept(Ls__Envelope *envelope, uint64_t number, void **data, size_t *size) {
    Ls__Accept body = LS__ACCEPT__INIT;
    body.number = number;
    envelope->body_case = LS__ENVELOPE__BODY_ACCEPT;
    envelope->accept = &body;
    return pack(envelope, data, size);
}

static ls_status encode_begin(Ls__Envelope *envelope, uint64_t number, void **data, size_t *size) {
    Ls__Begin body = LS__BEGIN__INIT;
    body.number = number;
    envelope->body_case = LS__ENVELOPE__BODY_BEGIN;
    envelope->begin = &body;
    return pack(envelope, data, size);
}

ls_status ls_message_encode(const struct ls_message *message, void **data, size_t *size) {
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    envelope.incarnation = message->incarnation;
    envelope.generation = message->generation;
    switch (message->kind) {
    case LS_MESSAGE_HELLO:
        return encode_hello(&envelope, &message->hello, data, size);
    case LS_MESSAGE_HELLO_REPLY:
        return encode_reply(&envelope, &message->reply, data, size);
    case LS_MESSAGE_SHARE:
        return encode_share(&envelope, &message->share, data, size);
    case LS_MESSAGE_LEAVE:
        return encode_leave(&envelope, &message->leave, data, size);
    case LS_MESSAGE_BEAT:
        return encode_beat(&envelope, data, size);
    case LS_MESSAGE_CHALLENGE:
        return encode_challenge(&envelope, &message->challenge, data, size);
    case LS_MESSAGE_STOP:
        return encode_stop(&envelope, &message->stop, data, size);
    case LS_MESSAGE_REPORT:
        return encode_report(&envelope, &message->report, data, size);
    case LS_MESSAGE_PROPOSE:
        return encode_propose(&envelope, &message->propose, data, size);
    case LS_MESSAGE_ACCEPT:
        return encode_accept(&envelope, message->number, data, size);
    case LS_MESSAGE_BEGIN:
        return encode_begin(&envelope, message->number, data, size);
    }
    return ls_fail(LS_INTERNAL, "message kind %d does not exist", (int)message->kind);
}

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
                               .proof = proof_of(&body->proof)};
    return LS_OK;
}

static ls_status check_reply(const Ls__HelloReply *body, struct ls_hello_reply *reply) {
    bool accepted = body->verdict == LS__HELLO_REPLY__VERDICT__ACCEPTED;
    if (body->verdict < LS__HELLO_REPLY__VERDICT__ACCEPTED || body->verdict > LS__HELLO_REPLY__VERDICT__OVER)
        return bad("HelloReply.verdict");
    if (body->code > LS_UNAUTHENTICATED) return bad("HelloReply.code");
    if ((body->verdict == LS__HELLO_REPLY__VERDICT__REFUSED) != (body->code != 0)) return bad("HelloReply.code");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("HelloReply.message");
    if (!printable(body->task_type, VERSION_MAX)) return bad("HelloReply.task_type");
    if (body->task_index > INT32_MAX) return bad("HelloReply.task_index");
    if (!is_rank(body->rank)) return bad("HelloReply.rank");
    if (accepted ? body->data_key.len != LS_DATA_KEY_SIZE : body->data_key.len != 0) return bad("HelloReply.data_key");
    *reply = (struct ls_hello_reply){.verdict = (enum ls_verdict)body->verdict,
                                     .code = (ls_status)body->code,
                                     .message = body->message,
                                     .task_type = body->task_type,
                                     .task_index = (int)body->task_index,
                                     .rank = (int)body->rank,
                                     .data_key = accepted ? body->data_key.data : NULL};
    return LS_OK;
}

static ls_status check_share(const Ls__Share *body, struct ls_share *share) {
    if (!body->sequence) return bad("Share.sequence");
    if (!printable(body->name, NAME_MAX) || !*body->name) return bad("Share.name");
    if (body->payload.len > LS_PAYLOAD_MAX) return bad("Share.payload");
    *share = (struct ls_share){body->sequence, body->name, body->payload.data, body->payload.len};
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

static ls_status check_stop(const Ls__Stop *body, struct ls_stop *stop) {
    if (!is_rank(body->root)) return bad("Stop.root");
    if (!printable(body->message, LS_ERROR_SIZE)) return bad("Stop.message");
    *stop = (struct ls_stop){(int)body->root, body->message};
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
    *report = (struct ls_report){.holds = body->holds != 0, .position = body->position, .heard = body->heard};
    if (!read_ledger(body->ledger_number, body->n_ledger_number, body->ledger_incarnation, body->n_ledger_incarnation,
                     &report->ledger))
        return bad("Report.ledger");
    return LS_OK;
}

static ls_status check_propose(const Ls__Propose *body, struct ls_propose *propose) {
    if (!body->number || body->number > LS_NUMBER_MAX) return bad("Propose.number");
    if (!body->n_incarnation || body->n_incarnation > LS_MAX_WORKERS) return bad("Propose.incarnation");
    if (body->position < 0) return bad("Propose.position");
    if (body->source >= body->n_incarnation || !body->incarnation[body->source]) return bad("Propose.source");
    *propose = (struct ls_propose){.number = body->number,
                                   .incarnations = body->incarnation,
                                   .size = (int)body->n_incarnation,
                                   .position = body->position,
                                   .source = (int)body->source,
                                   .copy = body->copy != 0};
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
        return LS_OK;
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
    if (status)
        ls_message_release(&decoded);
    else
        *message = decoded;
    return status;
}

void ls_message_release(struct ls_message *message) {
    if (message->storage) ls__envelope__free_unpacked(message->storage, NULL);
    message->storage = NULL;
}
