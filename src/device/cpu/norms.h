/* Sums of squares of an optimizer op's variables. */
#pragma once
#include "device/op.h"

/* Writes the sums of elements [at, at + count) of the blob, which are of one chunk. */
typedef void ls_cpu_square_fn(const void *context, size_t at, size_t count, double *squares);
/* squares: [variable_count][kinds], total: [kinds]. The sums of a variable's chunks are added in order, and then those
 * of the variables. So the bits do not depend on how variables are cut over ops, at multiples of LS_NORM_CHUNK. */
ls_status ls_cpu_norms(const struct ls_op *op, int kinds, ls_cpu_square_fn *square, const void *context,
                       double *squares, double *total);
