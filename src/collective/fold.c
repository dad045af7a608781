/* The tree fold, in pieces that stay in the first-level cache: a node's left value waits in a piece of scratch while
 * the right one is folded, so that scratch is one piece a level, whatever the number of leaves. out is written only
 * when the piece's last value has been read, and so may be any of the inputs. */
#include "collective/fold.h"

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

/* The first of the node's data that lies at or right of leaf middle. */
static int cut(const struct ls_fold *fold, const struct node *node, int middle) {
    int at = node->first;
    if (fold->covers) {
        while (at < node->last && fold->covers[at].low < middle) at++;
        return at;
    }
    at = middle - fold->low;
    return at < node->first ? node->first : at > node->last ? node->last : at;
}

/* Goes down past nodes with only one side, then tells where to split; false when a single datum is left. */
static bool split(const struct ls_fold *fold, struct node *node, struct node *left, struct node *right) {
    while (node->last - node->first > 1) {
        int middle = node->low + ls_tree_split(node->high - node->low), at = cut(fold, node, middle);
        *left = (struct node){node->low, middle, node->first, at};
        *right = (struct node){middle, node->high, at, node->last};
        if (left->first < left->last && right->first < right->last) return true;
        *node = left->first < left->last ? *left : *right;
    }
    return false;
}

/* data[index] for the piece: where it lies, which is scratch if it is compressed. */
static const void *datum(const struct walk *walk, int index, void *scratch) {
    const struct ls_fold *fold = walk->fold;
    const unsigned char *data = fold->data[index];
    if (!fold->narrow || !fold->narrow[index]) return data + walk->offset;
    fold->conversion->widen(scratch, data + ls_narrow_size(walk->offset), walk->size / sizeof(float));
    return scratch;
}

/* The node's value for the piece: where it lies, which is out or an input. out is scratch; so is what lies from level
 * on, one piece for each level below. */
static const void *fold_node(const struct walk *walk, struct node node, void *out, int level) {
    struct node left, right;
    if (!split(walk->fold, &node, &left, &right)) return datum(walk, node.first, out);
    const void *a = fold_node(walk, left, out, level);
    const void *b = fold_node(walk, right, walk->scratch[level], level + 1);
    walk->fold->combine(out, a, b, walk->size / walk->fold->element);
    return out;
}

/* As fold_node for the root, whose out may be an input and so is written last. */
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

void ls_fold_range(const struct ls_fold *fold, void *out, size_t offset, size_t size) {
    unsigned char scratch[LEVELS + 1][PIECE] __attribute__((aligned(64)));
    size_t piece = fold->count > 2 || fold->narrow ? PIECE : size; /* two plain inputs need no scratch */
    for (size_t at = 0; at < size; at += piece) {
        struct walk walk = {fold, offset + at, size - at < piece ? size - at : piece, scratch};
        fold_root(&walk, (unsigned char *)out + at);
    }
}

void ls_fold_tree(ls_reduce_op op, ls_dtype dtype, void *out, const void *const *leaf, int low, int high, int n,
                  size_t count) {
    struct ls_fold fold = {.combine = ls_combine(op, dtype),
                           .element = ls_dtype_size(dtype),
                           .n = n,
                           .low = low,
                           .count = high - low,
                           .data = leaf};
    if (low < high) ls_fold_range(&fold, out, 0, count * fold.element);
}
