/* All-reduces of several arrays in one call, and factors before and after: against the oracle of each array alone, over
 * all links, in both orders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"
#include "base/status.h"
#include "collective/collectives.h"
#include "bench/oracle.h"
#include "collective/world.h"
#include "harness.h"

enum { MOST_ARRAYS = 24, ROUNDS = SANITIZED ? 6 : 12 };

/* One call of all ranks. */
struct round {
    struct ls_all_reduce call;
    size_t count, counts[MOST_ARRAYS];
    bool together, in_place;
    unsigned char *inputs[MAX_RANKS][MOST_ARRAYS], *expected[MOST_ARRAYS];
};
struct context {
    struct round round;
    uint64_t seed;
    bool large;
};

static uint64_t draw(uint64_t *state, uint64_t below) {
    return ls_random_bits(1, 0, (*state)++) % below;
}

static size_t draw_list_count(uint64_t *state, bool large) {
    switch (draw(state, 8)) {
    case 0:
        return 0;
    case 1:
        return large ? 40000 + draw(state, 60000) : draw(state, 3000);
    case 2:
        return large && draw(state, 4) == 0 ? 300000 + draw(state, 9) : draw(state, 40);
    default:
        return draw(state, 300);
    }
}

static double draw_factor(uint64_t *state) {
    static const double factors[] = {0, 1, 0.5, 2, 1.0 / 3, -0.75, 1e-3};
    return factors[draw(state, 7)];
}

static struct round draw_round(uint64_t seed, bool large) {
    uint64_t state = seed << 20;
    struct round round = {.call = {.name = "list",
                                   .communication = draw(&state, 3) ? LS_AUTO : LS_RING,
                                   .op = (ls_reduce_op)draw(&state, LS_PRODUCT + 1),
                                   .dtype = (ls_dtype)draw(&state, LS_BOOL + 1)}};
    if (round.call.dtype == LS_BOOL && round.call.op == LS_MEAN) round.call.op = LS_MAX;
    if (round.call.dtype <= LS_BFLOAT16) {
        round.call.prescale = draw_factor(&state);
        round.call.postscale = draw_factor(&state);
    }
    round.count = draw(&state, MOST_ARRAYS + 1);
    round.together = draw(&state, 2);
    round.in_place = draw(&state, 2);
    for (size_t i = 0; i < round.count; i++) round.counts[i] = draw_list_count(&state, large);
    return round;
}

/* ---- what must come out ---- */

static double widen(ls_dtype dtype, const unsigned char *data, size_t i) {
    if (dtype == LS_FLOAT64) return ((const double *)(const void *)data)[i];
    if (dtype == LS_FLOAT32) return (double)((const float *)(const void *)data)[i];
    uint16_t bits = ((const uint16_t *)(const void *)data)[i];
    return (double)(dtype == LS_FLOAT16 ? ls_half_to_float(bits) : ls_half_bfloat16_to_float(bits));
}

/* One element after the other, as the definition has it. */
static void scale_all(ls_dtype dtype, unsigned char *data, size_t count, double factor) {
    if (factor == 0 || factor == 1) return;
    for (size_t i = 0; i < count; i++) {
        double wide = widen(dtype, data, i) * factor;
        float single = (float)widen(dtype, data, i) * (float)factor;
        uint16_t half = dtype == LS_FLOAT16 ? ls_half_from_float(single) : ls_half_bfloat16_from_float(single);
        if (dtype == LS_FLOAT64) memcpy(data + 8 * i, &wide, 8);
        if (dtype == LS_FLOAT32) memcpy(data + 4 * i, &single, 4);
        if (dtype == LS_FLOAT16 || dtype == LS_BFLOAT16) memcpy(data + 2 * i, &half, 2);
    }
}

static void expect_array(struct round *round, int size, size_t index) {
    int first[MAX_RANKS + 1];
    unsigned char *scaled[MAX_RANKS];
    size_t count = round->counts[index], bytes = count * ls_dtype_size(round->call.dtype);
    for (int rank = 0; rank < size; rank++) {
        scaled[rank] = malloc(bytes + 1);
        memcpy(scaled[rank], round->inputs[rank][index], bytes);
        scale_all(round->call.dtype, scaled[rank], count, round->call.prescale);
        first[rank] = rank;
    }
    first[size] = size;
    const struct oracle oracle = {round->call.communication, round->call.op, round->call.dtype, count, size, first};
    oracle_all_reduce(&oracle, scaled, round->expected[index]);
    scale_all(round->call.dtype, round->expected[index], count, round->call.postscale);
    for (int rank = 0; rank < size; rank++) free(scaled[rank]);
}

