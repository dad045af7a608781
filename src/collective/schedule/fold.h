/* Folding partial results along the tree: the leaves of ls_fold_tree, or subtrees that other workers have folded. */
#pragma once
#include "collective/schedule/convert.h"
#include "collective/schedule/reduce.h"
#include "collective/schedule/tree.h"

struct ls_fold {
    ls_combine_fn *combine;
    size_t element;                  /* bytes */
    int n;                           /* leaves of the whole tree */
    int low;                         /* without covers: data[i] is leaf low + i */
    int count;                       /* of data, at least 1 */
    const void *const *data;         /* in leaf order */
    const struct ls_subtree *covers; /* the node of the tree whose result data[i] is; NULL if data are single leaves */
    const bool *narrow; /* [count]: data[i] is compressed float32, but counted as float32; NULL if none is */
    const struct ls_conversion *conversion; /* of those */
};
/* Folds bytes [offset, offset + size) of every data[i] into out (which stands for offset itself). A side of the tree
 * of which nothing is given passes the other side through. */
void ls_fold_range(const struct ls_fold *fold, void *out, size_t offset, size_t size);
/* The same of count elements; fold has n, low, count and data. out may be any of the leaves. Works in pieces that fit
 * the cache. Inner nodes get a scratch of their own; no allocation. */
void ls_fold_tree(ls_reduce_op op, ls_dtype dtype, struct ls_fold fold, void *out, size_t count);
