/* The right result of a reduction, from its definition: one addition after the other, in the plainest way. lockstep
 * bench --check and the tests of collectives compare with it bit for bit. It shares nothing with the library:
 *   auto  a binary tree over the leaves, split at the largest power of two below their number, the lower ones left;
 *   ring  a block (the elements cut evenly, the first blocks longer) is added from its rank on, around the ring; in a
 *         reduce-scatter from the next rank on, so that it ends at its owner.
 * A sum is rounded to the type at every addition, in 16-bit types from float32. A mean divides the sum once.
 * Compression rounds each leaf before it is added, or the sum of a subtree whose leaves are on one host. Around the
 * ring it rounds every sum before that goes to the next rank. It rounds the result too. */
#pragma once
#include <lockstep/lockstep.h>

#define ORACLE_BLOCK 256 /* elements that are computed at a time */

struct oracle {
    ls_communication communication;
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count;
    int size;              /* workers */
    const int *first;      /* [size + 1]: worker w holds leaves [first[w], first[w + 1]); NULL: leaf w */
    const size_t *scatter; /* [size]: of a reduce-scatter, the counts of its parts, whose chains end at their owners */
    ls_compression compression; /* of what a worker, or the workers of a host, give, and of the result */
    const int *hosts;           /* [size] of each worker; NULL: each is one of its own */
};
/* leaves[i] is leaf i's array; expected is the whole vector, of a reduce-scatter too. */
void oracle_all_reduce(const struct oracle *oracle, unsigned char *const *leaves, void *expected);
/* Elements [index, index + count) of those arrays, at most ORACLE_BLOCK, to expected. The ring begins at worker begin.
 */
void oracle_reduce(const struct oracle *oracle, int begin, unsigned char *const *leaves, size_t index, size_t count,
                   void *expected);

/* Neighbours: numbers of a float type, and integers of the others. */
union oracle_values {
    double numbers[ORACLE_BLOCK];
    int64_t integers[ORACLE_BLOCK];
};
/* Writes count values to data. Floats are rounded to the nearest of the type, integers wrap. */
void oracle_store(ls_dtype dtype, unsigned char *data, size_t count, const union oracle_values *values);
/* Makes each value the one that oracle_store would write. */
void oracle_round(ls_dtype dtype, size_t count, union oracle_values *values);
/* Fills data with values on which the order of addition shows; some are NaN, infinite, denormal or a negative zero. */
void oracle_fill(ls_dtype dtype, void *data, size_t count, uint64_t stream);
/* Bit for bit; a NaN equals any NaN. Returns the first index that differs, count if none. */
size_t oracle_compare(ls_dtype dtype, const void *expected, const void *got, size_t count);
