/* The shape of the tree of AUTO (RFC 6962's: split at the largest power of two below n). */
#include "collective/tree.h"

int ls_tree_split(int n) {
    return 1 << (31 - __builtin_clz((unsigned)n - 1));
}

struct maximal {
    struct ls_subtree range, *found;
    int count, capacity;
};

static void collect(struct maximal *maximal, int low, int high) {
    const struct ls_subtree *range = &maximal->range;
    if (high <= range->low || low >= range->high) return;
    if (low >= range->low && high <= range->high) {
        if (maximal->count < maximal->capacity) maximal->found[maximal->count] = (struct ls_subtree){low, high};
        maximal->count++;
        return;
    }
    int middle = low + ls_tree_split(high - low);
    collect(maximal, low, middle);
    collect(maximal, middle, high);
}

int ls_tree_maximal(int n, int low, int high, struct ls_subtree *subtrees, int capacity) {
    struct maximal maximal = {{low, high}, subtrees, 0, capacity};
    if (n > 0) collect(&maximal, 0, n);
    return maximal.count;
}