static void prepare(struct context *context, int size, uint64_t number) {
    context->round = draw_round(context->seed + number, context->large);
    struct round *round = &context->round;
    for (size_t i = 0; i < round->count; i++) {
        size_t bytes = round->counts[i] * ls_dtype_size(round->call.dtype);
        round->expected[i] = malloc(bytes + 1);
        for (int rank = 0; rank < size; rank++) {
            round->inputs[rank][i] = malloc(bytes + 1);
            oracle_fill(round->call.dtype, round->inputs[rank][i], round->counts[i],
                        (context->seed + number) * 4096 + i * 64 + (uint64_t)rank);
        }
        expect_array(round, size, i);
    }
}

static void drop(struct round *round, int size) {
    for (size_t i = 0; i < round->count; i++) {
        free(round->expected[i]);
        for (int rank = 0; rank < size; rank++) free(round->inputs[rank][i]);
    }
}

/* ---- a rank's call ---- */

/* Arrays one behind the other, or with a line between them. */
static unsigned char *lay_out(const struct round *round, unsigned char *memory, void **arrays) {
    unsigned char *at = memory;
    for (size_t i = 0; i < round->count; i++) {
        arrays[i] = at;
        at += round->counts[i] * ls_dtype_size(round->call.dtype);
        if (!round->together) at += 64 - (size_t)(at - memory) % 64 + (i & 1) * 64;
    }
    return at;
}

static size_t memory_of(const struct round *round) {
    size_t bytes = 64;
    for (size_t i = 0; i < round->count; i++) bytes += round->counts[i] * ls_dtype_size(round->call.dtype) + 192;
    return bytes;
}

static ls_status call_list(struct rank *rank) {
    const struct context *context = rank->context;
    const struct round *round = &context->round;
    void *from[MOST_ARRAYS], *to[MOST_ARRAYS];
    unsigned char *memory = aligned_alloc(64, (memory_of(round) + 63) / 64 * 128);
    memset(memory, 0xEE, (memory_of(round) + 63) / 64 * 128);
    unsigned char *end = lay_out(round, memory, from);
    if (round->in_place)
        memcpy(to, from, sizeof(to));
    else
        (void)lay_out(round, memory + (size_t)(end - memory + 63) / 64 * 64, to);
    size_t element = ls_dtype_size(round->call.dtype);
    for (size_t i = 0; i < round->count; i++) memcpy(from[i], round->inputs[rank->rank][i], round->counts[i] * element);
    const struct ls_all_reduce_list list = {.call = round->call,
                                            .count = round->count,
                                            .counts = round->counts,
                                            .inputs = (const void *const *)from,
                                            .outputs = to};
    ls_status status = ls_group_all_reduce_list(rank->group, &list);
    for (size_t i = 0; !status && i < round->count; i++) {
        size_t at = oracle_compare(round->call.dtype, round->expected[i], to[i], round->counts[i]);
        if (at != round->counts[i])
            ck_abort_msg("rank %d of %d: array %zu of %zu, %s, op %d, communication %d: element %zu of %zu differs",
                         rank->rank, rank->size, i, round->count, ls_dtype_name(round->call.dtype), round->call.op,
                         round->call.communication, at, round->counts[i]);
        if (!round->in_place && memcmp(from[i], round->inputs[rank->rank][i], round->counts[i] * element) != 0)
            ck_abort_msg("input %zu is changed", i);
    }
    free(memory);
    return status;
}

static ls_status call_lists(struct rank *rank) {
    struct context *context = rank->context;
    ls_status status = LS_OK;
    for (uint64_t number = 0; number < ROUNDS && !status; number++) {
        (void)pthread_barrier_wait(rank->barrier);
        if (!rank->rank) prepare(context, rank->size, number);
        (void)pthread_barrier_wait(rank->barrier);
        status = call_list(rank);
        (void)pthread_barrier_wait(rank->barrier);
        if (!rank->rank) drop(&context->round, rank->size);
    }
    return status;
}

