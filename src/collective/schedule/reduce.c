/* Element loops for each type and op, compiled for several instruction sets: each element is rounded once and nothing
 * is contracted, so that all give the same bits. Integers wrap around; MIN and MAX propagate NaN and keep the first of
 * equals. The arithmetic runs in the calling thread's rounding and denormal mode. */
#include "collective/schedule/reduce.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clones.h"
#include "base/half.h"
#include "base/shape.h"
#include "base/options.h"
#include "base/status.h"

/* x != x holds for NaN only. MIN and MAX of IEEE 754-2008 would drop a NaN; here it must survive, so that a worker
 * whose gradient is lost does not look sound. Signed overflow is undefined in C, so integers are added without a sign.
 */
#define COMBINE(name, type, expression)                                                                                \
    LS_CLONES static void name(void *out, const void *a, const void *b, size_t count) {                                \
        type *o = out;                                                                                                 \
        const type *x = a, *y = b;                                                                                     \
        LS_VECTORIZE                                                                                                   \
        for (size_t i = 0; i < count; i++) o[i] = expression;                                                          \
    }
#define COMBINE_TYPE(suffix, type, sum, product)                                                                       \
    COMBINE(sum_##suffix, type, sum)                                                                                   \
    COMBINE(product_##suffix, type, product)                                                                           \
    COMBINE(min_##suffix, type, y[i] < x[i] || y[i] != y[i] ? y[i] : x[i])                                             \
    COMBINE(max_##suffix, type, y[i] > x[i] || y[i] != y[i] ? y[i] : x[i])

COMBINE_TYPE(float32, float, x[i] + y[i], x[i] * y[i])
COMBINE_TYPE(float64, double, x[i] + y[i], x[i] * y[i])
COMBINE_TYPE(int32, int32_t, (int32_t)((uint32_t)x[i] + (uint32_t)y[i]), (int32_t)((uint32_t)x[i] * (uint32_t)y[i]))
COMBINE_TYPE(int64, int64_t, (int64_t)((uint64_t)x[i] + (uint64_t)y[i]), (int64_t)((uint64_t)x[i] * (uint64_t)y[i]))
COMBINE_TYPE(uint8, uint8_t, (uint8_t)(x[i] + y[i]), (uint8_t)(x[i] * y[i]))
COMBINE_TYPE(int8, int8_t, (int8_t)(uint8_t)(x[i] + y[i]), (int8_t)(uint8_t)(x[i] * y[i]))
COMBINE(or_bool, uint8_t, (uint8_t)((x[i] | y[i]) != 0))
COMBINE(and_bool, uint8_t, (uint8_t)((x[i] != 0) & (y[i] != 0)))

/* MEAN adds; what it divides by comes last. */
#define COMBINE_ROW(suffix)                                                                                            \
    {                                                                                                                  \
        [LS_SUM] = sum_##suffix, [LS_MEAN] = sum_##suffix, [LS_MIN] = min_##suffix, [LS_MAX] = max_##suffix,           \
        [LS_PRODUCT] = product_##suffix                                                                                \
    }
static ls_combine_fn *const combine_table[][LS_PRODUCT + 1] = {
    [LS_FLOAT32] = COMBINE_ROW(float32),
    [LS_FLOAT64] = COMBINE_ROW(float64),
    [LS_INT32] = COMBINE_ROW(int32),
    [LS_INT64] = COMBINE_ROW(int64),
    [LS_UINT8] = COMBINE_ROW(uint8),
    [LS_INT8] = COMBINE_ROW(int8),
    [LS_BOOL] = {[LS_SUM] = or_bool, [LS_MIN] = and_bool, [LS_MAX] = or_bool, [LS_PRODUCT] = and_bool},
};

ls_status ls_reduce_check(ls_reduce_op op, ls_dtype dtype) {
    ls_status status = ls_dtype_check(dtype);
    if (!status) status = ls_option_names_check_reduce_op(op);
    if (!status && op == LS_ADASUM)
        status = ls_fail(LS_INVALID_ARGUMENT, "adasum is for all-reduces of communicators: take sum or mean");
    if (status || dtype != LS_BOOL || op != LS_MEAN) return status;
    return ls_fail(LS_INVALID_ARGUMENT, "there is no mean of bool: take sum (or), product (and), or another type");
}

ls_combine_fn *ls_reduce_combine(ls_reduce_op op, ls_dtype dtype) {
    if (dtype == LS_FLOAT16 || dtype == LS_BFLOAT16) return ls_combine16(op, dtype);
    return combine_table[dtype][op];
}

/* The divisor may be more than a type of 8 bits holds. */
#define DIVIDE(suffix, type, wide)                                                                                     \
    LS_CLONES static void divide_##suffix(void *data, size_t count, int n) {                                           \
        type *values = data;                                                                                           \
        wide divisor = (wide)n;                                                                                        \
        for (size_t i = 0; i < count; i++) values[i] = (type)(values[i] / divisor);                                    \
    }
DIVIDE(float32, float, float)
DIVIDE(float64, double, double)
DIVIDE(int32, int32_t, int32_t)
DIVIDE(int64, int64_t, int64_t)
DIVIDE(uint8, uint8_t, int)
DIVIDE(int8, int8_t, int)

static void (*const divide_table[])(void *data, size_t count, int n) = {
    [LS_FLOAT32] = divide_float32, [LS_FLOAT64] = divide_float64, [LS_INT32] = divide_int32, [LS_INT64] = divide_int64,
    [LS_UINT8] = divide_uint8,     [LS_INT8] = divide_int8,       [LS_BOOL] = NULL, /* has no MEAN */
};

void ls_reduce_divide(ls_dtype dtype, void *data, size_t count, int n) {
    if (dtype == LS_FLOAT16 || dtype == LS_BFLOAT16)
        ls_combine16_divide(dtype, data, count, n);
    else if (divide_table[dtype])
        divide_table[dtype](data, count, n);
}

/* ---- folding where the leaves lie ---- */

/* The tree over two, three and four leaves; integers are added without a sign, and so wrap around. */
#define TREE2(as)   ((as)a[i] + (as)b[i])
#define TREE3(as)   (TREE2(as) + (as)c[i])
#define TREE4(as)   (TREE2(as) + ((as)c[i] + (as)d[i]))
#define WRITE2      a[i] = b[i]
#define WRITE3      WRITE2 = c[i]
#define WRITE4      WRITE3 = d[i]
#define TAKE2(type) type *a = (type *)arrays[0] + at, *b = (type *)arrays[1] + at, divisor = (type)divide
#define TAKE3(type) TAKE2(type), *c = (type *)arrays[2] + at
#define TAKE4(type) TAKE3(type), *d = (type *)arrays[3] + at
#define FOLD(suffix, n, type, as)                                                                                      \
    LS_CLONES static void fold##n##_##suffix(void *const *arrays, size_t at, size_t count, int divide) {               \
        TAKE##n(type);                                                                                                 \
        if (divide) {                                                                                                  \
            LS_VECTORIZE                                                                                               \
            for (size_t i = 0; i < count; i++) WRITE##n = (type)TREE##n(as) / divisor;                                 \
        } else {                                                                                                       \
            LS_VECTORIZE                                                                                               \
            for (size_t i = 0; i < count; i++) WRITE##n = (type)TREE##n(as);                                           \
        }                                                                                                              \
    }
#define FOLDS(suffix, type, as) FOLD(suffix, 2, type, as) FOLD(suffix, 3, type, as) FOLD(suffix, 4, type, as)
FOLDS(float32, float, float)
FOLDS(float64, double, double)
FOLDS(int32, int32_t, uint32_t)
FOLDS(int64, int64_t, uint64_t)

static ls_fold_all_fn *const fold_table[][3] = {
    [LS_FLOAT32] = {fold2_float32, fold3_float32, fold4_float32},
    [LS_FLOAT64] = {fold2_float64, fold3_float64, fold4_float64},
    [LS_INT32] = {fold2_int32, fold3_int32, fold4_int32},
    [LS_INT64] = {fold2_int64, fold3_int64, fold4_int64},
};

/* For two to four leaves one loop reads an element of all leaves, keeps the sums of inner nodes in registers and writes
 * the result to all leaves, in place of a fold through scratch and n - 1 copies. The macros TREE2 to TREE4 spell out
 * the shape of ls_tree_split, so the bits are those of fold.c. */
ls_fold_all_fn *ls_reduce_fold_all(ls_reduce_op op, ls_dtype dtype, int n) {
    bool is_sum = op == LS_SUM || op == LS_MEAN, is_wide = (size_t)dtype < sizeof(fold_table) / sizeof(fold_table[0]);
    return is_sum && is_wide && n >= 2 && n <= 4 ? fold_table[dtype][n - 2] : NULL;
}

/* ---- what changes nothing ---- */

static double neutral_real(ls_reduce_op op) {
    return op == LS_MIN ? (double)INFINITY : op == LS_MAX ? -(double)INFINITY : op == LS_PRODUCT ? 1 : -0.0;
}

static int64_t neutral_whole(ls_reduce_op op, ls_dtype dtype) {
    static const int64_t least[] = {
        [LS_INT32] = INT32_MIN, [LS_INT64] = INT64_MIN, [LS_INT8] = INT8_MIN, [LS_BOOL] = 0};
    static const int64_t most[] = {
        [LS_INT32] = INT32_MAX, [LS_INT64] = INT64_MAX, [LS_UINT8] = UINT8_MAX, [LS_INT8] = INT8_MAX, [LS_BOOL] = 1};
    return op == LS_MIN ? most[dtype] : op == LS_MAX ? least[dtype] : op == LS_PRODUCT;
}

void ls_reduce_fill_neutral(ls_reduce_op op, ls_dtype dtype, void *data, size_t count) {
    size_t size = ls_dtype_size(dtype);
    double wide = neutral_real(op);
    float single = (float)wide;
    uint16_t half = dtype == LS_FLOAT16 ? ls_half_from_float(single) : ls_half_bfloat16_from_float(single);
    int64_t whole = dtype >= LS_INT32 ? neutral_whole(op, dtype) : 0;
    const void *one = dtype == LS_FLOAT64   ? (const void *)&wide
                      : dtype == LS_FLOAT32 ? (const void *)&single
                      : dtype >= LS_INT32   ? (const void *)&whole /* its low bytes come first */
                                            : (const void *)&half;
    for (size_t i = 0; i < count; i++) memcpy((unsigned char *)data + i * size, one, size);
}
