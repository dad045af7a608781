/* All-to-all, collectives of parts whose sizes only their senders know, and messages between two ranks: every kind of
 * link and memory, 1 to 8 ranks, random sizes beside those at an edge. Every byte is a function of who sends it to
 * whom.
 *
 * LOCKSTEP_TEST_SEED=N repeats a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/random.h"
#include "collective/collectives.h"
#include "collective/messages/mail.h"
#include "collective/world.h"
#include "harness.h"

enum { ROUNDS = SANITIZED ? 2 : 6, MOST = 8, WAYS = 6 };

static const int pairs[] = {0, 0, 1, 1, 2, 2, 3, 3};
/* A way for bytes to go. */
static struct world_options way_of(int way, int size) {
    struct world_options options = {.size = size, .mail = true, .timeout = 60};
    options.wire = way == 0 ? WIRE_LOCAL : way == 1 ? WIRE_TCP : way == 2 ? WIRE_ODD : WIRE_SHARED;
    if (way == 4) options.hosts = pairs;
    if (way == 5) options.wire = WIRE_RING;
    if (way == 2) options.segment = 1000;
    return options;
}

static uint64_t seed;

static uint64_t drawn(uint64_t stream, uint64_t index) {
    return ls_random_bits(seed, stream, index);
}

/* ---- values ---- */

/* The bytes repeat after a prime number of them, so no slip by a segment or a slot goes unseen. */
enum { PERIOD = 65521 };

static void fill(unsigned char *data, size_t bytes, int round, int from, int to) {
    size_t first = (size_t)(round * 131 + from * 31 + to * 7);
    for (size_t i = 0; i < bytes && i < PERIOD; i++) data[i] = (unsigned char)(first + i * 2654435761U / 1024);
    for (size_t done = PERIOD; done < bytes; done += PERIOD)
        memcpy(data + done, data, bytes - done < PERIOD ? bytes - done : PERIOD);
}

/* Byte by byte only where one is wrong. */
static void expect(const unsigned char *data, size_t bytes, int round, int from, int to) {
    unsigned char expected[PERIOD];
    fill(expected, bytes < PERIOD ? bytes : PERIOD, round, from, to);
    for (size_t done = 0; done < bytes; done += PERIOD) {
        if (memcmp(data + done, expected, bytes - done < PERIOD ? bytes - done : PERIOD) == 0) continue;
        for (size_t i = done; i < bytes; i++)
            ck_assert_msg(data[i] == expected[i - done], "round %d, from %d to %d: byte %zu of %zu is wrong", round,
                          from, to, i, bytes);
    }
}

/* Elements that from gives to in a round: often none, sometimes more than a slot, a stage, or a link holds. */
static size_t count_of(int round, int from, int to) {
    uint64_t bits = drawn((uint64_t)round, (uint64_t)(from * MOST + to));
    size_t most = round % 4 == 0 ? 4 : round % 4 == 1 ? 300 : round % 4 == 2 ? 20000 : MANY((size_t)300000);
    if (bits % 3 == 0) return 0;
    return (size_t)(bits >> 8) % (round % 4 == 3 && bits % 5 ? 100 : most);
}

static ls_dtype type_of(int round) {
    static const ls_dtype types[] = {LS_UINT8, LS_FLOAT32, LS_BOOL, LS_INT64, LS_BFLOAT16};
    return types[round % 5];
}

/* ---- collectives ---- */

/* Memory that is shared, or not, as the round says; the same on all ranks. */
static unsigned char *take_memory(const struct rank *rank, int round, size_t bytes) {
    void *memory = NULL;
    if (round % 3) return malloc(bytes + 1);
    assert_ok(ls_group_share(rank->group, bytes + 1, &memory));
    return memory;
}

static void give_memory(const struct rank *rank, int round, void *memory) {
    if (round % 3)
        free(memory);
    else
        ls_group_unshare(rank->group, memory);
}

