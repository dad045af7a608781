/* Adding: element loops without contraction, one rounding a node, 16-bit types added in float32. */
#pragma once
#include <lockstep/lockstep.h>

/* out[i] = a[i] op b[i]; MEAN adds. out may be a or b. */
typedef void ls_combine_fn(void *out, const void *a, const void *b, size_t count);
/* INVALID_ARGUMENT for what is no op or no type, and for an op that the type does not have. */
ls_status ls_reduce_check(ls_reduce_op op, ls_dtype dtype);
/* Fills data with what changes no result of the op: -0 for sums, for 0 + -0 is 0, and -0 + -0 is -0. */
void ls_reduce_fill_neutral(ls_reduce_op op, ls_dtype dtype, void *data, size_t count);
ls_combine_fn *ls_reduce_combine(ls_reduce_op op, ls_dtype dtype);
/* Replaces elements [at, at + count) of every one of n arrays by the fold of all along the tree over n leaves, divided
 * by divide unless that is 0, in one pass over memory. NULL if there is no such loop. */
typedef void ls_fold_all_fn(void *const *arrays, size_t at, size_t count, int divide);
ls_fold_all_fn *ls_reduce_fold_all(ls_reduce_op op, ls_dtype dtype, int n);
/* data[i] = data[i] / n: the last pass of MEAN. Integers truncate toward zero. */
void ls_reduce_divide(ls_dtype dtype, void *data, size_t count, int n);

/* Adding 16-bit floats: widened to float32, added or multiplied, rounded to nearest even. */

/* The loop for dtype FLOAT16 or BFLOAT16. */
ls_combine_fn *ls_combine16(ls_reduce_op op, ls_dtype dtype);
void ls_combine16_divide(ls_dtype dtype, void *data, size_t count, int n);

/* Scaling before and after a reduction, Horovod's prescale_factor and postscale_factor. */

/* 0 stands for 1, as in option structs. */
static inline double ls_scale_factor(double given) {
    return given == 0 ? 1 : given; /* NOLINT: exact */
}
/* INVALID_ARGUMENT for a factor that is not finite, and for integers unless it is 1. field names it. */
ls_status ls_scale_check(const char *field, double factor, ls_dtype dtype);
/* out[i] = in[i] * factor; out may be in. Of float64 in float64, of all other types in float32, rounded once. */
void ls_scale(ls_dtype dtype, void *out, const void *in, size_t count, double factor);

/* LS_VECTORIZE before a loop: an element of the output depends only on the same elements of the inputs, so the compiler
 * need not fear that the arrays overlap (they are equal or apart). */

#if defined(__clang__)
#define LS_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LS_VECTORIZE _Pragma("GCC ivdep")
#else
#define LS_VECTORIZE
#endif
