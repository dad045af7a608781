/* Some neighbours at a time: widen to double (exact for every float type), combine, round to the type. Integers apart.
 */
#include "bench/oracle.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK ORACLE_BLOCK

static bool is_float(ls_dtype dtype) {
    return dtype < LS_INT32;
}

#define EACH(to, from)                                                                                                 \
    for (size_t i = 0; i < count; i++) (to)[i] = (from)

/* ---- 16 bits ---- */

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

/* The fraction and exponent, moved into a double's, are a number of 2^-1008 times the right size, also a denormal. */
static double widen_float16(uint16_t half) {
    double magnitude = from_bits((uint64_t)(half & 0x7FFF) << 42) * 0x1p1008;
    if (magnitude >= 0x1p16) magnitude = half & 0x3FF ? NAN : INFINITY;
    return half & 0x8000 ? -magnitude : magnitude;
}

static double widen_bfloat16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

/* Rounds a number that is none, or not negative, to so many significant bits, ties to even, and to a multiple of the
 * type's smallest denormal. lowest is the exponent of its smallest normal number. Adding and subtracting a large
 * number leaves just these bits. */
static double round_to_bits(double value, int significant, int lowest) {
    int exponent = (int)(to_bits(value) >> 52) - 1023;
    if (exponent == 1024) return value;
    if (exponent < lowest) exponent = lowest;
    double large = from_bits((uint64_t)(exponent - significant + 1 + 52 + 1023) << 52 | UINT64_C(1) << 51);
    return value + large - large;
}

static uint16_t narrow_float16(double value) {
    uint16_t sign = to_bits(value) >> 63 ? 0x8000 : 0;
    double rounded = round_to_bits(fabs(value), 11, -14);
    if (isnan(value)) return sign | 0x7E00;
    if (rounded >= 0x1p16) return sign | 0x7C00;
    if (rounded < 0x1p-14) return sign | (uint16_t)(rounded * 0x1p24); /* the count of smallest denormals */
    return sign | (uint16_t)((to_bits(rounded) >> 42) - (UINT64_C(1008) << 10));
}

static uint16_t narrow_bfloat16(double value) {
    double rounded = round_to_bits(fabs(value), 8, -126);
    float single = rounded >= 0x1p128 ? INFINITY : (float)rounded; /* exact */
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    return (uint16_t)((to_bits(value) >> 63 ? 0x8000 : 0) | (isnan(value) ? 0x7FC0 : bits >> 16));
}

/* ---- elements in memory ---- */

static void load(ls_dtype dtype, const unsigned char *data, size_t count, union oracle_values *values) {
    float floats[BLOCK];
    uint16_t halves[BLOCK];
    int32_t integers[BLOCK];
    size_t bytes = count * ls_dtype_size(dtype);
    switch (dtype) {
    case LS_FLOAT32:
        memcpy(floats, data, bytes);
        EACH(values->numbers, (double)floats[i]);
        return;
    case LS_FLOAT64:
    case LS_INT64:
        memcpy(values, data, bytes);
        return;
    case LS_INT32:
        memcpy(integers, data, bytes);
        EACH(values->integers, integers[i]);
        return;
    case LS_INT8:
        EACH(values->integers, (int8_t)data[i]);
        return;
    case LS_UINT8:
    case LS_BOOL:
        EACH(values->integers, data[i]);
        return;
    default:
        memcpy(halves, data, bytes);
        if (dtype == LS_FLOAT16)
            EACH(values->numbers, widen_float16(halves[i]));
        else
            EACH(values->numbers, widen_bfloat16(halves[i]));
    }
}

void oracle_store(ls_dtype dtype, unsigned char *data, size_t count, const union oracle_values *values) {
    float floats[BLOCK];
    uint16_t halves[BLOCK];
    int32_t integers[BLOCK];
    size_t bytes = count * ls_dtype_size(dtype);
    switch (dtype) {
    case LS_FLOAT32:
        EACH(floats, (float)values->numbers[i]);
        memcpy(data, floats, bytes);
        return;
    case LS_FLOAT64:
    case LS_INT64:
        memcpy(data, values, bytes);
        return;
    case LS_INT32:
        EACH(integers, (int32_t)(uint32_t)(uint64_t)values->integers[i]);
        memcpy(data, integers, bytes);
        return;
    case LS_INT8:
    case LS_UINT8:
        EACH(data, (unsigned char)values->integers[i]);
        return;
    case LS_BOOL:
        EACH(data, values->integers[i] & 1);
        return;
    default:
        if (dtype == LS_FLOAT16)
            EACH(halves, narrow_float16(values->numbers[i]));
        else
            EACH(halves, narrow_bfloat16(values->numbers[i]));
        memcpy(data, halves, bytes);
    }
}