static ls_status exchange_round(const struct rank *rank, int round) {
    size_t element = ls_dtype_size(type_of(round)), sends[MOST], receives[MOST], total = 0, at = 0;
    for (int to = 0; to < rank->size; to++) total += sends[to] = count_of(round, rank->rank, to);
    unsigned char *input = take_memory(rank, round, total * element);
    ck_assert_ptr_nonnull(input);
    for (int to = 0; to < rank->size; to++) {
        fill(input + at, sends[to] * element, round, rank->rank, to);
        at += sends[to] * element;
    }
    void *output = NULL;
    ls_status status =
        ls_ragged_all_to_all(rank->group, LS_ALL_TO_ALL("tokens", input, sends, &output, receives, type_of(round)));
    at = 0;
    for (int from = 0; from < rank->size && !status; from++) {
        ck_assert_uint_eq(receives[from], count_of(round, from, rank->rank));
        expect((unsigned char *)output + at, receives[from] * element, round, from, rank->rank);
        at += receives[from] * element;
    }
    ls_free(output);
    give_memory(rank, round, input);
    return status;
}

static ls_status gather_round(const struct rank *rank, int round) {
    size_t element = ls_dtype_size(type_of(round)), counts[MOST], at = 0;
    size_t own = count_of(round, rank->rank, MOST - 1);
    unsigned char *input = malloc(own * element + 1);
    ck_assert_ptr_nonnull(input);
    fill(input, own * element, round, rank->rank, MOST);
    void *output = NULL;
    ls_status status =
        ls_ragged_all_gather(rank->group, LS_ALL_GATHER("rows", input, .dtype = type_of(round), .count = own,
                                                        .allocated = &output, .received = counts));
    for (int from = 0; from < rank->size && !status; from++) {
        ck_assert_uint_eq(counts[from], count_of(round, from, MOST - 1));
        expect((unsigned char *)output + at, counts[from] * element, round, from, MOST);
        at += counts[from] * element;
    }
    ls_free(output);
    free(input);
    return status;
}

static ls_status broadcast_round(const struct rank *rank, int round) {
    int root = round % rank->size;
    size_t size = count_of(round, root, 2), got = 77;
    unsigned char *input = malloc(size + 1);
    ck_assert_ptr_nonnull(input);
    fill(input, size, round, root, MOST + 1);
    void *output = NULL;
    ls_status status = ls_ragged_broadcast(rank->group, LS_BROADCAST("object", rank->rank == root ? input : NULL,
                                                                     rank->rank == root ? size : SIZE_MAX, LS_UINT8,
                                                                     root, .allocated = &output, .received = &got));
    if (!status) {
        ck_assert_uint_eq(got, size);
        expect(output, size, round, root, MOST + 1);
    }
    ls_free(output);
    free(input);
    return status;
}

static ls_status run_rounds(struct rank *rank) {
    ls_status status = LS_OK;
    for (int round = 0; round < ROUNDS && !status; round++) {
        status = exchange_round(rank, round);
        if (!status) status = gather_round(rank, round);
        if (!status) status = broadcast_round(rank, round);
    }
    return status;
}

TEST_EACH(parts_of_any_size_arrive, WAYS) {
    seed = first_seed();
    for (int size = 1; size <= MOST; size += SANITIZED && size > 2 ? 3 : 1) {
        struct world_options options = way_of(_i, size);
        struct world world;
        world_run(&options, run_rounds, NULL, &world);
        world_expect_ok(&world, size);
    }
}

/* ---- messages ---- */

enum { LETTERS = 60 };
struct letter {
    int from, to, name, number;
};

/* The letters of all; those of one pair and name are numbered. */
static void write_plan(struct letter plan[LETTERS], int size, int round) {
    for (int i = 0; i < LETTERS; i++) {
        uint64_t bits = drawn(1000 + (uint64_t)round, (uint64_t)i);
        uint64_t ranks = (uint64_t)size;
        plan[i] = (struct letter){(int)(bits % ranks), (int)((bits >> 16) % ranks), (int)((bits >> 40) % 3), 0};
        for (int j = 0; j < i; j++)
            plan[i].number += plan[j].from == plan[i].from && plan[j].to == plan[i].to && plan[j].name == plan[i].name;
    }
}

static size_t letter_count(const struct letter *letter, int round) {
    return count_of(round, letter->from, letter->to) + (size_t)letter->number;
}

