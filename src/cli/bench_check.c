/* The oracle of lockstep bench --check: each rank computes by itself what the collective must give, bit for bit. It is
 * written from the definition, one addition after the other, and shares nothing with the library:
 *   auto  a binary tree over the ranks, split at the largest power of two below their number, the lower ranks left;
 *   ring  block b (count elements cut evenly, the first ones longer) is added from rank b on, around the ring; in a
 *         reduce-scatter from rank b + 1 on, so that it ends at its owner.
 * Sums are rounded to the type at every addition, those of 16-bit types from float32; mean divides the sum once. With
 * compression what a rank gives is rounded to it before it is added, in two levels the sum of a subtree whose ranks are
 * on one host, round the ring every sum before it goes to the next rank; and so is the result.
 * The values keep away from what no order defines: there is no NaN and no negative zero. NCCL's order is its own: what
 * it adds are whole numbers, so few and so small that no sum is rounded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

#define PIECE ((size_t)1024) /* elements that are computed at a time */

/* An element in a type wide enough to hold it: real for floats (always a value of the type itself), whole else. */
union number {
    double real;
    int64_t whole;
};

struct piece {
    const struct bench_options *options;
    const struct bench_check *check;
    int size;
    size_t start, count;
    union number *rows; /* [size][PIECE]: the input of each rank, later partial sums */
};

static bool is_whole(ls_dtype dtype) {
    return dtype >= LS_INT32;
}

static double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t to_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* ---- rounding ---- */

/* Rounds to so many significant bits, ties to even, and to a multiple of the smallest denormal of a type whose lowest
 * exponent is given. Adding and subtracting a large number leaves just these bits. */
static double round_to_bits(double value, int significant, int lowest) {
    int exponent = (int)(to_bits(value) >> 52 & 0x7FF) - 1023;
    if (exponent == 1024) return value;
    if (exponent < lowest) exponent = lowest;
    double large = from_bits((uint64_t)(exponent - significant + 1 + 52 + 1023) << 52 | UINT64_C(1) << 51);
    double rounded = value + large - large;
    return from_bits((to_bits(rounded) & INT64_MAX) | (to_bits(value) & ~(uint64_t)INT64_MAX)); /* keeps -0 */
}

static double infinite_from(double value, double limit) {
    if (value >= limit) return from_bits(UINT64_C(0x7FF) << 52);
    return value <= -limit ? from_bits(UINT64_C(0xFFF) << 52) : value;
}

static double round_real(ls_dtype dtype, double value) {
    switch (dtype) {
    case LS_FLOAT64:
        return value;
    case LS_FLOAT16:
        return infinite_from(round_to_bits((double)(float)value, 11, -14), 0x1p16);
    case LS_BFLOAT16:
        return infinite_from(round_to_bits((double)(float)value, 8, -126), 0x1p128);
    default:
        return (double)(float)value;
    }
}

static int64_t wrap(ls_dtype dtype, uint64_t value) {
    switch (dtype) {
    case LS_INT32:
        return (int32_t)(uint32_t)value;
    case LS_UINT8:
        return (uint8_t)value;
    case LS_INT8:
        return (int8_t)(uint8_t)value;
    default:
        return (int64_t)value;
    }
}

/* ---- what a rank gives ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Brings values of about 1 down to the denormals of the type. */
static double denormal_scale(ls_dtype dtype) {
    switch (dtype) {
    case LS_FLOAT64:
        return 0x1p-1060;
    case LS_FLOAT16:
        return 0x1p-20;
    case LS_BFLOAT16:
        return 0x1p-130;
    default:
        return 0x1p-140;
    }
}

/* Up to this value, either sign, sums of 128 ranks are whole numbers of the type. */
static uint64_t exact_limit(ls_dtype dtype) {
    return dtype == LS_BFLOAT16 ? 2 : dtype == LS_FLOAT16 ? 16 : 1 << 16;
}

/* Integers of the whole range; floats of both signs from 2^-8 to 2^8, so that the order of addition shows, and at
 * every sixteenth index or so denormals, on all ranks. */
static union number give(const struct bench_options *options, int rank, size_t index) {
    ls_dtype dtype = options->dtype;
    uint64_t random = mix(mix((uint64_t)rank + 1) + UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)index);
    if (dtype == LS_BOOL) return (union number){.whole = random & 1};
    if (is_whole(dtype)) return (union number){.whole = wrap(dtype, random)};
    uint64_t limit = exact_limit(dtype);
    if (options->communication == LS_NCCL)
        return (union number){.real = (double)(random % (2 * limit + 1)) - (double)limit};
    bool times = options->op == LS_PRODUCT; /* of numbers about 1, or 0 and infinity might meet */
    uint64_t exponent = times ? 1022 + (random & 1) : 1023 - 8 + (random & 15);
    double value = from_bits((random >> 12) | exponent << 52 | (random & 16) << 59);
    if (!times && !(mix((uint64_t)index) & 15)) value *= denormal_scale(dtype);
    value = round_real(dtype, value);
    return (union number){.real = value == 0 ? 0 : value};
}

