/* lockstep bench --check: each rank computes by itself what the collective must give, bit for bit, with the oracle of
 * bench/oracle.h. The values keep away from what no order defines: there is no NaN and no negative zero.
 * NCCL's order is its own: what it adds are whole numbers, so few and so small that no sum is rounded. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/oracle.h"
#include "cli/bench.h"

/* Elements of one block at a time. */
struct piece {
    const struct bench_check *check;
    struct oracle oracle;
    unsigned char **rows; /* [size] of ORACLE_BLOCK elements: the input of each rank */
};

/* ---- what a rank gives ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Brings values of about 1 down to the denormals of the type. */
static double denormal_scale(ls_dtype dtype) {
    if (dtype == LS_FLOAT64) return 0x1p-1060;
    return dtype == LS_FLOAT16 ? 0x1p-20 : dtype == LS_BFLOAT16 ? 0x1p-130 : 0x1p-140;
}

static double give_number(const struct bench_options *options, uint64_t random, size_t index) {
    /* up to this value, either sign, sums of 128 ranks are whole numbers of the type */
    uint64_t limit = options->dtype == LS_BFLOAT16 ? 2 : options->dtype == LS_FLOAT16 ? 16 : 1 << 16;
    if (options->communication == LS_NCCL) return (double)(random % (2 * limit + 1)) - (double)limit;
    bool times = options->op == LS_PRODUCT; /* of numbers about 1, or 0 and infinity might meet */
    int exponent = times ? (int)(random & 1) - 1 : (int)(random & 15) - 8;
    double value = ldexp(1 + (double)(random >> 12) * 0x1p-52, exponent);
    if (!times && !(mix((uint64_t)index) & 15)) value *= denormal_scale(options->dtype);
    if (random & 16) value = -value;
    return options->dtype == LS_FLOAT64 ? value : (double)(float)value;
}

/* Integers of the whole range; floats of both signs from 2^-8 to 2^8, so that the order of addition shows, and at
 * every sixteenth index or so denormals, on all ranks. */
static void give(const struct bench_options *options, int rank, size_t start, size_t count, unsigned char *elements) {
    union oracle_values values;
    for (size_t i = 0; i < count; i++) {
        uint64_t random = mix(mix((uint64_t)rank + 1) + UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(start + i));
        if (options->dtype >= LS_INT32)
            values.integers[i] = (int64_t)random;
        else
            values.numbers[i] = give_number(options, random, start + i);
    }
    oracle_round(options->dtype, count, &values);
    for (size_t i = 0; i < count && options->dtype < LS_INT32; i++)
        if (values.numbers[i] == 0) values.numbers[i] = 0;
    oracle_store(options->dtype, elements, count, &values);
}

/* ---- the collectives ---- */

static int64_t count_different(size_t size, const unsigned char *right, const unsigned char *elements, size_t count) {
    int64_t different = 0;
    for (size_t i = 0; i < count; i++) different += memcmp(right + i * size, elements + i * size, size) != 0;
    return different;
}

static void reduce(const struct piece *piece, int block, size_t start, size_t count, unsigned char *right) {
    const struct bench_options *options = piece->check->options;
    int begin = block + (options->collective == BENCH_REDUCE_SCATTER);
    for (int rank = 0; rank < piece->check->size; rank++) give(options, rank, start, count, piece->rows[rank]);
    oracle_reduce(&piece->oracle, begin, piece->rows, 0, count, right);
}

/* The right result of elements that lie in a block. In an all-to-all the block is who they come from. */
static void right_result(const struct piece *piece, int block, size_t start, size_t count, unsigned char *right) {
    const struct bench_check *check = piece->check;
    switch (check->options->collective) {
    case BENCH_BROADCAST:
        give(check->options, 0, start, count, right);
        return;
    case BENCH_ALL_GATHER:
    case BENCH_ALL_TO_ALL:
        give(check->options, block, start, count, right);
        return;
    case BENCH_SEND_RECEIVE:
        give(check->options, (check->rank + check->size - 1) % check->size, start, count, right);
        return;
    default:
        reduce(piece, block, start, count, right);
    }
}

/* The number of wrong ones among elements [start, end), which are output's first. */
static int64_t check_part(const struct piece *piece, int block, size_t start, size_t end, const unsigned char *output) {
    unsigned char right[ORACLE_BLOCK * sizeof(int64_t)];
    size_t size = ls_dtype_size(piece->check->options->dtype), count;
    int64_t wrong = 0;
    for (size_t at = start; at < end; at += count) {
        count = end - at < ORACLE_BLOCK ? end - at : ORACLE_BLOCK;
        right_result(piece, block, at, count, right);
        wrong += count_different(size, right, output + (at - start) * size, count);
    }
    return wrong;
}

/* ---- for the runner ---- */

size_t bench_part_start(size_t count, int size, int rank) {
    size_t parts = (size_t)size, at = (size_t)rank, longer = count % parts;
    return count / parts * at + (at < longer ? at : longer);
}

void bench_check_fill(const struct bench_check *check, int rank, size_t start, size_t count, void *elements) {
    size_t size = ls_dtype_size(check->options->dtype);
    for (size_t at = 0; at < count; at += ORACLE_BLOCK)
        give(check->options, rank, start + at, count - at < ORACLE_BLOCK ? count - at : ORACLE_BLOCK,
             (unsigned char *)elements + at * size);
}

static int64_t check_blocks(const struct piece *piece, size_t count, const unsigned char *output) {
    const struct bench_check *check = piece->check;
    enum bench_collective collective = check->options->collective;
    int64_t wrong = 0;
    for (int block = 0; block < check->size; block++) {
        int part = collective == BENCH_ALL_TO_ALL ? check->rank : block; /* each rank sends its part for this one */
        size_t start = bench_part_start(count, check->size, part), end = bench_part_start(count, check->size, part + 1);
        if (collective == BENCH_REDUCE_SCATTER && block != check->rank) continue;
        wrong += check_part(piece, block, start, end, output);
        output += (end - start) * ls_dtype_size(check->options->dtype);
    }
    return wrong;
}

int64_t bench_check_result(const struct bench_check *check, size_t count, const void *output) {
    const struct bench_options *options = check->options;
    size_t size = (size_t)check->size;
    struct piece piece = {.check = check,
                          .oracle = {.communication = options->communication,
                                     .op = options->op,
                                     .dtype = options->dtype,
                                     .size = check->size,
                                     .compression = check->compression,
                                     .hosts = check->by_host ? check->hosts : NULL},
                          .rows = calloc(size, sizeof(*piece.rows))};
    unsigned char *elements = malloc(size * ORACLE_BLOCK * sizeof(int64_t));
    for (size_t i = 0; piece.rows && elements && i < size; i++)
        piece.rows[i] = elements + i * ORACLE_BLOCK * sizeof(int64_t);
    int64_t wrong = piece.rows && elements ? check_blocks(&piece, count, output) : -1;
    free(elements);
    free(piece.rows);
    return wrong;
}

int64_t bench_check_input(const struct bench_check *check, size_t start, size_t count, const void *elements) {
    size_t size = ls_dtype_size(check->options->dtype);
    unsigned char given[ORACLE_BLOCK * sizeof(int64_t)];
    int64_t changed = 0;
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < ORACLE_BLOCK ? count - at : ORACLE_BLOCK;
        give(check->options, check->rank, start + at, some, given);
        changed += count_different(size, given, (const unsigned char *)elements + at * size, some);
    }
    return changed;
}
