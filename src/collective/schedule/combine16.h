/* Adding 16-bit floats: widened to float32, added or multiplied, rounded to nearest even. */
#pragma once
#include "collective/schedule/reduce.h"

/* The loop for dtype FLOAT16 or BFLOAT16. */
ls_combine_fn *ls_combine16(ls_reduce_op op, ls_dtype dtype);
void ls_combine16_divide(ls_dtype dtype, void *data, size_t count, int n);
