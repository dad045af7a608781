/* The shape of the tree of AUTO (RFC 6962's: split at the largest power of two below n). */
#include "collective/schedule/tree.h"

/* n - 1 has its highest bit at floor(log2(n - 1)), so the shift gives 4 for n = 5 ... 8. The left child is always a
 * complete tree. The leaves 0 ... 2^k - 1 therefore have one and the same tree in every group of 2^k or more leaves,
 * and a worker that holds an aligned power of two of them can fold alone. The depth is ceil(log2 n): the rounding error
 * of a sum grows with log n, where that of a chain grows with n (Higham 1993, "The accuracy of floating point
 * summation", pairwise summation). Addition of floats is not associative; a fixed shape is the only reason why every
 * algorithm gives the same bits. */
int ls_tree_split(int n) {
    return 1 << (31 - __builtin_clz((unsigned)n - 1));
}

struct maximal {
    const struct ls_subtree *ranges;
    int range_count;
    struct ls_subtree *found;
    int count, capacity;
};

/* next is the first range that does not end before low. A node outside of all ranges gives nothing. A node inside of
 * one range is maximal and is taken whole. Any other node asks its children. Both children get the same next, for a
 * range may reach over middle. An end of a range lies on one path from the root, of at most 31 nodes, and each of them
 * gives at most one maximal subtree beside the path; hence the bound in tree.h. Ranges that touch would split the nodes
 * that lie over their border, so the caller joins them. */
static void collect_maximal(struct maximal *maximal, int low, int high, int next) {
    while (next < maximal->range_count && maximal->ranges[next].high <= low) next++;
    if (next == maximal->range_count || maximal->ranges[next].low >= high) return;
    if (maximal->ranges[next].low <= low && high <= maximal->ranges[next].high) {
        if (maximal->count < maximal->capacity) maximal->found[maximal->count] = (struct ls_subtree){low, high};
        maximal->count++;
        return;
    }
    int middle = low + ls_tree_split(high - low);
    collect_maximal(maximal, low, middle, next);
    collect_maximal(maximal, middle, high, next);
}

int ls_tree_maximal(int n, const struct ls_subtree *ranges, int range_count, struct ls_subtree *subtrees,
                    int capacity) {
    struct maximal maximal = {ranges, range_count, subtrees, 0, capacity};
    if (n > 0) collect_maximal(&maximal, 0, n, 0);
    return maximal.count;
}
