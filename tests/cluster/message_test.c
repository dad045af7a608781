/* Control messages and the data preface: there and back, and everything that must not pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cluster/message.h"
#include "cluster/net/preface.h"
#include "harness.h"

static const uint8_t secret32[LS_PROOF_SIZE] = "0123456789abcdef0123456789abcde";

static struct ls_message hello_message(void) {
    return (struct ls_message){.kind = LS_MESSAGE_HELLO,
                               .incarnation = 7,
                               .generation = 1,
                               .hello = {.protocol = 1,
                                         .version = "0.1.0",
                                         .task_type = "worker",
                                         .task_index = 3,
                                         .rank = 4,
                                         .size = 5,
                                         .cluster = "cluster.worker=5\n",
                                         .host = "boot/name",
                                         .transport = "tcp",
                                         .elastic = "2"}};
}

static struct ls_message reply_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_HELLO_REPLY,
        .incarnation = 7,
        .generation = 1,
        .reply = {.verdict = LS_VERDICT_ACCEPTED, .message = "", .task_type = "chief", .rank = 0}};
}

static struct ls_message share_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_SHARE, .incarnation = 7, .generation = 1, .share = {9, "join", "abc", 3}};
}

static struct ls_message leave_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_LEAVE, .incarnation = 7, .generation = 1, .leave = {LS_ABORTED, 2, true, "gone"}};
}

static struct ls_message beat_message(void) {
    return (struct ls_message){.kind = LS_MESSAGE_BEAT, .incarnation = 7, .generation = 1, .leader = 4};
}

static struct ls_message shares_message(void) {
    static const uint32_t sizes[] = {2, 0, 3};
    return (struct ls_message){
        .kind = LS_MESSAGE_SHARES,
        .incarnation = 7,
        .generation = 4,
        .shares = {
            .sequence = 3, .name = "model", .first = 5, .count = 3, .sizes = sizes, .payload = "ab123", .size = 5}};
}

static struct ls_message finished_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_FINISHED, .incarnation = 7, .generation = 4, .finished = {6, 1u << 31}};
}

static struct ls_message waiting_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_WAITING, .incarnation = 7, .generation = 4, .waiting = {3, 2, "worker:1, worker:2"}};
}

static struct ls_message stall_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_STALL, .incarnation = 7, .generation = 4, .stall = {UINT64_C(1) << 40, "call", 4}};
}

static struct ls_message challenge_message(void) {
    return (struct ls_message){.kind = LS_MESSAGE_CHALLENGE,
                               .incarnation = 7,
                               .generation = 1,
                               .challenge = {secret32, "worker", 3, 4, secret32}};
}

/* Two rosters of three ranks. */
static const uint64_t numbers[] = {4, 12}, rosters[] = {7, 8, 9, 7, 0, UINT64_MAX};
static const struct ls_rosters ledger = {numbers, rosters, 2, 6};

static void expect_ledger(const struct ls_rosters *back) {
    ck_assert_int_eq(back->count, 2);
    ck_assert_int_eq(back->words, 6);
    ck_assert_mem_eq(back->numbers, numbers, sizeof(numbers));
    ck_assert_mem_eq(back->incarnations, rosters, sizeof(rosters));
}

static const uint64_t seen_to_end[] = {71, UINT64_MAX};

static struct ls_message report_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_REPORT, .incarnation = 7, .generation = 4, .report = {true, 213, 9, ledger, seen_to_end, 2}};
}

static struct ls_message propose_message(void) {
    return (struct ls_message){.kind = LS_MESSAGE_PROPOSE,
                               .incarnation = 7,
                               .propose = {.number = 12,
                                           .incarnations = rosters + 3,
                                           .size = 3,
                                           .position = 214,
                                           .source = 2,
                                           .copy = true,
                                           .ledger = ledger,
                                           .key = secret32,
                                           .hosts = rosters}};
}

static struct ls_message stop_message(void) {
    return (struct ls_message){
        .kind = LS_MESSAGE_STOP, .incarnation = 7, .generation = 4, .stop = {1, "lost", LS_DATA_LOSS}};
}

