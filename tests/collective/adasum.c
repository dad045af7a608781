/* Adasum: every kind of link and memory, 1 to 8 ranks, all floats, random sizes, alone and in a list, against the
 * definition in float64; the same bits on all ranks.
 *
 * LOCKSTEP_TEST_SEED=N repeats a run. */
#include "collective/collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "base/half.h"
#include "base/random.h"
#include "collective/world.h"
#include "harness.h"

enum { MOST = 8, WAYS = 4, ROUNDS = SANITIZED ? 4 : 12, LONGEST = 3000, ARRAYS = 3 };

static const int pairs[] = {0, 0, 1, 1, 2, 2, 3, 3};
static const enum ls_dtype floats[] = {LS_FLOAT32, LS_FLOAT64, LS_FLOAT16, LS_BFLOAT16};
static uint64_t seed;
/* [rank][array][element]: the arrays after the call. */
static double results[MOST][ARRAYS][LONGEST];

static struct world_options way_of(int way, int size) {
    static const enum wire wires[WAYS] = {WIRE_LOCAL, WIRE_TCP, WIRE_ODD, WIRE_SHARED};
    struct world_options options = {.size = size, .wire = wires[way], .timeout = 60};
    if (way == 2) options.segment = 1000;
    if (way == 3) options.hosts = pairs;
    return options;
}

static double load(ls_dtype dtype, const void *data, size_t at) {
    if (dtype == LS_FLOAT64) return ((const double *)data)[at];
    if (dtype == LS_FLOAT32) return (double)((const float *)data)[at];
    uint16_t bits = ((const uint16_t *)data)[at];
    return (double)(dtype == LS_FLOAT16 ? ls_half_to_float(bits) : ls_half_bfloat16_to_float(bits));
}

static void store(ls_dtype dtype, void *data, size_t at, double value) {
    if (dtype == LS_FLOAT64) ((double *)data)[at] = value;
    if (dtype == LS_FLOAT32) ((float *)data)[at] = (float)value;
    if (dtype == LS_FLOAT16) ((uint16_t *)data)[at] = ls_half_from_float((float)value);
    if (dtype == LS_BFLOAT16) ((uint16_t *)data)[at] = ls_half_bfloat16_from_float((float)value);
}

/* A multiple of 1/128 below 1 that all types hold; rank 3 gives zeros in some rounds. */
static double value_of(int round, int array, int rank, size_t at) {
    uint64_t bits = ls_random_bits(seed, (uint64_t)(round * 64 + array * 16 + rank), at);
    if (rank == 3 && round % 3 == 0) return 0;
    return (double)((int)(bits % 255) - 127) / 128 + (double)(array == 2) / 2;
}

static size_t count_of(int round, int array) {
    static const size_t edges[] = {0, 1, 7, 8, 9, LONGEST};
    uint64_t bits = ls_random_bits(seed, 1000, (uint64_t)(round * ARRAYS + array));
    return bits % 3 ? (size_t)(bits >> 8) % LONGEST : edges[(bits >> 8) % 6];
}

/* The definition: vectors of ranks low to high - 1, combined in halves. */
static void define(int round, int array, int low, int high, size_t count, double *out) {
    double *right = calloc(LONGEST, sizeof(*right)), ab = 0, aa = 0, bb = 0;
    ck_assert_ptr_nonnull(right);
    if (high - low == 1) {
        for (size_t i = 0; i < count; i++) out[i] = value_of(round, array, low, i);
    } else {
        define(round, array, low, (low + high) / 2, count, out);
        define(round, array, (low + high) / 2, high, count, right);
        for (size_t i = 0; i < count; i++) {
            ab += out[i] * right[i];
            aa += out[i] * out[i];
            bb += right[i] * right[i];
        }
        for (size_t i = 0; i < count; i++)
            out[i] = (aa > 0 ? 1 - ab / aa / 2 : 1) * out[i] + (bb > 0 ? 1 - ab / bb / 2 : 1) * right[i];
    }
    free(right);
}

static void compare(int round, int size, ls_dtype dtype) {
    static double wanted[LONGEST];
    double slack = dtype == LS_FLOAT64 ? 1e-12 : dtype == LS_FLOAT32 ? 1e-5 : dtype == LS_FLOAT16 ? 1e-2 : 0.08;
    for (int array = 0; array < ARRAYS; array++) {
        size_t count = count_of(round, array);
        define(round, array, 0, size, count, wanted);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(fabs(results[0][array][i] - wanted[i]) <= slack * size,
                          "seed %llu, round %d, %d ranks, %s: element %zu of array %d is %.17g, not %.17g",
                          (unsigned long long)seed, round, size, ls_dtype_name(dtype), i, array, results[0][array][i],
                          wanted[i]);
        for (int rank = 1; rank < size; rank++)
            ck_assert_mem_eq(results[rank][array], results[0][array], count * sizeof(double));
    }
}