static ls_status send_letter(const struct rank *rank, const struct letter *letter, int round) {
    static const char *const names[] = {"forward", "backward", "state"};
    size_t element = ls_dtype_size(type_of(round)), bytes = letter_count(letter, round) * element;
    unsigned char *data = malloc(bytes + 1);
    ck_assert_ptr_nonnull(data);
    fill(data, bytes, round + letter->number, letter->from, letter->to + letter->name);
    ls_status status =
        ls_mail_send(rank->group, LS_SEND(names[letter->name], data, bytes / element, type_of(round), letter->to));
    free(data);
    return status;
}

static ls_status receive_letter(const struct rank *rank, const struct letter *letter, int round) {
    static const char *const names[] = {"forward", "backward", "state"};
    size_t element = ls_dtype_size(type_of(round)), bytes = letter_count(letter, round) * element;
    unsigned char *data = malloc(bytes + 1);
    ck_assert_ptr_nonnull(data);
    ls_status status = ls_mail_receive(
        rank->group, LS_RECEIVE(names[letter->name], data, bytes / element, type_of(round), letter->from));
    if (!status) expect(data, bytes, round + letter->number, letter->from, letter->to + letter->name);
    free(data);
    return status;
}

/* True where this rank may do it now: a letter to itself is sent before, and those of one name come in order. */
static bool may_receive(const struct letter plan[LETTERS], const bool *done, const bool *sent, int i) {
    if (plan[i].from == plan[i].to && !sent[i]) return false;
    for (int j = 0; j < i; j++)
        if (plan[j].from == plan[i].from && plan[j].to == plan[i].to && plan[j].name == plan[i].name && !done[j])
            return false;
    return true;
}

/* Sends go in order of the list; receives come between them in an order of this rank's own. */
static ls_status exchange_letters(const struct rank *rank, int round) {
    struct letter plan[LETTERS];
    bool sent[LETTERS] = {false}, done[LETTERS] = {false};
    write_plan(plan, rank->size, round);
    ls_status status = LS_OK;
    int next = 0;
    for (uint64_t turn = 0; !status; turn++) {
        uint64_t bits = drawn(2000 + (uint64_t)round, turn * MOST + (uint64_t)rank->rank);
        while (next < LETTERS && plan[next].from != rank->rank) next++;
        if (next < LETTERS && bits % 2) {
            status = send_letter(rank, &plan[next], round);
            sent[next++] = true;
            continue;
        }
        int first = (int)((bits >> 8) % LETTERS), found = -1;
        for (int k = 0; k < LETTERS && found < 0; k++) {
            int i = (first + k) % LETTERS;
            if (plan[i].to == rank->rank && !done[i] && may_receive(plan, done, sent, i)) found = i;
        }
        if (found < 0 && next == LETTERS) return LS_OK;
        if (found < 0) continue;
        bool waits_for_itself =
            false; /* a receive from a rank that waits for this rank's later sends would be a slip */
        for (int i = next; i < LETTERS; i++) waits_for_itself |= plan[i].from == rank->rank;
        if (waits_for_itself && plan[found].from != rank->rank) continue;
        status = receive_letter(rank, &plan[found], round);
        done[found] = true;
    }
    return status;
}

static ls_status run_letters(struct rank *rank) {
    ls_status status = LS_OK;
    for (int round = 0; round < ROUNDS && !status; round++) {
        status = exchange_letters(rank, round);
        if (!status && round % 3 == 0) status = ls_group_barrier(rank->group, "between"); /* beside collectives */
    }
    return status;
}

TEST_EACH(letters_arrive_in_any_order, WAYS) {
    seed = first_seed();
    for (int size = 1; size <= MOST; size += SANITIZED && size > 2 ? 3 : 1) {
        struct world_options options = way_of(_i, size);
        struct world world;
        world_run(&options, run_letters, NULL, &world);
        world_expect_ok(&world, size);
    }
}