static struct ls_message accept_message(void) {
    return (struct ls_message){.kind = LS_MESSAGE_ACCEPT, .incarnation = 7, .number = 12};
}

static struct ls_message begin_message(void) {
    return (struct ls_message){.kind = LS_MESSAGE_BEGIN, .incarnation = 7, .number = 12};
}

static ls_status pass(const struct ls_message *message, struct ls_message *back) {
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    ls_status status = ls_message_encode(message, &data, &size);
    return status ? status : ls_message_decode(data, size, back);
}

TEST(there_and_back) {
    struct ls_message hello = hello_message(), reply = reply_message(), share = share_message(),
                      leave = leave_message(), beat = beat_message(), challenge = challenge_message();
    struct ls_message back;
    assert_ok(pass(&hello, &back));
    ck_assert_int_eq(back.kind, LS_MESSAGE_HELLO);
    ck_assert_uint_eq(back.incarnation, 7);
    ck_assert_str_eq(back.hello.cluster, "cluster.worker=5\n");
    ck_assert_int_eq(back.hello.rank, 4);
    ls_message_decode_release(&back);
    assert_ok(pass(&reply, &back));
    ls_message_decode_release(&back);
    assert_ok(pass(&share, &back));
    ck_assert_uint_eq(back.share.size, 3);
    ck_assert_mem_eq(back.share.payload, "abc", 3);
    ls_message_decode_release(&back);
    assert_ok(pass(&leave, &back));
    ck_assert_int_eq(back.leave.root, 2);
    ck_assert(back.leave.lost);
    ck_assert_str_eq(back.leave.message, "gone");
    ls_message_decode_release(&back);
    assert_ok(pass(&beat, &back));
    ck_assert_int_eq(back.kind, LS_MESSAGE_BEAT);
    ck_assert_uint_eq(back.incarnation, 7);
    ck_assert_int_eq(back.leader, 4);
    ls_message_decode_release(&back);
    assert_ok(pass(&challenge, &back));
    ck_assert_mem_eq(back.challenge.nonce, secret32, LS_NONCE_SIZE);
    ck_assert_mem_eq(back.challenge.proof, secret32, LS_PROOF_SIZE);
    ck_assert_int_eq(back.challenge.rank, 4);
    ls_message_decode_release(&back);
    challenge.challenge.proof = NULL;
    hello.hello.proof = secret32;
    assert_ok(pass(&challenge, &back));
    ck_assert_ptr_null(back.challenge.proof);
    ls_message_decode_release(&back);
    assert_ok(pass(&hello, &back));
    ck_assert_mem_eq(back.hello.proof, secret32, LS_PROOF_SIZE);
    ls_message_decode_release(&back);
}

TEST(recovery_there_and_back) {
    struct ls_message report = report_message(), propose = propose_message(), stop = stop_message(),
                      accept = accept_message(), begin = begin_message(), back;
    assert_ok(pass(&report, &back));
    ck_assert(back.report.holds);
    ck_assert_int_eq(back.report.position, 213);
    ck_assert_uint_eq(back.report.heard, 9);
    expect_ledger(&back.report.ledger);
    ck_assert_int_eq(back.report.closed_count, 2);
    ck_assert_mem_eq(back.report.closed, seen_to_end, sizeof(seen_to_end));
    ls_message_decode_release(&back);
    assert_ok(pass(&propose, &back));
    ck_assert_uint_eq(back.propose.number, 12);
    ck_assert_int_eq(back.propose.size, 3);
    ck_assert_mem_eq(back.propose.incarnations, propose.propose.incarnations, 3 * sizeof(uint64_t));
    ck_assert_int_eq(back.propose.position, 214);
    ck_assert_int_eq(back.propose.source, 2);
    ck_assert(back.propose.copy);
    ck_assert_mem_eq(back.propose.key, secret32, LS_PROOF_SIZE);
    ck_assert_mem_eq(back.propose.hosts, rosters, 3 * sizeof(uint64_t));
    expect_ledger(&back.propose.ledger);
    ls_message_decode_release(&back);
    assert_ok(pass(&stop, &back));
    ck_assert_int_eq(back.stop.root, 1);
    ck_assert_str_eq(back.stop.message, "lost");
    ck_assert_int_eq(back.stop.code, LS_DATA_LOSS);
    ls_message_decode_release(&back);
    assert_ok(pass(&accept, &back));
    ck_assert_int_eq(back.kind, LS_MESSAGE_ACCEPT);
    ck_assert_uint_eq(back.number, 12);
    ls_message_decode_release(&back);
    assert_ok(pass(&begin, &back));
    ck_assert_int_eq(back.kind, LS_MESSAGE_BEGIN);
    ck_assert_uint_eq(back.number, 12);
    ls_message_decode_release(&back);
}

