/* The tree fold, in pieces of PIECE bytes, which stay in the first-level cache. The walk over the tree goes left first:
 * the value of a node's left child waits in a piece of scratch while the right child is folded. So scratch is one piece
 * a level, for any number of leaves. The last value of a piece has been read when the piece is written to out, so out
 * may be any of the inputs. */
#include "collective/schedule/fold.h"

#include <string.h>

enum { PIECE = 2048, LEVELS = 31 }; /* bytes; levels of a tree over any int of leaves */

struct walk {
    const struct ls_fold *fold;
    size_t offset, size; /* the piece */
    unsigned char (*scratch)[PIECE];
};
struct node {
    int low, high;   /* leaves */
    int first, last; /* data that lies in it: [first, last) */
};

/* The index of the first of the node's data that lies at or right of leaf middle. With covers the data are subtrees of
 * any size, so their lows are looked through. Without covers data[i] is leaf low + i, and the index follows from
 * middle; it is clamped since data may cover only a part of the node. */
static int cut_at(const struct ls_fold *fold, const struct node *node, int middle) {
    int at = node->first;
    if (fold->covers) {
        while (at < node->last && fold->covers[at].low < middle) at++;
        return at;
    }
    at = middle - fold->low;
    return at < node->first ? node->first : at > node->last ? node->last : at;
}

/* Descends past nodes with data on one side only, then splits the node; false if a single datum is left. A worker may
 * hold leaves 4 and 5 of 8: then the root has data on its right only, and passes it through unrounded. So a partial sum
 * has the bits that the same node has in a fold of all leaves. */
static bool split(const struct ls_fold *fold, struct node *node, struct node *left, struct node *right) {
    while (node->last - node->first > 1) {
        int middle = node->low + ls_tree_split(node->high - node->low), at = cut_at(fold, node, middle);
        *left = (struct node){node->low, middle, node->first, at};
        *right = (struct node){middle, node->high, at, node->last};
        if (left->first < left->last && right->first < right->last) return true;
        *node = left->first < left->last ? *left : *right;
    }
    return false;
}

/* The address of data[index] for the piece; it is widened into scratch if it is compressed. */
static const void *datum(const struct walk *walk, int index, void *scratch) {
    const struct ls_fold *fold = walk->fold;
    const unsigned char *data = fold->data[index];
    if (!fold->narrow || !fold->narrow[index]) return data + walk->offset;
    fold->conversion->widen(scratch, data + ls_narrow_size(walk->offset), walk->size / sizeof(float));
    return scratch;
}

/* The address of the node's value for the piece, which is out or an input. out is scratch; so is the memory from level
 * on, one piece for each level below. The left value is made in out itself, which nobody has read or written before.
 * The right value needs another place, scratch[level], for the left one waits in out. Every node with data on both
 * sides costs one combine; so count data cost count - 1 combines, and each datum is read once. */
static const void *fold_node(const struct walk *walk, struct node node, void *out, int level) {
    struct node left, right;
    if (!split(walk->fold, &node, &left, &right)) return datum(walk, node.first, out);
    const void *a = fold_node(walk, left, out, level);
    const void *b = fold_node(walk, right, walk->scratch[level], level + 1);
    walk->fold->combine(out, a, b, walk->size / walk->fold->element);
    return out;
}

/* Does fold_node's work for the root, whose out may be an input and so is written last. The root's children get places
 * of their own, scratch[0] and scratch[1]: with them no combine but the last touches out. */
static void fold_root(const struct walk *walk, void *out) {
    struct node root = {0, walk->fold->n, 0, walk->fold->count}, left, right;
    if (!split(walk->fold, &root, &left, &right)) {
        const void *only = datum(walk, root.first, out);
        if (only != out) memcpy(out, only, walk->size);
        return;
    }
    const void *a = fold_node(walk, left, walk->scratch[0], 1);
    const void *b = fold_node(walk, right, walk->scratch[1], 2);
    walk->fold->combine(out, a, b, walk->size / walk->fold->element);
}

/* scratch takes 64 KiB of the caller's stack, of which a fold of n leaves touches 2 KiB for each of its ceil(log2 n)
 * levels and one more. Two data with no compression go to combine as they lie, whatever their size. */
void ls_fold_range(const struct ls_fold *fold, void *out, size_t offset, size_t size) {
    if (fold->n == 2 && fold->count == 2 && !fold->narrow) { /* the most frequent tree, without a walk */
        const unsigned char *const *data = (const unsigned char *const *)fold->data;
        fold->combine(out, data[0] + offset, data[1] + offset, size / fold->element);
        return;
    }
    unsigned char scratch[LEVELS + 1][PIECE] __attribute__((aligned(64)));
    size_t piece = fold->count > 2 || fold->narrow ? PIECE : size; /* two plain inputs need no scratch */
    for (size_t at = 0; at < size; at += piece) {
        struct walk walk = {fold, offset + at, size - at < piece ? size - at : piece, scratch};
        fold_root(&walk, (unsigned char *)out + at);
    }
}

void ls_fold_tree(ls_reduce_op op, ls_dtype dtype, struct ls_fold fold, void *out, size_t count) {
    fold.combine = ls_reduce_combine(op, dtype);
    fold.element = ls_dtype_size(dtype);
    if (fold.count) ls_fold_range(&fold, out, 0, count * fold.element);
}
