/* The shape of the tree of AUTO (RFC 6962's: split at the largest power of two below n). */
#include "collective/tree.h"

int ls_tree_split(int n) {
    return 1 << (31 - __builtin_clz((unsigned)n - 1));
}

struct maximal {
    const struct ls_subtree *ranges;
    int range_count;
    struct ls_subtree *found;
    int count, capacity;
};

/* next is the first range that does not end before low. */
static void collect(struct maximal *maximal, int low, int high, int next) {
    while (next < maximal->range_count && maximal->ranges[next].high <= low) next++;
    if (next == maximal->range_count || maximal->ranges[next].low >= high) return;
    if (maximal->ranges[next].low <= low && high <= maximal->ranges[next].high) {
        if (maximal->count < maximal->capacity) maximal->found[maximal->count] = (struct ls_subtree){low, high};
        maximal->count++;
        return;
    }
    int middle = low + ls_tree_split(high - low);
    collect(maximal, low, middle, next);
    collect(maximal, middle, high, next);
}

int ls_tree_maximal(int n, const struct ls_subtree *ranges, int range_count, struct ls_subtree *subtrees,
                    int capacity) {
    struct maximal maximal = {ranges, range_count, subtrees, 0, capacity};
    if (n > 0) collect(&maximal, 0, n, 0);
    return maximal.count;
}