TEST(coordination_there_and_back) {
    struct ls_message shares = shares_message(), finished = finished_message(), waiting = waiting_message(),
                      beat = beat_message(), stall = stall_message(), back;
    assert_ok(pass(&shares, &back));
    ck_assert_uint_eq(back.shares.sequence, 3);
    ck_assert_str_eq(back.shares.name, "model");
    ck_assert_int_eq(back.shares.first, 5);
    ck_assert_int_eq(back.shares.count, 3);
    ck_assert_mem_eq(back.shares.sizes, shares.shares.sizes, 3 * sizeof(uint32_t));
    ck_assert_uint_eq(back.shares.size, 5);
    ck_assert_mem_eq(back.shares.payload, "ab123", 5);
    ck_assert(!back.shares.code);
    ls_message_decode_release(&back);
    shares.shares = (struct ls_shares){.sequence = 3, .name = "model", .code = LS_ABORTED, .message = "why"};
    assert_ok(pass(&shares, &back));
    ck_assert_int_eq(back.shares.code, LS_ABORTED);
    ck_assert_str_eq(back.shares.message, "why");
    ls_message_decode_release(&back);
    assert_ok(pass(&finished, &back));
    ck_assert_int_eq(back.finished.rank, 6);
    ck_assert_uint_eq(back.finished.calls, 1u << 31);
    ls_message_decode_release(&back);
    assert_ok(pass(&waiting, &back));
    ck_assert_uint_eq(back.waiting.sequence, 3);
    ck_assert_int_eq(back.waiting.missing, 2);
    ck_assert_str_eq(back.waiting.message, "worker:1, worker:2");
    ls_message_decode_release(&back);
    assert_ok(pass(&stall, &back));
    ck_assert_uint_eq(back.stall.sequence, UINT64_C(1) << 40);
    ck_assert_uint_eq(back.stall.size, 4);
    ck_assert_mem_eq(back.stall.call, "call", 4);
    ls_message_decode_release(&back);
    beat.leader = -1;
    assert_ok(pass(&beat, &back));
    ck_assert_int_eq(back.leader, -1);
    ls_message_decode_release(&back);
}

TEST(texts_become_one_line) {
    struct ls_message leave = leave_message(), back;
    leave.leave.message = "one\ntwo\x1b[31m";
    assert_ok(pass(&leave, &back));
    ck_assert_str_eq(back.leave.message, "one two [31m");
    ls_message_decode_release(&back);
}

static void expect_bad(struct ls_message message, const char *field) {
    struct ls_message back;
    ck_assert_int_eq(pass(&message, &back), LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ls_error(), field) != NULL, "no '%s' in: %s", field, ls_error());
}

#define WITH(make, field, value, name)                                                                                 \
    do {                                                                                                               \
        struct ls_message changed = make();                                                                            \
        changed.field = value;                                                                                         \
        expect_bad(changed, name);                                                                                     \
    } while (0)