void oracle_round(ls_dtype dtype, size_t count, union oracle_values *values) {
    unsigned char bytes[4 * BLOCK];
    if (ls_dtype_size(dtype) == 8) return;
    oracle_store(dtype, bytes, count, values);
    load(dtype, bytes, count, values);
}

static void choose_numbers(bool smaller, double *a, const double *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(a[i]) && (isnan(b[i]) || (smaller ? b[i] < a[i] : b[i] > a[i]))) a[i] = b[i];
}

static void choose_integers(bool smaller, int64_t *a, const int64_t *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (smaller ? b[i] < a[i] : b[i] > a[i]) a[i] = b[i];
}

static void combine_integers(const struct oracle *oracle, int64_t *a, const int64_t *b, size_t count) {
    bool times = oracle->op == LS_PRODUCT;
    if (oracle->dtype == LS_BOOL && times)
        EACH(a, a[i] && b[i]);
    else if (oracle->dtype == LS_BOOL)
        EACH(a, a[i] || b[i]);
    else if (times)
        EACH(a, (int64_t)((uint64_t)a[i] * (uint64_t)b[i]));
    else
        EACH(a, (int64_t)((uint64_t)a[i] + (uint64_t)b[i]));
}

/* 16-bit types: through float32, then to 16 bits. */
static void combine_numbers(const struct oracle *oracle, double *a, const double *b, size_t count) {
    bool times = oracle->op == LS_PRODUCT;
    if (oracle->dtype == LS_FLOAT64 && times)
        EACH(a, a[i] * b[i]);
    else if (oracle->dtype == LS_FLOAT64)
        EACH(a, a[i] + b[i]);
    else if (times)
        EACH(a, (double)((float)a[i] * (float)b[i]));
    else
        EACH(a, (double)((float)a[i] + (float)b[i]));
}

/* a becomes the sum, or what the op says. */
static void combine(const struct oracle *oracle, union oracle_values *a, const union oracle_values *b, size_t count) {
    bool smaller = oracle->op == LS_MIN, chooses = smaller || oracle->op == LS_MAX;
    if (chooses && is_float(oracle->dtype)) {
        choose_numbers(smaller, a->numbers, b->numbers, count);
    } else if (chooses) {
        choose_integers(smaller, a->integers, b->integers, count);
    } else {
        if (is_float(oracle->dtype))
            combine_numbers(oracle, a->numbers, b->numbers, count);
        else
            combine_integers(oracle, a->integers, b->integers, count);
        oracle_round(oracle->dtype, count, a);
    }
}

static int first_of(const struct oracle *oracle, int worker) {
    return oracle->first ? oracle->first[worker] : worker;
}

static void finish(const struct oracle *oracle, union oracle_values *values, size_t count) {
    int n = first_of(oracle, oracle->size);
    if (oracle->op != LS_MEAN) return;
    if (!is_float(oracle->dtype)) {
        EACH(values->integers, values->integers[i] / n);
    } else if (oracle->dtype == LS_FLOAT64) {
        EACH(values->numbers, values->numbers[i] / n);
    } else {
        EACH(values->numbers, (double)((float)values->numbers[i] / (float)n));
        oracle_round(oracle->dtype, count, values);
    }
}

/* To what crosses a link and back. */
static void compress(const struct oracle *oracle, union oracle_values *values, size_t count) {
    if (oracle->compression)
        oracle_round(oracle->compression == LS_COMPRESS_FP16 ? LS_FLOAT16 : LS_BFLOAT16, count, values);
}

/* The place of values in the array. */
struct span {
    size_t index, count;
};

static int left_of(int count) {
    int left = 1;
    while (2 * left < count) left *= 2;
    return left;
}

static void tree(const struct oracle *oracle, unsigned char *const *leaves, int count, struct span span,
                 union oracle_values *values) {
    if (count == 1) {
        load(oracle->dtype, leaves[0] + span.index * ls_dtype_size(oracle->dtype), span.count, values);
        return;
    }
    int left = left_of(count);
    union oracle_values right;
    tree(oracle, leaves, left, span, values);
    tree(oracle, leaves + left, count - left, span, &right);
    combine(oracle, values, &right, span.count);
}

static int host_of_leaf(const struct oracle *oracle, int leaf) {
    int worker = 0;
    while (first_of(oracle, worker + 1) <= leaf) worker++;
    return oracle->hosts ? oracle->hosts[worker] : worker;
}