/* All send much to the next two ranks first, and receive afterwards. */
static ls_status send_first(struct rank *rank) {
    size_t bytes = MANY((size_t)8 << 20);
    unsigned char *data = malloc(bytes);
    ck_assert_ptr_nonnull(data);
    ls_status status = LS_OK;
    for (int step = 1; step < rank->size && step < 3 && !status; step++) {
        int to = (rank->rank + step) % rank->size;
        fill(data, bytes, 5, rank->rank, to);
        status = ls_mail_send(rank->group, LS_SEND("all at once", data, bytes, LS_UINT8, to));
    }
    for (int step = 1; step < rank->size && step < 3 && !status; step++) {
        int from = (rank->rank + rank->size - step) % rank->size;
        status = ls_mail_receive(rank->group, LS_RECEIVE("all at once", data, bytes, LS_UINT8, from));
        if (!status) expect(data, bytes, 5, from, rank->rank);
    }
    free(data);
    return status;
}

TEST_EACH(ranks_that_all_send_first_go_on, WAYS) {
    static const int sizes[] = {2, 3, 5};
    for (int i = 0; i < 3; i++) {
        if (_i == 2) continue; /* few bytes at a time: too many calls */
        struct world_options options = way_of(_i, sizes[i]);
        struct world world;
        world_run(&options, send_first, NULL, &world);
        world_expect_ok(&world, sizes[i]);
    }
}

/* ---- slips ---- */

struct slip {
    const char *name;
    ls_dtype dtype;
    size_t count;
    const char *told;
};

static ls_status receive_slip(struct rank *rank) {
    const struct slip *slip = rank->context;
    float data[8] = {0};
    if (rank->rank == 0) return ls_mail_receive(rank->group, LS_RECEIVE(slip->name, data, slip->count, slip->dtype, 1));
    ls_status status = LS_OK;
    if (rank->rank == 1) status = ls_mail_send(rank->group, LS_SEND("layer", data, 3));
    return status ? status : ls_group_barrier(rank->group, "after");
}

TEST_EACH(a_message_of_another_kind_is_named, 2) {
    static struct slip slips[] = {
        {"layer", LS_FLOAT32, 4, "send 'layer' (sequence 0): count differs: 4 on rank 0, 3 on rank 1"},
        {"layer", LS_INT32, 3, "send 'layer' (sequence 0): dtype differs: int32 on rank 0, float32 on rank 1"}};
    for (int way = 0; way < WAYS; way++) {
        struct world_options options = way_of(way, 3);
        struct world world;
        options.tells = true;
        world_run(&options, receive_slip, &slips[_i], &world);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(world.ranks[i].status, LS_INVALID_ARGUMENT);
            ck_assert_msg(strstr(world.ranks[i].error, slips[_i].told) != NULL, "rank %d: %s", i, world.ranks[i].error);
        }
    }
}

static ls_status receive_another(struct rank *rank) {
    float data[3] = {0};
    if (rank->rank == 1) return ls_mail_send(rank->group, LS_SEND("layer", data, 3));
    return ls_mail_receive(rank->group, LS_RECEIVE("layers", data, 3, LS_FLOAT32, 1));
}

TEST_EACH(a_message_that_does_not_come_has_a_deadline, WAYS) {
    struct world_options options = way_of(_i, 2);
    struct world world;
    char words[80];
    options.timeout = 0.3;
    (void)snprintf(words, sizeof(words), "receive 'layers' from rank 1: waited %g s", limit_of(options.timeout));
    world_run(&options, receive_another, NULL, &world);
    ck_assert_int_eq(world.ranks[0].status, LS_DEADLINE_EXCEEDED);
    ck_assert_msg(strstr(world.ranks[0].error, words) != NULL, "%s", world.ranks[0].error);
    ck_assert_msg(strstr(world.ranks[0].error, "'layer' has come from it, and is not received") != NULL, "%s",
                  world.ranks[0].error);
}

static ls_status send_much(struct rank *rank) {
    static unsigned char data[1 << 20];
    if (rank->rank == 1) return ls_mail_send(rank->group, LS_SEND("much", data, sizeof(data), LS_UINT8));
    unsigned char *got = malloc(sizeof(data));
    ls_status status = ls_mail_receive(rank->group, LS_RECEIVE("much", got, sizeof(data), LS_UINT8, 1));
    free(got);
    return status;
}