TEST_EACH(each_array_gets_the_bits_it_gets_alone, 5) {
    static const enum wire wires[] = {WIRE_LOCAL, WIRE_TCP, WIRE_ODD, WIRE_RING, WIRE_SHARED};
    for (int size = 1; size <= 8; size++) {
        struct world_options options = {.size = size, .wire = wires[_i], .timeout = 120};
        struct context context = {.seed = (uint64_t)(size * 1000 + _i * 100), .large = wires[_i] != WIRE_ODD};
        struct world world;
        if (SANITIZED && size > 4) break;
        world_run(&options, call_lists, &context, &world);
        world_expect_ok(&world, size);
    }
}

/* Two hosts of two and three ranks. */
TEST(lists_cross_hosts) {
    static const int hosts[] = {0, 0, 1, 1, 1};
    struct world_options options = {.size = 5, .wire = WIRE_SHARED, .timeout = 120, .hosts = hosts};
    struct context context = {.seed = 77, .large = true};
    struct world world;
    world_run(&options, call_lists, &context, &world);
    world_expect_ok(&world, 5);
}

/* ---- refusals ---- */

static ls_status call_differently(struct rank *rank) {
    float data[8] = {0};
    const void *inputs[3] = {data, data + 2, data + 4};
    void *outputs[3] = {data, data + 2, data + 4};
    const size_t counts[2][3] = {{2, 2, 4}, {2, 4, 2}};
    const struct ls_all_reduce_list list = {
        .call = {.name = "lists"}, .count = 3, .counts = counts[rank->rank == 1], .inputs = inputs, .outputs = outputs};
    return ls_group_all_reduce_list(rank->group, &list);
}

TEST(lists_that_differ_are_named) {
    for (int wire = WIRE_LOCAL; wire <= WIRE_SHARED; wire++) {
        struct world_options options = {.size = 3, .wire = (enum wire)wire};
        struct world world;
        world_run(&options, call_differently, NULL, &world);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(world.ranks[i].status, LS_INVALID_ARGUMENT);
            ck_assert_msg(strstr(world.ranks[i].error, "layout") != NULL, "%s", world.ranks[i].error);
            ck_assert_msg(strstr(world.ranks[i].error, "'lists'") != NULL, "%s", world.ranks[i].error);
        }
    }
}

static void expect_refused(const struct ls_all_reduce_list *list, const char *message) {
    struct ls_abort *abort;
    struct ls_group *group;
    assert_ok(ls_abort_new(&abort));
    assert_ok(ls_group_new(&(struct ls_group_config){.size = 1, .abort = abort}, &group));
    assert_refused(ls_group_all_reduce_list(group, list), message);
    ck_assert(!ls_abort_raised(abort)); /* the call has not happened */
    ls_group_free(group);
    ls_abort_free(abort);
}
#define REFUSED(field, value, message)                                                                                 \
    do {                                                                                                               \
        struct ls_all_reduce_list bad = good;                                                                          \
        bad.field = value;                                                                                             \
        expect_refused(&bad, message);                                                                                 \
    } while (0)

TEST(bad_lists_and_factors_are_named) {
    float data[2] = {0};
    const void *inputs[2] = {data, data + 1}, *some_inputs[2] = {data, NULL};
    void *outputs[2] = {data, data + 1}, *some_outputs[2] = {data, NULL};
    const size_t counts[2] = {1, 1}, many[2] = {SIZE_MAX, 1}, large[2] = {1, SIZE_MAX / 2};
    const struct ls_all_reduce_list good = {
        .call = {.name = "x"}, .count = 2, .counts = counts, .inputs = inputs, .outputs = outputs};
    REFUSED(call.name, NULL, "name");
    REFUSED(call.op, (ls_reduce_op)99, "op");
    REFUSED(call.dtype, (ls_dtype)99, "dtype");
    REFUSED(counts, NULL, "counts");
    REFUSED(inputs, NULL, "inputs");
    REFUSED(outputs, NULL, "outputs");
    REFUSED(inputs, some_inputs, "inputs[1]");
    REFUSED(outputs, some_outputs, "outputs[1]");
    REFUSED(counts, many, "overflows at array 1");
    REFUSED(counts, large, "memory");
    REFUSED(call.prescale, (double)NAN, "prescale");
    REFUSED(call.postscale, (double)INFINITY, "postscale");
    struct ls_all_reduce_list whole = good;
    whole.call.dtype = LS_INT32;
    whole.call.prescale = 0.5;
    expect_refused(&whole, "prescale 0.5 is for floats, not for int32");
    whole.call.prescale = 1;
    whole.call.postscale = 2;
    expect_refused(&whole, "postscale 2 is for floats, not for int32");
}

TESTS("collective/list", .seconds = 200)
