/* Sums of squares in a fixed order: eight lanes, then a tree over them, so that every instruction set gives the same
 * bits. */
#pragma once
#include <stddef.h>

#define LS_SQUARES_LANES 8
struct ls_squares {
    double lanes[LS_SQUARES_LANES];
};
/* Adds count values; all but the last call with a multiple of the lanes. */
void ls_squares_add(struct ls_squares *squares, const float *values, size_t count);
double ls_squares_sum(const struct ls_squares *squares);
