/* Control messages with protobuf-c. One list has the fields of all messages, for the encoding and for the check of what
 * arrives. Nothing from the network is used before it has passed here: lengths, ranges, printable text, known kinds. */
#include "cluster/message.h"

#include <cluster.pb-c.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/new.h"

#define WORD_MAX    64
#define NAME_MAX    255
#define CLUSTER_MAX (2U << 20)
#define OPTIONS_MAX 4096
#define RANK_MAX    (LS_MAX_WORKERS - 1)
#define LEDGER_MAX  (LS_LEDGER_MOST * LS_MAX_WORKERS)

enum type {
    WORD_32, /* and what has its size: an int, a status, a verdict */
    WORD_64,
    FLAG,
    LEADER, /* a rank or -1; the wire has one more */
    TEXT,   /* printable */
    SPEECH, /* a text whose control characters become spaces when it is encoded */
    LINES,
    BYTES,
    PROOF, /* `most` bytes; with least 0 they may be absent */
    LIST   /* of numbers */
};

/* Offsets are those in protobuf's body and in struct ls_message. */
struct field {
    enum ls_message_kind kind;
    const char *name;
    enum type type;
    uint64_t least, most;    /* value, length or count */
    size_t wire, own, count; /* count: the length of BYTES, a size_t, or of a LIST, an int */
};