/* ---- elements in memory ---- */

static uint16_t narrow(ls_dtype dtype, double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    if (dtype == LS_BFLOAT16) return (uint16_t)(bits >> 16);
    uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xFF, fraction = bits >> 13 & 0x3FF;
    if (exponent == 0xFF) return (uint16_t)(sign | 0x7C00);
    if (exponent > 127 - 15) return (uint16_t)(sign | (exponent - 112) << 10 | fraction);
    return (uint16_t)(sign | (uint32_t)((value < 0 ? -value : value) * 0x1p24)); /* the count of smallest denormals */
}

/* value is one of the type's own: nothing is rounded here. */
static void store(ls_dtype dtype, union number value, void *to) {
    float single = dtype == LS_FLOAT32 ? (float)value.real : 0;
    int32_t word = dtype == LS_INT32 ? (int32_t)value.whole : 0;
    uint8_t byte = dtype >= LS_UINT8 ? (uint8_t)value.whole : 0;
    uint16_t half = dtype == LS_FLOAT16 || dtype == LS_BFLOAT16 ? narrow(dtype, value.real) : 0;
    const void *from[] = {
        [LS_FLOAT32] = &single, [LS_FLOAT64] = &value, [LS_FLOAT16] = &half, [LS_BFLOAT16] = &half, [LS_INT32] = &word,
        [LS_INT64] = &value,    [LS_UINT8] = &byte,    [LS_INT8] = &byte,    [LS_BOOL] = &byte};
    memcpy(to, from[dtype], ls_dtype_size(dtype));
}

static int64_t count_different(ls_dtype dtype, const union number *values, const unsigned char *elements,
                               size_t count) {
    size_t size = ls_dtype_size(dtype);
    int64_t different = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char right[sizeof(union number)];
        store(dtype, values[i], right);
        different += memcmp(right, elements + i * size, size) != 0;
    }
    return different;
}

/* ---- the collectives ---- */

static union number combine_one(const struct bench_options *options, union number a, union number b) {
    bool whole = is_whole(options->dtype), less = whole ? b.whole < a.whole : b.real < a.real;
    bool greater = whole ? b.whole > a.whole : b.real > a.real;
    if (options->op == LS_MIN) return less ? b : a;
    if (options->op == LS_MAX) return greater ? b : a;
    bool times = options->op == LS_PRODUCT;
    uint64_t x = (uint64_t)a.whole, y = (uint64_t)b.whole;
    if (options->dtype == LS_BOOL) return (union number){.whole = times ? a.whole && b.whole : a.whole || b.whole};
    if (whole) return (union number){.whole = wrap(options->dtype, times ? x * y : x + y)};
    return (union number){.real = round_real(options->dtype, times ? a.real * b.real : a.real + b.real)};
}

static union number *row(const struct piece *piece, int rank) {
    return piece->rows + (size_t)rank * PIECE;
}

/* a = a op b, rank a's row and rank b's. */
static void combine(const struct piece *piece, int a, int b) {
    union number *to = row(piece, a);
    const union number *from = row(piece, b);
    for (size_t i = 0; i < piece->count; i++) to[i] = combine_one(piece->options, to[i], from[i]);
}

static void compress(const struct piece *piece, int rank) {
    union number *values = row(piece, rank);
    ls_dtype dtype = piece->check->compression == LS_COMPRESS_FP16 ? LS_FLOAT16 : LS_BFLOAT16;
    if (!piece->check->compression) return;
    for (size_t i = 0; i < piece->count; i++) values[i].real = round_real(dtype, values[i].real);
}

static bool on_one_host(const struct piece *piece, int low, int high) {
    if (high - low == 1) return true;
    if (!piece->check->by_host) return false;
    for (int rank = low + 1; rank < high; rank++)
        if (piece->check->hosts[rank] != piece->check->hosts[low]) return false;
    return true;
}

/* Folds the tree over ranks [low, high) into the row of low. A part of a sum that will be rounded is not rounded
 * itself. */
static void fold_tree(const struct piece *piece, int low, int high, bool part) {
    int left = 1;
    bool given = !part && on_one_host(piece, low, high);
    while (left * 2 < high - low) left *= 2;
    if (high - low > 1) {
        fold_tree(piece, low, low + left, part || given);
        fold_tree(piece, low + left, high, part || given);
        combine(piece, low, low + left);
    }
    if (given) compress(piece, low);
}

