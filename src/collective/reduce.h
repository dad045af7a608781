/* Adding: element loops without contraction, one rounding a node, 16-bit types added in float32. */
#pragma once
#include <lockstep/lockstep.h>

/* out[i] = a[i] op b[i]; MEAN adds. out may be a or b. */
typedef void ls_combine_fn(void *out, const void *a, const void *b, size_t count);
ls_combine_fn *ls_combine(ls_reduce_op op, ls_dtype dtype);
/* In every one of n arrays: elements [at, at + count) become the fold of all along the tree over n leaves, divided by
 * divide unless that is 0, in one pass over memory. NULL where there is no such loop. */
typedef void ls_fold_all_fn(void *const *arrays, size_t at, size_t count, int divide);
ls_fold_all_fn *ls_fold_all(ls_reduce_op op, ls_dtype dtype, int n);
/* data[i] = data[i] / n: the last pass of MEAN. Integers truncate toward zero. */
void ls_divide(ls_dtype dtype, void *data, size_t count, int n);
/* Folds leaves [low, high) of the tree over n leaves: leaf[i - low] is leaf i's array of count elements. out may be any
 * of the leaves. Works in pieces that fit the cache. Inner nodes get a scratch of their own; no allocation. */
void ls_fold_tree(ls_reduce_op op, ls_dtype dtype, void *out, const void *const *leaf, int low, int high, int n,
                  size_t count);