/* The first array alone and scaled back and forth, by powers of two; the others in a list. */
static ls_status reduce_round(struct rank *rank, int round) {
    ls_dtype dtype = floats[round % 4];
    uint64_t memory[ARRAYS][LONGEST];
    void *outputs[ARRAYS];
    size_t counts[ARRAYS];
    for (int array = 0; array < ARRAYS; array++) {
        outputs[array] = memory[array];
        counts[array] = count_of(round, array);
        for (size_t i = 0; i < counts[array]; i++)
            store(dtype, memory[array], i, value_of(round, array, rank->rank, i));
    }
    const void *input = outputs[0];
    struct ls_all_reduce call = {.name = "gradients",
                                 .op = LS_ADASUM,
                                 .dtype = dtype,
                                 .count = counts[0],
                                 .prescale = 2,
                                 .postscale = 0.5,
                                 .inputs = &input,
                                 .outputs = outputs};
    struct ls_all_reduce_list list = {.call = {.name = "list", .op = LS_ADASUM, .dtype = dtype},
                                      .count = 2,
                                      .counts = counts + 1,
                                      .inputs = (const void *const *)outputs + 1,
                                      .outputs = outputs + 1};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    if (!status) status = ls_group_all_reduce_list(rank->group, &list);
    for (int array = 0; array < ARRAYS; array++)
        for (size_t i = 0; i < counts[array]; i++) results[rank->rank][array][i] = load(dtype, memory[array], i);
    return status;
}

static ls_status reduce_one(struct rank *rank) {
    return reduce_round(rank, *(const int *)rank->context);
}

TEST_EACH(all_ranks_get_the_bits_of_the_definition, WAYS) {
    seed = first_seed();
    for (int size = 1; size <= MOST; size *= 2)
        for (int round = 0; round < ROUNDS; round++) {
            struct world_options options = way_of(_i, size);
            struct world world;
            world_run(&options, reduce_one, &round, &world);
            world_expect_ok(&world, size);
            compare(round, size, floats[round % 4]);
        }
}

/* ---- what it is for, and what it refuses ---- */

static ls_status reduce_two(struct rank *rank) {
    float *vector = (float *)rank->context + (ptrdiff_t)2 * rank->rank;
    const void *input = vector;
    void *output = vector;
    struct ls_all_reduce call = {
        .name = "v", .op = LS_ADASUM, .dtype = LS_FLOAT32, .count = 2, .inputs = &input, .outputs = &output};
    return ls_group_all_reduce(rank->group, &call);
}

TEST(gradients_alike_are_averaged_and_others_added) {
    static const struct {
        float given[4], wanted[2];
    } cases[] = {{{3, 4, 3, 4}, {3, 4}}, {{2, 0, 0, 5}, {2, 5}}, {{0, 0, 0, 5}, {0, 5}},
                 {{0, 0, 0, 0}, {0, 0}}, {{4, 0, 2, 0}, {3, 0}}, {{1, 0, -1, 0}, {0, 0}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        float data[4];
        memcpy(data, cases[i].given, sizeof(data));
        struct world_options options = way_of(0, 2);
        struct world world;
        world_run(&options, reduce_two, data, &world);
        world_expect_ok(&world, 2);
        for (int k = 0; k < 4; k++) ck_assert_float_eq(data[k], cases[i].wanted[k % 2]);
    }
}

TEST(three_ranks_are_refused) {
    float data[6] = {0};
    struct world_options options = way_of(0, 3);
    struct world world;
    world_run(&options, reduce_two, data, &world);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "power of two of ranks, not for 3"));
    }
}

TEST(integers_and_compression_are_refused) {
    assert_refused(ls_adasum_check("v", LS_INT32), "adasum is for floats, not for int32");
    ck_assert_int_eq(ls_adasum_check("v", LS_BOOL), LS_INVALID_ARGUMENT);
    struct ls_all_reduce call = {.name = "v", .op = LS_ADASUM, .dtype = LS_FLOAT32, .compression = LS_COMPRESS_FP16};
    assert_refused(ls_group_all_reduce_check(&call), "not for adasum");
}

TESTS("collective/adasum", .seconds = 120)
