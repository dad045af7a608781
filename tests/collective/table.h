/* All-reduces of many types, ops and counts, in place and not, over one world; every output is compared with the oracle
 * in bits, and every array must be untouched behind its end. */
#pragma once
#include "collective/world.h"

enum { MAX_LEAVES = 32 };

enum breadth {
    MEANS,     /* MEAN of float32: for counts that take the oracle long */
    TWO_TYPES, /* SUM and MEAN of float32 and float16 */
    ALL_TYPES  /* with every op */
};

struct table {
    const int *first;
    const size_t *counts;
    int count_count;
    enum breadth breadth;
    enum { BOTH, TREE, CHAIN } order;
    ls_compression compression; /* then only SUM and MEAN of float32 */
    const int *hosts; /* [size] of each worker, whose partial results are rounded together; NULL: each alone */
    bool in_memory;   /* nothing is rounded */
    int deal;         /* one case in so many; all with LOCKSTEP_TEST_FULL=1, or 0 */
    int turn;         /* of the dealing, from the world's options */
    /* afterwards */
    size_t cases; /* calls that were compared */
    /* the case that runs */
    unsigned char *leaves[MAX_LEAVES], *expected;
    size_t largest;                  /* count */
    unsigned char *pools[MAX_RANKS]; /* memory of ls_group_share, for the arrays of calls in place; NULL: none */
};
#define COUNTS(array) .counts = array, .count_count = (int)(sizeof(array) / sizeof(array[0]))

void table_run(const struct world_options *options, struct table *table);