/* The tree over leaves [low, high) with what each host gives rounded: its maximal subtrees. */
static void rounded_tree(const struct oracle *oracle, unsigned char *const *leaves, int low, int high, struct span span,
                         union oracle_values *values) {
    bool one_host = true;
    for (int leaf = low; leaf < high && oracle->compression; leaf++)
        one_host = one_host && host_of_leaf(oracle, leaf) == host_of_leaf(oracle, low);
    if (one_host) {
        tree(oracle, leaves + low, high - low, span, values);
        compress(oracle, values, span.count);
        return;
    }
    int left = left_of(high - low);
    union oracle_values right;
    rounded_tree(oracle, leaves, low, low + left, span, values);
    rounded_tree(oracle, leaves, low + left, high, span, &right);
    combine(oracle, values, &right, span.count);
}

static size_t block_start(const struct oracle *oracle, int rank) {
    size_t n = (size_t)oracle->size, start = 0;
    for (int i = 0; i < rank; i++)
        start += oracle->scatter ? oracle->scatter[i] : oracle->count / n + ((size_t)i < oracle->count % n ? 1 : 0);
    return start;
}

static void chain(const struct oracle *oracle, unsigned char *const *leaves, int begin, struct span span,
                  union oracle_values *values) {
    for (int step = 0; step < oracle->size; step++) {
        int worker = (begin + step) % oracle->size, low = first_of(oracle, worker);
        union oracle_values own;
        tree(oracle, leaves + low, first_of(oracle, worker + 1) - low, span, step ? &own : values);
        if (!step) continue;
        compress(oracle, values, span.count);
        combine(oracle, values, &own, span.count);
    }
}

void oracle_reduce(const struct oracle *oracle, int begin, unsigned char *const *leaves, size_t index, size_t count,
                   void *expected) {
    union oracle_values values = {{0}};
    struct span span = {index, count};
    if (oracle->communication == LS_RING)
        chain(oracle, leaves, begin, span, &values);
    else
        rounded_tree(oracle, leaves, 0, first_of(oracle, oracle->size), span, &values);
    finish(oracle, &values, count);
    compress(oracle, &values, count);
    oracle_store(oracle->dtype, expected, count, &values);
}

void oracle_all_reduce(const struct oracle *oracle, unsigned char *const *leaves, void *expected) {
    for (int block = 0; block < oracle->size; block++) {
        size_t end = block_start(oracle, block + 1);
        for (size_t i = block_start(oracle, block); i < end; i += BLOCK)
            oracle_reduce(oracle, (block + (oracle->scatter != NULL)) % oracle->size, leaves, i,
                          end - i < BLOCK ? end - i : BLOCK,
                          (unsigned char *)expected + i * ls_dtype_size(oracle->dtype));
    }
}

/* splitmix64 (Steele, Lea, Flood 2014), here so that no sanitizer slows it. */
static uint64_t random_bits(uint64_t stream, uint64_t index) {
    uint64_t bits = (stream << 32 | index) * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x9E3779B97F4A7C15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
    return bits ^ bits >> 31;
}

static double number_of(uint64_t bits) {
    static const double special[] = {NAN, INFINITY, -0.0, 0.0, 1e-42, 6e-8};
    if (bits % 97 == 0) return special[bits / 97 % 6];
    return (double)(int64_t)bits * 0x1p-69 * (double)(1 << bits % 13);
}

void oracle_fill(ls_dtype dtype, void *data, size_t size, uint64_t stream) {
    for (size_t at = 0; at < size; at += BLOCK) {
        size_t count = size - at < BLOCK ? size - at : BLOCK;
        uint64_t bits[BLOCK];
        union oracle_values values;
        EACH(bits, random_bits(stream, at + i));
        if (is_float(dtype))
            EACH(values.numbers, number_of(bits[i]));
        else
            EACH(values.integers, (int64_t)(bits[i] >> (bits[i] & 31)));
        oracle_store(dtype, (unsigned char *)data + at * ls_dtype_size(dtype), count, &values);
    }
}

size_t oracle_compare(ls_dtype dtype, const void *expected, const void *got, size_t count) {
    size_t size = ls_dtype_size(dtype);
    if (!memcmp(expected, got, count * size)) return count;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *a = (const unsigned char *)expected + i * size, *b = (const unsigned char *)got + i * size;
        union oracle_values values[2];
        if (memcmp(a, b, size) == 0) continue;
        load(dtype, a, 1, &values[0]);
        load(dtype, b, 1, &values[1]);
        if (!is_float(dtype) || !isnan(values[0].numbers[0]) || !isnan(values[1].numbers[0])) return i;
    }
    return count;
}