TEST_EACH(a_rank_whose_link_breaks_is_lost, 12) {
    static const size_t after[] = {1, 100, 144, 145, 5000, 300000};
    struct world_options options = way_of(_i / 6 ? 5 : 0, 2);
    struct world world;
    options.break_rank = 1;
    options.break_after = after[_i % 6];
    world_run(&options, send_much, NULL, &world);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_UNAVAILABLE);
        ck_assert_msg(strstr(world.ranks[i].error, "'much'") != NULL, "%s", world.ranks[i].error);
        ck_assert_msg(strstr(world.ranks[i].error, "lost the connection") != NULL, "%s", world.ranks[i].error);
    }
}

/* Rank 1 expects one element more of rank 0 than that one sends. */
static ls_status expect_more(struct rank *rank) {
    const size_t sends[3] = {1, 2, 3};
    size_t receives[3] = {(size_t)rank->rank + 1, (size_t)rank->rank + 1, (size_t)rank->rank + 1};
    float input[6] = {0}, output[12];
    if (rank->rank == 1) receives[0]++;
    return ls_group_all_to_all(rank->group,
                               &(struct ls_all_to_all){"tokens", LS_FLOAT32, input, sends, output, receives});
}

TEST_EACH(counts_that_differ_are_named, WAYS) {
    struct world_options options = way_of(_i, 3);
    struct world world;
    options.tells = true;
    world_run(&options, expect_more, NULL, &world);
    ck_assert_int_eq(world.ranks[1].status, LS_INVALID_ARGUMENT);
    bool in_memory = options.wire == WIRE_SHARED && !options.hosts;
    const char *told = in_memory ? "all_to_all 'tokens': rank 0 sends 8 bytes to rank 1, which expects 12"
                                 : "all_to_all 'tokens' (sequence ";
    ck_assert_msg(strstr(world.ranks[1].error, told) != NULL, "%s", world.ranks[1].error);
    if (!in_memory) ck_assert_ptr_nonnull(strstr(world.ranks[1].error, "bytes that follow differs: 12 on rank 1, 8"));
}

static ls_status slip_alone(struct rank *rank) {
    float data[2] = {0};
    size_t counts[2] = {1, 1}, huge[2] = {SIZE_MAX, 2};
    void *output = NULL;
    ck_assert_int_eq(ls_mail_send(rank->group, LS_SEND("x", data, 1, LS_FLOAT32, 2)), LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_error(), "message 'x': rank 2 is no rank of a group of 2");
    ck_assert_int_eq(ls_mail_receive(rank->group, LS_RECEIVE("x", data, 1, LS_FLOAT32, -1)), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_mail_send(rank->group, LS_SEND(NULL, data, 1)), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_mail_send(rank->group, LS_SEND("x", NULL, 1)), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_mail_send(rank->group, LS_SEND("x", data, 1, (ls_dtype)99)), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_mail_send(rank->group, LS_SEND("x", data, SIZE_MAX)), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_mail_receive(rank->group, LS_RECEIVE("x", data, 1, LS_FLOAT32, rank->rank)),
                     LS_FAILED_PRECONDITION);
    ck_assert_int_eq(ls_ragged_all_to_all(rank->group, LS_ALL_TO_ALL("x", NULL, counts, &output, counts)),
                     LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_ragged_all_to_all(rank->group, LS_ALL_TO_ALL("x", data, huge, &output, counts)),
                     LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_ragged_all_gather(
                         rank->group, LS_ALL_GATHER("x", NULL, .count = 1, .allocated = &output, .received = counts)),
                     LS_INVALID_ARGUMENT);
    ck_assert_ptr_null(output);
    return ls_group_barrier(rank->group, "after");
}

TEST_EACH(a_slip_leaves_the_group_as_it_is, WAYS) {
    struct world_options options = way_of(_i, 2);
    struct world world;
    world_run(&options, slip_alone, NULL, &world);
    world_expect_ok(&world, 2);
}

TESTS("collective/messages", .seconds = 300)