TEST(refuses_bad_fields) {
    static char longer[400];
    memset(longer, 'x', sizeof(longer) - 1);
    WITH(hello_message, incarnation, 0, "incarnation");
    WITH(hello_message, hello.rank, LS_MAX_WORKERS, "Hello.rank");
    WITH(hello_message, hello.rank, -1, "Hello.rank");
    WITH(hello_message, hello.task_index, -1, "Hello.task_index");
    WITH(hello_message, hello.size, LS_MAX_WORKERS + 1, "Hello.size");
    WITH(hello_message, hello.version, "a\nb", "Hello.version");
    WITH(hello_message, hello.version, longer, "Hello.version");
    WITH(hello_message, hello.host, longer, "Hello.host");
    WITH(challenge_message, challenge.rank, LS_MAX_WORKERS, "Challenge.rank");
    WITH(challenge_message, challenge.task_type, "a\nb", "Challenge.task_type");
    WITH(challenge_message, challenge.task_index, -1, "Challenge.task_index");
    WITH(reply_message, reply.code, LS_INTERNAL, "HelloReply.code");
    WITH(reply_message, reply.verdict, (enum ls_verdict)9, "HelloReply.verdict");
    WITH(share_message, share.sequence, 0, "Share.sequence");
    WITH(share_message, share.name, "", "Share.name");
    WITH(share_message, share.name, longer, "Share.name");
    WITH(leave_message, leave.code, (ls_status)17, "Leave.code");
    WITH(beat_message, incarnation, 0, "incarnation");
    WITH(leave_message, leave.root, LS_MAX_WORKERS, "Leave.root");
    WITH(stop_message, stop.root, LS_MAX_WORKERS, "Stop.root");
    WITH(stop_message, stop.code, (ls_status)17, "Stop.code");
    WITH(beat_message, leader, LS_MAX_WORKERS, "Beat.leader");
    WITH(shares_message, shares.sequence, 0, "Shares.sequence");
    WITH(shares_message, shares.name, "", "Shares.name");
    WITH(shares_message, shares.first, LS_MAX_WORKERS, "Shares.first");
    WITH(shares_message, shares.first, LS_MAX_WORKERS - 2, "Shares.first");
    WITH(shares_message, shares.code, (ls_status)17, "Shares.code");
    WITH(shares_message, shares.code, LS_ABORTED, "Shares.size");
    WITH(shares_message, shares.size, 4, "Shares.size");
    WITH(shares_message, shares.count, 2, "Shares.size");
    WITH(finished_message, finished.rank, LS_MAX_WORKERS, "Finished.rank");
    WITH(waiting_message, waiting.missing, LS_MAX_WORKERS + 1, "Waiting.missing");
    struct ls_message long_stall = stall_message();
    long_stall.stall.call = longer;
    long_stall.stall.size = LS_STALL_MAX + 1;
    expect_bad(long_stall, "Stall.call");
    WITH(report_message, report.position, -1, "Report.position");
    WITH(report_message, report.holds, false, "Report.position");
    WITH(report_message, report.heard, LS_NUMBER_MAX + 1, "Report.heard");
    WITH(propose_message, propose.number, 0, "Propose.number");
    WITH(propose_message, propose.key, NULL, "Propose.key");
    WITH(propose_message, propose.number, LS_NUMBER_MAX + 1, "Propose.number");
    WITH(propose_message, propose.source, 1, "Propose.source");
    WITH(propose_message, propose.ledger.numbers, ((const uint64_t[]){0, 12}), "Propose.ledger");
    WITH(propose_message, propose.ledger.numbers, ((const uint64_t[]){4, LS_NUMBER_MAX + 1}), "Propose.ledger");
    WITH(report_message, report.ledger.words, 0, "Report.ledger");
    WITH(hello_message, hello.elastic, longer, "Hello.elastic");
    WITH(propose_message, propose.size, 0, "Propose.incarnation");
    WITH(propose_message, propose.position, -1, "Propose.position");
    WITH(propose_message, propose.source, 3, "Propose.source");
    WITH(accept_message, number, 0, "Accept.number");
    WITH(begin_message, number, 0, "Begin.number");
}

TEST(refuses_too_much) {
    struct ls_message share = share_message(), back;
    share.share.size = LS_MESSAGE_MAX;
    share.share.payload = calloc(1, LS_MESSAGE_MAX);
    ck_assert_ptr_nonnull(share.share.payload);
    ck_assert_int_eq(pass(&share, &back), LS_INVALID_ARGUMENT);
    share.share.size = LS_PAYLOAD_MAX;
    assert_ok(pass(&share, &back));
    ls_message_decode_release(&back);
    union {
        const void *in;
        void *out;
    } cast = {share.share.payload};
    free(cast.out);
}

