/* The encoding of control messages with protobuf-c, for the wire. */
#include "cluster/message.h"

#include <cluster.pb-c.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"

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

static ProtobufCBinaryData bytes_of_message(const void *data, size_t size) {
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

/* Puts body into envelope as the member of its kind. */
#define PACK(kind, member)                                                                                             \
    (envelope->body_case = LS__ENVELOPE__BODY_##kind, envelope->member = &body, pack(envelope, data, size))

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
    body.options = readable(hello->options);
    if (hello->proof) body.proof = bytes_of_message(hello->proof, LS_PROOF_SIZE);
    return PACK(HELLO, hello);
}

static ls_status encode_reply(Ls__Envelope *envelope, const struct ls_handshake_reply *reply, void **data,
                              size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__HelloReply body = LS__HELLO_REPLY__INIT;
    body.verdict = (Ls__HelloReply__Verdict)reply->verdict;
    body.code = (uint32_t)reply->code;
    body.message = clean(reply->message, text);
    body.task_type = readable(reply->task_type);
    body.task_index = (uint32_t)reply->task_index;
    body.rank = (uint32_t)reply->rank;
    return PACK(HELLO_REPLY, hello_reply);
}

static ls_status encode_share(Ls__Envelope *envelope, const struct ls_share *share, void **data, size_t *size) {
    Ls__Share body = LS__SHARE__INIT;
    body.sequence = share->sequence;
    body.name = readable(share->name);
    body.payload = bytes_of_message(share->payload, share->size);
    return PACK(SHARE, share);
}

static ls_status encode_leave(Ls__Envelope *envelope, const struct ls_leave *leave, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__Leave body = LS__LEAVE__INIT;
    body.code = (uint32_t)leave->code;
    body.root = (uint32_t)leave->root;
    body.lost = leave->lost;
    body.message = clean(leave->message, text);
    return PACK(LEAVE, leave);
}

static ls_status encode_shares(Ls__Envelope *envelope, const struct ls_shares *shares, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__Shares body = LS__SHARES__INIT;
    union {
        const uint32_t *in;
        uint32_t *out;
    } sizes = {shares->sizes};
    body.sequence = shares->sequence;
    body.name = readable(shares->name);
    body.first = (uint32_t)shares->first;
    body.n_size = (size_t)shares->count;
    body.size = sizes.out;
    body.payload = bytes_of_message(shares->payload, shares->size);
    body.code = (uint32_t)shares->code;
    body.message = clean(shares->message, text);
    return PACK(SHARES, shares);
}

static ls_status encode_finished(Ls__Envelope *envelope, const struct ls_finished *finished, void **data,
                                 size_t *size) {
    Ls__Finished body = LS__FINISHED__INIT;
    body.rank = (uint32_t)finished->rank;
    body.calls = finished->calls;
    return PACK(FINISHED, finished);
}

static ls_status encode_waiting(Ls__Envelope *envelope, const struct ls_waiting *waiting, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__Waiting body = LS__WAITING__INIT;
    body.sequence = waiting->sequence;
    body.missing = (uint32_t)waiting->missing;
    body.message = clean(waiting->message, text);
    return PACK(WAITING, waiting);
}

static ls_status encode_stall(Ls__Envelope *envelope, const struct ls_stall *stall, void **data, size_t *size) {
    Ls__Stall body = LS__STALL__INIT;
    body.sequence = stall->sequence;
    body.call = bytes_of_message(stall->call, stall->size);
    return PACK(STALL, stall);
}

static ls_status encode_beat(Ls__Envelope *envelope, int leader, void **data, size_t *size) {
    Ls__Beat body = LS__BEAT__INIT;
    body.leader = (uint32_t)(leader + 1);
    return PACK(BEAT, beat);
}

static ls_status encode_challenge(Ls__Envelope *envelope, const struct ls_challenge *challenge, void **data,
                                  size_t *size) {
    Ls__Challenge body = LS__CHALLENGE__INIT;
    body.nonce = bytes_of_message(challenge->nonce, LS_NONCE_SIZE);
    body.task_type = readable(challenge->task_type);
    body.task_index = (uint32_t)challenge->task_index;
    body.rank = (uint32_t)challenge->rank;
    if (challenge->proof) body.proof = bytes_of_message(challenge->proof, LS_PROOF_SIZE);
    return PACK(CHALLENGE, challenge);
}

static ls_status encode_stop(Ls__Envelope *envelope, const struct ls_stop *stop, void **data, size_t *size) {
    char text[LS_ERROR_SIZE];
    Ls__Stop body = LS__STOP__INIT;
    body.root = (uint32_t)stop->root;
    body.message = clean(stop->message, text);
    body.code = (uint32_t)stop->code;
    return PACK(STOP, stop);
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
    body.closed = words_of(report->closed);
    body.n_closed = (size_t)report->closed_count;
    return PACK(REPORT, report);
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
    if (propose->key) body.key = bytes_of_message(propose->key, LS_PROOF_SIZE);
    body.host = words_of(propose->hosts);
    body.n_host = (size_t)propose->size;
    return PACK(PROPOSE, propose);
}

static ls_status encode_accept(Ls__Envelope *envelope, uint64_t number, void **data, size_t *size) {
    Ls__Accept body = LS__ACCEPT__INIT;
    body.number = number;
    return PACK(ACCEPT, accept);
}

static ls_status encode_begin(Ls__Envelope *envelope, uint64_t number, void **data, size_t *size) {
    Ls__Begin body = LS__BEGIN__INIT;
    body.number = number;
    return PACK(BEGIN, begin);
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
        return encode_beat(&envelope, message->leader, data, size);
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
    case LS_MESSAGE_SHARES:
        return encode_shares(&envelope, &message->shares, data, size);
    case LS_MESSAGE_FINISHED:
        return encode_finished(&envelope, &message->finished, data, size);
    case LS_MESSAGE_WAITING:
        return encode_waiting(&envelope, &message->waiting, data, size);
    case LS_MESSAGE_STALL:
        return encode_stall(&envelope, &message->stall, data, size);
    }
    return ls_fail(LS_INTERNAL, "message kind %d does not exist", (int)message->kind);
}
