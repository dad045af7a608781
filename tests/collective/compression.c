/* Compression: the conversions against base's, all-reduces in bits against an oracle that rounds as it is written, the
 * bounds of the error, what overflows and what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"
#include "collective/collectives.h"
#include "collective/schedule/convert.h"
#include "collective/table.h"
#include "harness.h"

static const ls_compression compressions[] = {LS_COMPRESS_FP16, LS_COMPRESS_BF16};
enum { COMPRESSIONS = 2, FP16 = 0 };

/* ---- conversions ---- */

static uint16_t narrow_one(int which, float value) {
    return which == FP16 ? ls_half_from_float(value) : ls_half_bfloat16_from_float(value);
}

static float widen_one(int which, uint16_t value) {
    return which == FP16 ? ls_half_to_float(value) : ls_half_bfloat16_to_float(value);
}

TEST_EACH(every_value_widens_and_comes_back, COMPRESSIONS) {
    const unsigned all = 1U << 16;
    const struct ls_conversion *conversion = ls_convert_find(compressions[_i]);
    uint16_t *from = calloc(all, sizeof(*from)), *back = calloc(all, sizeof(*back));
    float *wide = calloc(all, sizeof(*wide));
    ck_assert(from && back && wide);
    for (unsigned i = 0; i < all; i++) from[i] = (uint16_t)i;
    conversion->widen(wide, from, all);
    conversion->narrow(back, wide, all);
    unsigned wrong = 0;
    for (unsigned i = 0; i < all; i++) {
        float right = widen_one(_i, from[i]);
        bool nan = isnan(right);
        if (memcmp(&right, &wide[i], sizeof(right)) != 0 && !(nan && isnan(wide[i]))) wrong++;
        if (nan ? !isnan(widen_one(_i, back[i])) : back[i] != from[i]) wrong++;
    }
    ck_assert_uint_eq(wrong, 0);
    free(from);
    free(back);
    free(wide);
}

/* Bit patterns of every exponent, and the neighbours of every tie. */
static float pattern(size_t i, uint64_t random) {
    uint32_t bits = (uint32_t)random;
    if (i % 2) bits = (bits & 0xFFFFE000U) | (uint32_t[]){0x1000, 0xFFF, 0x1001, 0x0}[i / 2 % 4];
    if (i % 3 == 0) bits = (bits & 0xFFFF0000U) | (uint32_t[]){0x8000, 0x7FFF, 0x8001, 0xFFFF}[i / 3 % 4];
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Counts that end in the middle of a vector register too. */
TEST_EACH(narrowing_rounds_to_nearest_even, COMPRESSIONS) {
    enum { COUNT = SANITIZED ? 1 << 16 : 1 << 20 };
    const struct ls_conversion *conversion = ls_convert_find(compressions[_i]);
    float *from = calloc(COUNT, sizeof(*from));
    uint16_t *to = calloc(COUNT + 1, sizeof(*to));
    ck_assert(from && to);
    for (size_t i = 0; i < COUNT; i++) from[i] = pattern(i, ls_random_bits(7, 1, i));
    for (size_t count = COUNT; count; count = count > 40 ? 40 : count - 1) {
        unsigned wrong = 0;
        to[count] = 0xBEEF;
        conversion->narrow(to, from, count);
        for (size_t i = 0; i < count; i++) wrong += to[i] != narrow_one(_i, from[i]);
        ck_assert_uint_eq(wrong, 0);
        ck_assert_uint_eq(to[count], 0xBEEF);
    }
    free(from);
    free(to);
}

/* ---- all-reduce, in bits ---- */

static const int even[] = {0, 1, 2, 3, 4, 5};
static const int uneven[5][6] = {{0, 3}, {0, 1, 3}, {0, 3, 4, 6}, {0, 2, 3, 6, 7}, {0, 1, 3, 6, 7, 9}};
static const enum ls_algorithm algorithms[] = {LS_ALGORITHM_AUTO, LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT};
enum { ALGORITHMS = 3, WORKERS = SANITIZED ? 3 : 5 };

static void run_tables(struct world_options *options, struct table *table) {
    for (int which = 0; which < COMPRESSIONS; which++)
        for (int i = 0; i < ALGORITHMS; i++) {
            options->algorithm = algorithms[i];
            table->order = i ? TREE : BOTH;
            table->compression = compressions[which];
            table_run(options, table);
            ck_assert_uint_gt(table->cases, 0);
        }
}

TEST_EACH(every_algorithm_rounds_alike, WORKERS) {
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 6, 64, 1000, MANY(20011)};
    struct world_options options = {.size = _i + 1};
    struct table table = {.first = even, COUNTS(counts), .in_memory = _i == 0};
    run_tables(&options, &table);
    table.first = uneven[_i];
    run_tables(&options, &table);
}

