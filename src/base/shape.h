/* Shapes of tensors. */
#pragma once
#include <lockstep/lockstep.h>

/* Elements of a shape; -1 when an extent is negative, the rank is bad or the product overflows int64. */
int64_t ls_shape_count(const ls_shape *shape);
/* (rows, extents...) of an example's shape, whose rank is below LS_MAX_RANK. */
ls_shape ls_shape_of_rows(int64_t rows, const ls_shape *example);
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
/* "(28, 28, 1)" in text; "of rank 9" of one that is none. */
void ls_shape_text(const ls_shape *shape, char *text, size_t size);

/* Element types: sizes and names. */

/* INVALID_ARGUMENT for a value that is no ls_dtype. */
ls_status ls_dtype_check(ls_dtype dtype);
