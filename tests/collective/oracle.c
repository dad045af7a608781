/* One value at a time: widen to double (exact for every float type), combine, round to the type. Integers apart. */
#include "collective/oracle.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

struct value {
    bool is_float;
    double number;   /* float types */
    int64_t integer; /* integer types */
};

static struct value load(ls_dtype dtype, const unsigned char *data, size_t index) {
    const unsigned char *at = data + index * ls_dtype_size(dtype);
    float f;
    double d;
    uint16_t h;
    int32_t i;
    int64_t l;
    switch (dtype) {
    case LS_FLOAT32:
        memcpy(&f, at, 4);
        return (struct value){true, f, 0};
    case LS_FLOAT64:
        memcpy(&d, at, 8);
        return (struct value){true, d, 0};
    case LS_INT32:
        memcpy(&i, at, 4);
        return (struct value){false, 0, i};
    case LS_INT64:
        memcpy(&l, at, 8);
        return (struct value){false, 0, l};
    case LS_INT8:
        return (struct value){false, 0, (int8_t)*at};
    case LS_UINT8:
    case LS_BOOL:
        return (struct value){false, 0, *at};
    default:
        memcpy(&h, at, 2);
        return (struct value){true, dtype == LS_FLOAT16 ? ls_half_to_float(h) : ls_half_bfloat16_to_float(h), 0};
    }
}

static void store(ls_dtype dtype, unsigned char *data, size_t index, struct value value) {
    unsigned char *at = data + index * ls_dtype_size(dtype);
    float f = (float)value.number;
    uint16_t h;
    int32_t i = (int32_t)(uint32_t)(uint64_t)value.integer;
    switch (dtype) {
    case LS_FLOAT32:
        memcpy(at, &f, 4);
        return;
    case LS_FLOAT64:
        memcpy(at, &value.number, 8);
        return;
    case LS_INT32:
        memcpy(at, &i, 4);
        return;
    case LS_INT64:
        memcpy(at, &value.integer, 8);
        return;
    case LS_INT8:
    case LS_UINT8:
        *at = (unsigned char)value.integer;
        return;
    case LS_BOOL:
        *at = value.integer & 1;
        return;
    default:
        h = dtype == LS_FLOAT16 ? ls_half_from_float(f) : ls_half_bfloat16_from_float(f);
        memcpy(at, &h, 2);
    }
}

/* To the type and back: the rounding of a node. */
static struct value rounded(ls_dtype dtype, struct value value) {
    unsigned char bytes[8] = {0};
    store(dtype, bytes, 0, value);
    return load(dtype, bytes, 0);
}

static struct value choose(struct value a, struct value b, bool smaller) {
    if (a.is_float && isnan(a.number)) return a;
    if (a.is_float && isnan(b.number)) return b;
    bool b_less = a.is_float ? b.number < a.number : b.integer < a.integer;
    bool b_more = a.is_float ? b.number > a.number : b.integer > a.integer;
    return (smaller ? b_less : b_more) ? b : a;
}

static struct value combine_integers(const struct oracle *oracle, uint64_t a, uint64_t b) {
    bool times = oracle->op == LS_PRODUCT;
    if (oracle->dtype == LS_BOOL) return (struct value){false, 0, times ? a && b : a || b};
    return rounded(oracle->dtype, (struct value){false, 0, (int64_t)(times ? a * b : a + b)});
}

/* 16-bit types: through float32, then to 16 bits. */
static struct value combine_floats(const struct oracle *oracle, double a, double b) {
    bool times = oracle->op == LS_PRODUCT;
    float single = times ? (float)a * (float)b : (float)a + (float)b;
    double wide = times ? a * b : a + b;
    return rounded(oracle->dtype, (struct value){true, oracle->dtype == LS_FLOAT64 ? wide : (double)single, 0});
}

static struct value combine(const struct oracle *oracle, struct value a, struct value b) {
    if (oracle->op == LS_MIN || oracle->op == LS_MAX) return choose(a, b, oracle->op == LS_MIN);
    if (a.is_float) return combine_floats(oracle, a.number, b.number);
    return combine_integers(oracle, (uint64_t)a.integer, (uint64_t)b.integer);
}

static struct value finish(const struct oracle *oracle, struct value value) {
    int n = oracle->first[oracle->size];
    if (oracle->op != LS_MEAN) return value;
    if (!value.is_float) return (struct value){false, 0, value.integer / n};
    if (oracle->dtype == LS_FLOAT64) return (struct value){true, value.number / n, 0};
    return rounded(oracle->dtype, (struct value){true, (float)value.number / (float)n, 0});
}