#define OWN(member)           offsetof(struct ls_message, member)
#define SIZE(type, member)    sizeof(((type *)0)->member)
#define SAME(body, wire, own) sizeof(char[SIZE(Ls__##body, wire) == SIZE(struct ls_message, own) ? 1 : -1])
#define ROW(kind, body, wire, type, own, count, least, most)                                                           \
    { LS_MESSAGE_##kind, #body "." #wire, type, least, most, offsetof(Ls__##body, wire), OWN(own), count }
#define FIELD(kind, body, wire, type, own, least, most) ROW(kind, body, wire, type, own, 0, least, most)
#define WORD(kind, body, wire, own, least, most)                                                                       \
    ROW(kind, body, wire, SIZE(Ls__##body, wire) == 8 ? WORD_64 : WORD_32, own, 0 * SAME(body, wire, own), least, most)
#define MANY(kind, body, wire, type, own, count, least, most) ROW(kind, body, wire, type, own, OWN(count), least, most)

static const struct field fields[] = {
    WORD(HELLO, Hello, protocol, hello.protocol, 0, UINT32_MAX),
    FIELD(HELLO, Hello, version, TEXT, hello.version, 0, WORD_MAX),
    FIELD(HELLO, Hello, task_type, TEXT, hello.task_type, 0, WORD_MAX),
    WORD(HELLO, Hello, task_index, hello.task_index, 0, INT32_MAX),
    WORD(HELLO, Hello, rank, hello.rank, 0, RANK_MAX),
    WORD(HELLO, Hello, size, hello.size, 0, LS_MAX_WORKERS),
    FIELD(HELLO, Hello, cluster, LINES, hello.cluster, 0, CLUSTER_MAX),
    FIELD(HELLO, Hello, host, TEXT, hello.host, 0, NAME_MAX),
    FIELD(HELLO, Hello, transport, TEXT, hello.transport, 0, WORD_MAX),
    FIELD(HELLO, Hello, elastic, TEXT, hello.elastic, 0, WORD_MAX),
    FIELD(HELLO, Hello, options, LINES, hello.options, 0, OPTIONS_MAX),
    FIELD(HELLO, Hello, proof, PROOF, hello.proof, 0, LS_PROOF_SIZE),
    WORD(HELLO_REPLY, HelloReply, verdict, reply.verdict, LS_VERDICT_ACCEPTED, LS_VERDICT_OVER),
    WORD(HELLO_REPLY, HelloReply, code, reply.code, 0, LS_UNAUTHENTICATED),
    FIELD(HELLO_REPLY, HelloReply, message, SPEECH, reply.message, 0, LS_ERROR_SIZE),
    FIELD(HELLO_REPLY, HelloReply, task_type, TEXT, reply.task_type, 0, WORD_MAX),
    WORD(HELLO_REPLY, HelloReply, task_index, reply.task_index, 0, INT32_MAX),
    WORD(HELLO_REPLY, HelloReply, rank, reply.rank, 0, RANK_MAX),
    WORD(SHARE, Share, sequence, share.sequence, 1, UINT64_MAX),
    FIELD(SHARE, Share, name, TEXT, share.name, 1, NAME_MAX),
    MANY(SHARE, Share, payload, BYTES, share.payload, share.size, 0, LS_PAYLOAD_MAX),
    WORD(LEAVE, Leave, code, leave.code, 0, LS_UNAUTHENTICATED),
    WORD(LEAVE, Leave, root, leave.root, 0, RANK_MAX),
    FIELD(LEAVE, Leave, lost, FLAG, leave.lost, 0, 1),
    FIELD(LEAVE, Leave, message, SPEECH, leave.message, 0, LS_ERROR_SIZE),
    FIELD(BEAT, Beat, leader, LEADER, leader, 0, LS_MAX_WORKERS),
    FIELD(CHALLENGE, Challenge, nonce, PROOF, challenge.nonce, 1, LS_NONCE_SIZE),
    FIELD(CHALLENGE, Challenge, task_type, TEXT, challenge.task_type, 0, WORD_MAX),
    WORD(CHALLENGE, Challenge, task_index, challenge.task_index, 0, INT32_MAX),
    WORD(CHALLENGE, Challenge, rank, challenge.rank, 0, RANK_MAX),
    FIELD(CHALLENGE, Challenge, proof, PROOF, challenge.proof, 0, LS_PROOF_SIZE),
    WORD(STOP, Stop, root, stop.root, 0, RANK_MAX),
    FIELD(STOP, Stop, message, SPEECH, stop.message, 0, LS_ERROR_SIZE),
    WORD(STOP, Stop, code, stop.code, 0, LS_UNAUTHENTICATED),
    FIELD(REPORT, Report, holds, FLAG, report.holds, 0, 1),
    WORD(REPORT, Report, position, report.position, 0, INT64_MAX),
    WORD(REPORT, Report, heard, report.heard, 0, LS_NUMBER_MAX),
    MANY(REPORT, Report, ledger_number, LIST, report.ledger.numbers, report.ledger.count, 0, LS_LEDGER_MOST),
    MANY(REPORT, Report, ledger_incarnation, LIST, report.ledger.incarnations, report.ledger.words, 0, LEDGER_MAX),
    MANY(REPORT, Report, closed, LIST, report.closed, report.closed_count, 0, LS_CLOSED_MOST),
    WORD(PROPOSE, Propose, number, propose.number, 1, LS_NUMBER_MAX),
    MANY(PROPOSE, Propose, incarnation, LIST, propose.incarnations, propose.size, 1, LS_MAX_WORKERS),
    WORD(PROPOSE, Propose, position, propose.position, 0, INT64_MAX),
    WORD(PROPOSE, Propose, source, propose.source, 0, RANK_MAX),
    FIELD(PROPOSE, Propose, copy, FLAG, propose.copy, 0, 1),
    MANY(PROPOSE, Propose, ledger_number, LIST, propose.ledger.numbers, propose.ledger.count, 0, LS_LEDGER_MOST),
    MANY(PROPOSE, Propose, ledger_incarnation, LIST, propose.ledger.incarnations, propose.ledger.words, 0, LEDGER_MAX),
    FIELD(PROPOSE, Propose, key, PROOF, propose.key, 1, LS_PROOF_SIZE),
    MANY(PROPOSE, Propose, host, LIST, propose.hosts, propose.size, 1, LS_MAX_WORKERS),
    WORD(ACCEPT, Accept, number, number, 1, UINT64_MAX),
    WORD(BEGIN, Begin, number, number, 1, UINT64_MAX),
    WORD(SHARES, Shares, sequence, shares.sequence, 1, UINT64_MAX),
    FIELD(SHARES, Shares, name, TEXT, shares.name, 1, NAME_MAX),
    WORD(SHARES, Shares, first, shares.first, 0, RANK_MAX),
    MANY(SHARES, Shares, size, LIST, shares.sizes, shares.count, 0, LS_MAX_WORKERS),
    MANY(SHARES, Shares, payload, BYTES, shares.payload, shares.size, 0, LS_MESSAGE_MAX),
    WORD(SHARES, Shares, code, shares.code, 0, LS_UNAUTHENTICATED),
    FIELD(SHARES, Shares, message, SPEECH, shares.message, 0, LS_ERROR_SIZE),
    WORD(FINISHED, Finished, rank, finished.rank, 0, RANK_MAX),
    WORD(FINISHED, Finished, calls, finished.calls, 0, UINT64_MAX),
    WORD(WAITING, Waiting, sequence, waiting.sequence, 0, UINT64_MAX),
    WORD(WAITING, Waiting, missing, waiting.missing, 0, LS_MAX_WORKERS),
    FIELD(WAITING, Waiting, message, SPEECH, waiting.message, 0, LS_ERROR_SIZE),
    WORD(STALL, Stall, sequence, stall.sequence, 0, UINT64_MAX),
    MANY(STALL, Stall, call, BYTES, stall.call, stall.size, 0, LS_STALL_MAX),
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* The number of elements stands before them in protobuf's structs. */
#define COUNT_BEFORE sizeof(size_t)
_Static_assert(offsetof(Ls__Report, closed) - offsetof(Ls__Report, n_closed) == COUNT_BEFORE, "a list is not as here");

/* ---- encoding ---- */

/* A copy of text in buffer, cut to fit, with control characters as spaces. */
static const char *blank_controls(const char *text, char buffer[LS_ERROR_SIZE]) {
    (void)snprintf(buffer, LS_ERROR_SIZE, "%s", text ? text : "");
    for (char *at = buffer; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = ' ';
    return buffer;
}

/* protobuf-c's structs hold pointers to what may be written also for what it only reads. */
static void put_pointer(void *to, const void *pointer) {
    memcpy(to, &pointer, sizeof(pointer));
}

static void put_bytes(void *to, const void *data, size_t size) {
    ProtobufCBinaryData bytes = {.len = size};
    put_pointer(&bytes.data, data);
    memcpy(to, &bytes, sizeof(bytes));
}

/* text: for the one speech of a message. */
static void put_field(const struct field *field, const struct ls_message *message, char *body,
                      char text[LS_ERROR_SIZE]) {
    const char *own = (const char *)message + field->own, *pointer = NULL;
    char *wire = body + field->wire;
    size_t size = 0;
    int count = 0;
    if (field->type >= TEXT) memcpy(&pointer, own, sizeof(pointer));
    switch (field->type) {
    case WORD_32:
        memcpy(wire, own, sizeof(uint32_t));
        break;
    case WORD_64:
        memcpy(wire, own, sizeof(uint64_t));
        break;
    case FLAG:
        memcpy(wire, &(protobuf_c_boolean){*(const bool *)own}, sizeof(protobuf_c_boolean));
        break;
    case LEADER:
        memcpy(wire, &(uint32_t){(uint32_t)message->leader + 1}, sizeof(uint32_t));
        break;
    case TEXT:
    case LINES:
        put_pointer(wire, pointer);
        break;
    case SPEECH:
        put_pointer(wire, blank_controls(pointer, text));
        break;
    case PROOF:
        if (pointer) put_bytes(wire, pointer, field->most);
        break;
    case BYTES:
        memcpy(&size, (const char *)message + field->count, sizeof(size));
        put_bytes(wire, pointer, size);
        break;
    case LIST:
        memcpy(&count, (const char *)message + field->count, sizeof(count));
        memcpy(wire - COUNT_BEFORE, &(size_t){(size_t)count}, COUNT_BEFORE);
        put_pointer(wire, pointer);
        break;
    }
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

ls_status ls_message_encode(const struct ls_message *message, void **data, size_t *size) {
    union {
        Ls__Hello hello;
        Ls__Report report;
        Ls__Propose propose;
        Ls__Shares shares;
    } body; /* the largest */
    char text[LS_ERROR_SIZE];
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    const ProtobufCFieldDescriptor *form =
        protobuf_c_message_descriptor_get_field(&ls__envelope__descriptor, message->kind);
    if (message->kind < LS_MESSAGE_HELLO || !form)
        return ls_fail(LS_INTERNAL, "message kind %d does not exist", (int)message->kind);
    envelope.incarnation = message->incarnation;
    envelope.generation = message->generation;
    envelope.body_case = (Ls__Envelope__BodyCase)message->kind;
    envelope.hello = &body.hello;
    protobuf_c_message_init(form->descriptor, &body);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].kind == message->kind) put_field(&fields[i], message, (char *)&body, text);
    return pack(&envelope, data, size);
}

/* ---- decoding ---- */

static ls_status bad(const char *field) {
    return ls_fail(LS_INVALID_ARGUMENT, "a control message has a bad %s", field);
}

static bool is_printable(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) return false;
    return true;
}

/* Returns the value, length or count. */
static uint64_t take_field(const struct field *field, const char *body, struct ls_message *message) {
    const char *wire = body + field->wire, *pointer = NULL;
    char *own = (char *)message + field->own, *count = (char *)message + field->count;
    ProtobufCBinaryData bytes;
    uint64_t word = 0;
    uint32_t half = 0;
    size_t elements = 0;
    switch (field->type) {
    case WORD_64:
        memcpy(&word, wire, sizeof(word));
        memcpy(own, &word, sizeof(word));
        return word;
    case WORD_32:
    case FLAG:
    case LEADER:
        memcpy(&half, wire, sizeof(half));
        if (field->type == FLAG) *(bool *)own = half;
        if (field->type == LEADER) message->leader = (int)half - 1;
        if (field->type == WORD_32) memcpy(own, &half, sizeof(half));
        return field->type == FLAG ? half != 0 : half;
    case PROOF:
    case BYTES:
        memcpy(&bytes, wire, sizeof(bytes));
        if (field->type == BYTES) memcpy(count, &bytes.len, sizeof(bytes.len));
        put_pointer(own, bytes.len || field->type == BYTES ? bytes.data : NULL);
        return bytes.len;
    case LIST:
        memcpy(&elements, wire - COUNT_BEFORE, sizeof(elements));
        memcpy(count, &(int){(int)elements}, sizeof(int));
        memcpy(&pointer, wire, sizeof(pointer));
        put_pointer(own, pointer);
        return elements;
    default:
        memcpy(&pointer, wire, sizeof(pointer));
        put_pointer(own, pointer);
        return pointer ? strlen(pointer) : UINT64_MAX;
    }
}

static bool is_good(const struct field *field, const char *body, struct ls_message *message) {
    const char *text = NULL;
    uint64_t size = take_field(field, body, message);
    if (field->type == PROOF) return size == field->most || (!size && !field->least);
    if (size < field->least || size > field->most) return false;
    if (field->type != TEXT && field->type != SPEECH) return true;
    memcpy(&text, body + field->wire, sizeof(text));
    return is_printable(text);
}

/* Rosters of equal size, each with a number and somebody on it. */
static bool is_ledger(const struct ls_rosters *ledger) {
    int size = ledger->count ? ledger->words / ledger->count : 0;
    for (int i = 0; i < ledger->count; i++)
        if (!ledger->numbers[i] || ledger->numbers[i] > LS_NUMBER_MAX) return false;
    return ledger->words == ledger->count * size && size <= LS_MAX_WORKERS && (size || !ledger->count);
}

static ls_status check_reply(const struct ls_handshake_reply *reply) {
    bool stopped = reply->verdict == LS_VERDICT_OVER && reply->code == LS_CANCELLED;
    if ((reply->verdict == LS_VERDICT_REFUSED) != (reply->code != LS_OK) && !stopped) return bad("HelloReply.code");
    return LS_OK;
}

/* The parts make up the payload, or there are none and a code. */
static ls_status check_shares(const struct ls_shares *shares) {
    uint64_t sum = 0;
    if (shares->count > LS_MAX_WORKERS - shares->first) return bad("Shares.first");
    for (int i = 0; i < shares->count; i++) sum += shares->sizes[i];
    return sum == shares->size && (shares->count > 0) == !shares->code ? LS_OK : bad("Shares.size");
}

static ls_status check_report(const struct ls_report *report) {
    if (report->position && !report->holds) return bad("Report.position");
    return is_ledger(&report->ledger) ? LS_OK : bad("Report.ledger");
}

static ls_status check_propose(const Ls__Propose *body, const struct ls_propose *propose) {
    if (body->n_host != body->n_incarnation) return bad("Propose.host");
    if (propose->source >= propose->size || !propose->incarnations[propose->source]) return bad("Propose.source");
    return is_ledger(&propose->ledger) ? LS_OK : bad("Propose.ledger");
}

/* Rules over several fields of a message. */
static ls_status check_together(const Ls__Envelope *envelope, const struct ls_message *message) {
    if (message->kind == LS_MESSAGE_HELLO_REPLY) return check_reply(&message->reply);
    if (message->kind == LS_MESSAGE_SHARES) return check_shares(&message->shares);
    if (message->kind == LS_MESSAGE_REPORT) return check_report(&message->report);
    return message->kind == LS_MESSAGE_PROPOSE ? check_propose(envelope->propose, &message->propose) : LS_OK;
}

static ls_status check_envelope(const Ls__Envelope *envelope, struct ls_message *message) {
    if (!envelope->incarnation) return bad("incarnation");
    message->incarnation = envelope->incarnation;
    message->generation = envelope->generation;
    if (envelope->body_case == LS__ENVELOPE__BODY__NOT_SET) return bad("body");
    message->kind = (enum ls_message_kind)envelope->body_case;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].kind == message->kind && !is_good(&fields[i], (const char *)envelope->hello, message))
            return bad(fields[i].name);
    return check_together(envelope, message);
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
