/* The fixed order of addition of AUTO: a binary tree over n leaves (replica ids), split at the largest power of two
 * below n, the lower ids left (the shape of RFC 6962's Merkle trees). Pure arithmetic. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_subtree {
    int low, high; /* leaves [low, high) */
};
/* The largest power of two below n (n >= 2): where a node of n leaves is split. */
int ls_tree_split(int n);
/* The maximal subtrees of the tree over n leaves that lie inside the union of ranges, in leaf order; ranges are
 * ascending and do not touch. Returns how many; writes at most capacity (2 * 32 a range is always enough). */
int ls_tree_maximal(int n, const struct ls_subtree *ranges, int range_count, struct ls_subtree *subtrees, int capacity);