/* To what crosses a link and back. */
static struct value compressed(const struct oracle *oracle, struct value value) {
    if (!oracle->compression) return value;
    return rounded(oracle->compression == LS_COMPRESS_FP16 ? LS_FLOAT16 : LS_BFLOAT16, value);
}

static struct value tree(const struct oracle *oracle, unsigned char *const *leaves, int count, size_t index) {
    if (count == 1) return load(oracle->dtype, leaves[0], index);
    int left = 1;
    while (2 * left < count) left *= 2;
    return combine(oracle, tree(oracle, leaves, left, index), tree(oracle, leaves + left, count - left, index));
}

static int host_of_leaf(const struct oracle *oracle, int leaf) {
    int worker = 0;
    while (oracle->first[worker + 1] <= leaf) worker++;
    return oracle->hosts ? oracle->hosts[worker] : worker;
}

/* The tree over leaves [low, high) with what each host gives rounded: its maximal subtrees. */
static struct value rounded_tree(const struct oracle *oracle, unsigned char *const *leaves, int low, int high,
                                 size_t index) {
    if (!oracle->compression) return tree(oracle, leaves + low, high - low, index);
    bool one_host = true;
    for (int leaf = low; leaf < high; leaf++)
        one_host = one_host && host_of_leaf(oracle, leaf) == host_of_leaf(oracle, low);
    if (one_host) return compressed(oracle, tree(oracle, leaves + low, high - low, index));
    int left = 1;
    while (2 * left < high - low) left *= 2;
    return combine(oracle, rounded_tree(oracle, leaves, low, low + left, index),
                   rounded_tree(oracle, leaves, low + left, high, index));
}

static size_t block_start(const struct oracle *oracle, int rank) {
    size_t n = (size_t)oracle->size, start = 0;
    for (int i = 0; i < rank; i++)
        start += oracle->scatter ? oracle->scatter[i] : oracle->count / n + ((size_t)i < oracle->count % n ? 1 : 0);
    return start;
}

static struct value chain(const struct oracle *oracle, unsigned char *const *leaves, int block, size_t index) {
    struct value sum = {0};
    for (int step = 0; step < oracle->size; step++) {
        int worker = (block + step + (oracle->scatter != NULL)) % oracle->size, low = oracle->first[worker];
        struct value own = tree(oracle, leaves + low, oracle->first[worker + 1] - low, index);
        sum = step ? combine(oracle, compressed(oracle, sum), own) : own;
    }
    return sum;
}

void oracle_all_reduce(const struct oracle *oracle, unsigned char *const *leaves, void *expected) {
    for (int block = 0; block < oracle->size; block++) {
        size_t end = block_start(oracle, block + 1);
        for (size_t i = block_start(oracle, block); i < end; i++) {
            struct value value = oracle->communication == LS_RING
                                     ? chain(oracle, leaves, block, i)
                                     : rounded_tree(oracle, leaves, 0, oracle->first[oracle->size], i);
            store(oracle->dtype, expected, i, compressed(oracle, finish(oracle, value)));
        }
    }
}

/* splitmix64 (Steele, Lea, Flood 2014), here so that no sanitizer slows it. */
static uint64_t random_bits(uint64_t stream, uint64_t index) {
    uint64_t bits = (stream << 32 | index) * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x9E3779B97F4A7C15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
    return bits ^ bits >> 31;
}

void oracle_fill(ls_dtype dtype, void *data, size_t count, uint64_t stream) {
    static const double special[] = {NAN, INFINITY, -0.0, 0.0, 1e-42, 6e-8};
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(stream, i);
        double number = (double)(int64_t)bits * 0x1p-69 * (double)(1 << bits % 13);
        if (bits % 97 == 0) number = special[bits / 97 % 6];
        store(dtype, data, i, (struct value){dtype < LS_INT32, number, (int64_t)(bits >> (bits & 31))});
    }
}

size_t oracle_compare(ls_dtype dtype, const void *expected, const void *got, size_t count) {
    size_t size = ls_dtype_size(dtype);
    if (!memcmp(expected, got, count * size)) return count;
    for (size_t i = 0; i < count; i++) {
        struct value a = load(dtype, expected, i), b = load(dtype, got, i);
        if (a.is_float && isnan(a.number) && isnan(b.number)) continue;
        if (memcmp((const char *)expected + i * size, (const char *)got + i * size, size) != 0) return i;
    }
    return count;
}
