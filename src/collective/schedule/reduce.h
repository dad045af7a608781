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
