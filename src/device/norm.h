/* Norms of variables that are cut over several ops. Squares are added by chunks: the elements of a variable between two
 * multiples of LS_NORM_CHUNK of the blob. The sums of a variable's chunks are added in order, and then those of the
 * variables. So the bits do not depend on who has which chunk. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_NORM_CHUNK 1024
struct ls_norms {
    /* chunks: [count][kinds] the sums of each chunk of each of the op's variables, in order; kinds is 1 or 2.
     * squares: [the op's variables][kinds] those of the whole variables. total: [kinds] of all variables. */
    ls_status (*join)(void *context, const double *chunks, size_t count, int kinds, double *squares, double *total);
    void *context;
};
/* The chunks that elements [offset, offset + count) of a blob touch. */
size_t ls_norm_chunks(size_t offset, size_t count);
/* sum: [kinds] of [count][kinds]. */
void ls_norm_add(const double *values, size_t count, int kinds, double *sum);
