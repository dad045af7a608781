/* The result that an all-reduce must give, computed element by element in the plainest way. */
#pragma once
#include <lockstep/lockstep.h>

struct oracle {
    ls_communication communication;
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count;
    int size;              /* workers */
    const int *first;      /* [size + 1]: worker w holds leaves [first[w], first[w + 1]) */
    const size_t *scatter; /* [size]: of a reduce-scatter, the counts of its parts, whose chains end at their owners */
    ls_compression compression; /* of what a worker, or the workers of a host, give, and of the result */
    const int *hosts;           /* [size] of each worker; NULL: each is one of its own */
};
/* leaves[i] is leaf i's array; expected is the whole vector, of a reduce-scatter too. */
void oracle_all_reduce(const struct oracle *oracle, unsigned char *const *leaves, void *expected);
/* Fills data with values on which the order of addition shows; some are NaN, infinite, denormal or a negative zero. */
void oracle_fill(ls_dtype dtype, void *data, size_t count, uint64_t stream);
/* Bit for bit; a NaN equals any NaN. Returns the first index that differs, count if none. */
size_t oracle_compare(ls_dtype dtype, const void *expected, const void *got, size_t count);