/* Once around the ring, into the row of first. */
static void fold_chain(const struct piece *piece, int first) {
    for (int step = 1; step < piece->size; step++) {
        compress(piece, first);
        combine(piece, first, (first + step) % piece->size);
    }
}

static void divide(const struct piece *piece, union number *values) {
    for (size_t i = 0; i < piece->count; i++) {
        if (is_whole(piece->options->dtype))
            values[i].whole /= piece->size;
        else
            values[i].real = round_real(piece->options->dtype, values[i].real / piece->size);
    }
}

static union number *fill_row(const struct piece *piece, int rank) {
    union number *values = row(piece, rank);
    for (size_t i = 0; i < piece->count; i++) values[i] = give(piece->options, rank, piece->start + i);
    return values;
}

static const union number *reduce(const struct piece *piece, int block) {
    bool ring = piece->options->communication == LS_RING;
    int first = ring ? (block + (piece->options->collective == BENCH_REDUCE_SCATTER)) % piece->size : 0;
    for (int rank = 0; rank < piece->size; rank++) (void)fill_row(piece, rank);
    if (ring)
        fold_chain(piece, first);
    else
        fold_tree(piece, 0, piece->size, false);
    if (piece->options->op == LS_MEAN) divide(piece, row(piece, first));
    compress(piece, first);
    return row(piece, first);
}

/* The right result of a piece that lies in a block. */
static const union number *right_result(const struct piece *piece, int block) {
    switch (piece->options->collective) {
    case BENCH_BROADCAST:
        return fill_row(piece, 0);
    case BENCH_ALL_GATHER:
        return fill_row(piece, block);
    case BENCH_SEND_RECEIVE:
        return fill_row(piece, (piece->check->rank + piece->size - 1) % piece->size);
    default:
        return reduce(piece, block);
    }
}

/* ---- for the runner ---- */

size_t bench_part_start(size_t count, int size, int rank) {
    size_t parts = (size_t)size, at = (size_t)rank, longer = count % parts;
    return count / parts * at + (at < longer ? at : longer);
}

void bench_check_fill(const struct bench_check *check, int rank, size_t start, size_t count, void *elements) {
    ls_dtype dtype = check->options->dtype;
    for (size_t i = 0; i < count; i++)
        store(dtype, give(check->options, rank, start + i), (unsigned char *)elements + i * ls_dtype_size(dtype));
}

/* From each rank comes its part for this one. */
static int64_t check_exchanged(struct piece *piece, size_t count, const unsigned char *output) {
    ls_dtype dtype = piece->options->dtype;
    size_t start = bench_part_start(count, piece->size, piece->check->rank);
    size_t length = bench_part_start(count, piece->size, piece->check->rank + 1) - start;
    int64_t wrong = 0;
    for (int rank = 0; rank < piece->size; rank++) {
        for (size_t at = 0; at < length; at += piece->count) {
            piece->start = start + at;
            piece->count = length - at < PIECE ? length - at : PIECE;
            wrong += count_different(dtype, fill_row(piece, rank),
                                     output + ((size_t)rank * length + at) * ls_dtype_size(dtype), piece->count);
        }
    }
    return wrong;
}

int64_t bench_check_result(const struct bench_check *check, size_t count, const void *output) {
    bool one = check->options->collective == BENCH_REDUCE_SCATTER;
    size_t first = one ? bench_part_start(count, check->size, check->rank) : 0; /* where output begins */
    struct piece piece = {.options = check->options, .check = check, .size = check->size};
    ls_dtype dtype = check->options->dtype;
    int64_t wrong = 0;
    piece.rows = calloc((size_t)check->size * PIECE, sizeof(*piece.rows));
    if (!piece.rows) return -1;
    bool exchanges = check->options->collective == BENCH_ALL_TO_ALL;
    if (exchanges) wrong = check_exchanged(&piece, count, output);
    for (int block = 0; block < check->size && !exchanges; block++) {
        if (one && block != check->rank) continue;
        size_t end = bench_part_start(count, check->size, block + 1);
        for (size_t at = bench_part_start(count, check->size, block); at < end; at += piece.count) {
            piece.start = at;
            piece.count = end - at < PIECE ? end - at : PIECE;
            wrong += count_different(dtype, right_result(&piece, block),
                                     (const unsigned char *)output + (at - first) * ls_dtype_size(dtype), piece.count);
        }
    }
    free(piece.rows);
    return wrong;
}

int64_t bench_check_input(const struct bench_check *check, size_t start, size_t count, const void *elements) {
    ls_dtype dtype = check->options->dtype;
    size_t size = ls_dtype_size(dtype);
    int64_t changed = 0;
    for (size_t i = 0; i < count; i++) {
        union number value = give(check->options, check->rank, start + i);
        changed += count_different(dtype, &value, (const unsigned char *)elements + i * size, 1);
    }
    return changed;
}