/* Sends and receives end in the middle of elements; segments are small. */
TEST_EACH(over_links_that_move_odd_bytes, WORKERS - 1) {
    static const size_t counts[] = {1, 9, 1001, MANY(24007)};
    struct world_options options = {.size = _i + 2, .wire = WIRE_ODD, .segment = 1000};
    struct table table = {.first = uneven[_i + 1], COUNTS(counts)};
    run_tables(&options, &table);
}

TEST_EACH(large_counts_over_tcp, SANITIZED ? 1 : 2) {
    static const size_t counts[] = {MANY(300001)};
    struct world_options options = {.size = _i + 2, .wire = WIRE_TCP, .segment = 16384};
    struct table table = {.first = uneven[_i + 1], COUNTS(counts)};
    run_tables(&options, &table);
}

/* AUTO goes through memory, the rest over links. */
TEST_EACH(nothing_is_rounded_in_shared_memory, COMPRESSIONS) {
    static const size_t counts[] = {5, 4099};
    struct world_options options = {.size = 3, .wire = WIRE_SHARED};
    struct table table = {
        .first = uneven[2], COUNTS(counts), .compression = compressions[_i], .in_memory = true, .order = TREE};
    table_run(&options, &table);
    table.in_memory = false;
    table.order = CHAIN;
    table_run(&options, &table);
    options.algorithm = LS_ALGORITHM_DIRECT;
    table.order = TREE;
    table_run(&options, &table);
}

/* A host's partial results are rounded together, by AUTO too, whatever it measured. */
TEST_EACH(hosts_round_together, 3) {
    static const int hosts[][5] = {{0, 0, 1, 1, 1}, {0, 1, 0, 2, 1}, {1, 0, 0, 0, 0}};
    static const size_t counts[] = {1, 9, 1000, MANY(70001)};
    struct world_options options = {.size = 5, .wire = WIRE_SHARED, .hosts = hosts[_i]};
    struct table table = {.first = uneven[4], COUNTS(counts), .order = TREE, .hosts = hosts[_i]};
    for (int which = 0; which < COMPRESSIONS; which++) {
        table.compression = compressions[which];
        table_run(&options, &table);
    }
    options.algorithm = LS_ALGORITHM_DIRECT; /* does not see hosts */
    table.hosts = NULL;
    table_run(&options, &table);
}

/* ---- errors and ranges ---- */

enum { SIZE = 5, COUNT = 5000 };
struct sums {
    ls_compression compression;
    ls_communication communication;
    ls_reduce_op op;
    float (*value)(int rank, size_t index);
    float results[SIZE][COUNT];
};

static ls_status add(struct rank *rank) {
    struct sums *sums = rank->context;
    float *data = sums->results[rank->rank];
    const void *input = data;
    void *output = data;
    for (size_t i = 0; i < COUNT; i++) data[i] = sums->value(rank->rank, i);
    const struct ls_all_reduce call = {.name = "sums",
                                       .communication = sums->communication,
                                       .op = sums->op,
                                       .dtype = LS_FLOAT32,
                                       .count = COUNT,
                                       .compression = sums->compression,
                                       .inputs = &input,
                                       .outputs = &output};
    return ls_group_all_reduce(rank->group, &call);
}

static void run_sums(struct sums *sums) {
    struct world_options options = {.size = SIZE};
    struct world world;
    world_run(&options, add, sums, &world);
    world_expect_ok(&world, SIZE);
    for (int i = 1; i < SIZE; i++) ck_assert_mem_eq(sums->results[i], sums->results[0], sizeof(sums->results[0]));
}

/* From 2^-20 to 2^12, both signs: fp16's denormals too. */
static float wide_value(int rank, size_t index) {
    uint64_t bits = ls_random_bits(3, (uint64_t)rank, index);
    return (float)ldexp((double)(int64_t)bits * 0x1p-63, (int)(bits % 33) - 20);
}

/* |error| <= ((1 + u)^k - 1) sum |x| + k d, and what float32's additions add. */
static double bound(const struct sums *sums, double magnitudes) {
    bool fp16 = sums->compression == LS_COMPRESS_FP16;
    double u = fp16 ? 0x1p-11 : 0x1p-8, denormal = fp16 ? 0x1p-25 : 0x1p-134;
    int rounds = sums->communication == LS_RING ? SIZE : 2;
    double absolute = (sums->communication == LS_RING ? SIZE : SIZE + 1) * denormal;
    return (pow(1 + u, rounds) - 1) * magnitudes + absolute + SIZE * 0x1p-24 * magnitudes * 1.01;
}

static void check_bound(const struct sums *sums) {
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0, magnitudes = 0, n = sums->op == LS_MEAN ? SIZE : 1;
        for (int rank = 0; rank < SIZE; rank++) sum += (double)sums->value(rank, i);
        for (int rank = 0; rank < SIZE; rank++) magnitudes += fabs((double)sums->value(rank, i));
        double error = fabs((double)sums->results[0][i] - sum / n), limit = bound(sums, magnitudes) / n;
        limit += sums->op == LS_MEAN ? 0x1p-25 + 0x1p-24 * magnitudes : 0; /* the mean is rounded, not the sum */
        if (error > limit) ck_abort_msg("element %zu: error %g, bound %g", i, error, limit);
        if (error / limit > worst) worst = error / limit;
    }
    ck_assert(worst > 0.05); /* the bound says something, and something was rounded */
}