/* Every prefix of a message, and the message with each byte changed, is either refused or passes the checks. */
TEST(survives_damage) {
    struct ls_message hello = hello_message(), back;
    void *data;
    size_t size;
    assert_ok(ls_message_encode(&hello, &data, &size));
    for (size_t length = 0; length < size; length++)
        ck_assert_int_eq(ls_message_decode(data, length, &back), LS_INVALID_ARGUMENT);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            ((uint8_t *)data)[i] ^= (uint8_t)(1 << bit);
            if (ls_message_decode(data, size, &back) == LS_OK) ls_message_decode_release(&back);
            ((uint8_t *)data)[i] ^= (uint8_t)(1 << bit);
        }
    assert_ok(ls_message_decode(data, size, &back));
    ls_message_decode_release(&back);
    ls_free(data);
}

TEST(preface_there_and_back) {
    struct ls_preface preface = {.protocol = 1, .rank = 300, .to = 7, .generation = 5, .incarnation = UINT64_MAX}, back;
    uint8_t bytes[LS_PREFACE_SIZE];
    static const uint8_t secret[LS_PROOF_SIZE] = {1}, other[LS_PROOF_SIZE] = {2};
    preface.attempt = 3;
    preface.channel = UINT32_MAX;
    ck_assert(ls_preface_sign(&preface, secret));
    ls_preface_encode(&preface, bytes);
    assert_ok(ls_preface_decode(bytes, &back));
    ck_assert_mem_eq(&preface, &back, sizeof(preface));
    ck_assert(ls_preface_is_signed(&back, secret));
    ck_assert(!ls_preface_is_signed(&back, other));
    back.attempt++;
    ck_assert(!ls_preface_is_signed(&back, secret));
    back = preface;
    back.to++;
    ck_assert(!ls_preface_is_signed(&back, secret));
    back = preface;
    back.channel--;
    ck_assert(!ls_preface_is_signed(&back, secret));
    ck_assert_int_eq(ls_preface_first_bytes(bytes, 0), LS_FIRST_MORE);
    ck_assert_int_eq(ls_preface_first_bytes(bytes, LS_PREFACE_SIZE - 1), LS_FIRST_MORE);
    ck_assert_int_eq(ls_preface_first_bytes(bytes, LS_PREFACE_SIZE), LS_FIRST_DATA);
    bytes[59] = 1; /* to */
    ck_assert_int_eq(ls_preface_decode(bytes, &back), LS_INVALID_ARGUMENT);
    bytes[59] = 0;
    bytes[15] = 1; /* rank */
    ck_assert_int_eq(ls_preface_decode(bytes, &back), LS_INVALID_ARGUMENT);
    bytes[0] = 'X';
    ck_assert_int_eq(ls_preface_decode(bytes, &back), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_preface_first_bytes(bytes, 1), LS_FIRST_JUNK);
    static const uint8_t probe[] = LS_PROBE_REQUEST "and more";
    for (size_t size = 1; size < LS_PROBE_SIZE; size++)
        ck_assert_int_eq(ls_preface_first_bytes(probe, size), LS_FIRST_MORE);
    ck_assert_int_eq(ls_preface_first_bytes(probe, LS_PROBE_SIZE), LS_FIRST_PROBE);
    ck_assert_int_eq(ls_preface_first_bytes(probe, sizeof(probe)), LS_FIRST_PROBE);
    static const uint8_t ask[LS_MEET_SIZE] = LS_MEET_MAGIC;
    for (size_t size = 1; size < LS_MEET_SIZE; size++)
        ck_assert_int_eq(ls_preface_first_bytes(ask, size), LS_FIRST_MORE);
    ck_assert_int_eq(ls_preface_first_bytes(ask, LS_MEET_SIZE), LS_FIRST_MEET);
}

TESTS("cluster/message")