TEST_EACH(errors_stay_within_the_bound, 8) {
    static struct sums sums;
    sums = (struct sums){.compression = compressions[_i & 1],
                         .communication = _i & 2 ? LS_RING : LS_AUTO,
                         .op = _i & 4 ? LS_MEAN : LS_SUM,
                         .value = wide_value};
    run_sums(&sums);
    check_bound(&sums);
}

/* By index: a sum that only float32 and bfloat16 hold; one that MEAN brings back; a part that is too large; infinity;
 * infinities that cancel to NaN; NaN; sums of what fp16 flushes to zero. */
static float special_value(int rank, size_t index) {
    static const float kinds[][2] = {{60000, 60000},        {30000, 30000}, {1e6F, 0},     {INFINITY, 1},
                                     {INFINITY, -INFINITY}, {NAN, 1},       {1e-8F, 1e-8F}};
    return rank < 2 ? kinds[index % 7][rank] : 0;
}

TEST_EACH(what_is_too_large_becomes_infinite, 8) {
    static struct sums sums;
    bool mean = _i & 2, fp16 = _i & 1;
    sums = (struct sums){.compression = fp16 ? LS_COMPRESS_FP16 : LS_COMPRESS_BF16,
                         .communication = _i & 4 ? LS_RING : LS_AUTO,
                         .op = mean ? LS_MEAN : LS_SUM,
                         .value = special_value};
    run_sums(&sums);
    const float *got = sums.results[0];
    double n = mean ? SIZE : 1;
    bool chain_overflows = fp16 && _i & 4; /* the partial 120000 crosses a link */
    if (fp16 && (!mean || chain_overflows))
        ck_assert(isinf(got[0]));
    else
        ck_assert(fabs(got[0] - 120000 / n) < 120000 / n / 100);
    ck_assert(fabs(got[1] - 60000 / n) < 60000 / n / 100);
    ck_assert(fp16 ? isinf(got[2]) : fabs(got[2] - 1e6 / n) < 1e4 / n);
    ck_assert(isinf(got[3]) && isnan(got[4]) && isnan(got[5]));
    ck_assert(fp16 ? got[6] == 0 : got[6] > 0);
}

/* ---- refusals ---- */

struct wrong_call {
    ls_compression compression;
    ls_reduce_op op;
    ls_dtype dtype;
    const char *message;
};
static const struct wrong_call wrong_calls[] = {
    {LS_COMPRESS_BF16, LS_SUM, LS_FLOAT64, "compression bf16 is for sum and mean of float32, not for sum of float64"},
    {LS_COMPRESS_FP16, LS_MAX, LS_FLOAT32, "compression fp16 is for sum and mean of float32, not for max of float32"},
    {LS_COMPRESS_FP16, LS_SUM, LS_INT32, "not for sum of int32"},
    {LS_COMPRESS_BF16, LS_MEAN, LS_BFLOAT16, "not for mean of bfloat16"},
    {(ls_compression)3, LS_SUM, LS_FLOAT32, "compression 3 is no ls_compression"},
};
enum { WRONG_CALLS = sizeof(wrong_calls) / sizeof(wrong_calls[0]) };

static ls_status call_wrongly(struct rank *rank) {
    const struct wrong_call *wrong = rank->context;
    double data = 0;
    const void *input = &data;
    void *output = &data;
    const struct ls_all_reduce call = {.name = "wrong",
                                       .op = wrong->op,
                                       .dtype = wrong->dtype,
                                       .count = 1,
                                       .compression = wrong->compression,
                                       .inputs = &input,
                                       .outputs = &output};
    return ls_group_all_reduce(rank->group, &call);
}

static void expect_refusal(const struct world *world, int size, const char *message) {
    for (int i = 0; i < size; i++) {
        ck_assert_int_eq(world->ranks[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(world->ranks[i].error, message) != NULL, "%s", world->ranks[i].error);
    }
}

TEST_EACH(other_types_and_ops_are_refused, WRONG_CALLS) {
    struct wrong_call wrong = wrong_calls[_i];
    struct world_options options = {.size = 1}; /* alone as well */
    struct world world;
    world_run(&options, call_wrongly, &wrong, &world);
    expect_refusal(&world, 1, wrong.message);
}

TEST(halving_cannot_compress) {
    static struct sums sums = {.compression = LS_COMPRESS_BF16, .value = wide_value};
    struct world_options options = {.size = 2, .algorithm = LS_ALGORITHM_HALVING};
    struct world world;
    world_run(&options, add, &sums, &world);
    expect_refusal(&world, 2, "algorithm halving-doubling cannot compress");
}

TESTS("collective/compression", .seconds = 120)
