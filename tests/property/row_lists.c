/* Random batches of ids of random replicas, workers and servers: what servers read of them is what workers have told,
 * and the sums of rows are those of an oracle that walks the tree for each row by itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/schedule/tree.h"
#include "property/draw.h"
#include "store/row_lists.h"

enum { MOST_LEAVES = 20, MOST_WORKERS = 6, MOST_IDS = 300, MOST_SERVERS = 7, WIDTH = 3 };

struct case_ {
    struct ls_layout layout;
    int workers, first[MOST_WORKERS + 1];
    int64_t rows;
    bool integers;
    int32_t ids[MOST_LEAVES][MOST_IDS], places[MOST_LEAVES][MOST_IDS];
    size_t counts[MOST_LEAVES];
    struct ls_row_leaf leaves[MOST_LEAVES];
    int32_t lists[MOST_LEAVES][MOST_IDS];
    float gradients[MOST_LEAVES][MOST_IDS][WIDTH]; /* of each of a list's ids */
    char text[128];
};

static void check_status(const struct case_ *one, ls_status status) {
    if (status) trial_fail("%s: %s", one->text, ls_error());
}

static ls_status make_unique(struct case_ *one, int leaf) {
    float floats[MOST_IDS];
    for (size_t i = 0; i < one->counts[leaf]; i++) floats[i] = (float)one->ids[leaf][i];
    const struct ls_tensor ids = {one->integers ? (void *)one->ids[leaf] : floats,
                                  one->integers ? LS_INT32 : LS_FLOAT32, LS_SHAPE(1, (int64_t)one->counts[leaf]), 0};
    return ls_row_lists_unique(&ids, one->layout.holders, &one->leaves[leaf], one->places[leaf]);
}

static void draw_leaf(struct draw *draw, struct case_ *one, int leaf) {
    one->counts[leaf] = draw_once_in(draw, 4) ? 0 : draw_below(draw, MOST_IDS + 1);
    for (size_t i = 0; i < one->counts[leaf]; i++) one->ids[leaf][i] = (int32_t)draw_below(draw, (size_t)one->rows);
    one->leaves[leaf].ids = one->lists[leaf];
    check_status(one, make_unique(one, leaf));
    for (size_t i = 0; i < one->counts[leaf]; i++) {
        size_t place = (size_t)one->places[leaf][i];
        if (place >= one->leaves[leaf].count || one->lists[leaf][place] != one->ids[leaf][i])
            trial_fail("%s: leaf %d, id %zu is at another place", one->text, leaf, i);
    }
    for (size_t i = 0; i < MOST_IDS * WIDTH; i++)
        one->gradients[leaf][i / WIDTH][i % WIDTH] = (float)((double)draw_below(draw, 20001) - 10000) / 777;
}

static void draw_case(uint64_t seed, struct case_ *one) {
    static const size_t most[] = {1, 5, 300, 70000, 1 << 24, INT32_MAX};
    struct draw draw = draw_from(seed, 0);
    memset(one, 0, sizeof(*one));
    one->layout.holders = 1 + (int)draw_below(&draw, MOST_SERVERS);
    one->layout.copies = 1 + (int)draw_below(&draw, (size_t)one->layout.holders);
    one->integers = draw_once_in(&draw, 2);
    one->rows = 1 + (int64_t)draw_below(&draw, most[draw_below(&draw, one->integers ? 6 : 5)]);
    one->workers = 1 + (int)draw_below(&draw, MOST_WORKERS);
    for (int w = 0; w < one->workers; w++)
        one->first[w + 1] = one->first[w] + (int)draw_below(&draw, MOST_LEAVES / MOST_WORKERS + 1);
    (void)snprintf(one->text, sizeof(one->text), "--seed %" PRIu64 ": %d leaves of %d workers, %d servers, %d copies",
                   seed, one->first[one->workers], one->workers, one->layout.holders, one->layout.copies);
    trial_note(one->text);
    for (int leaf = 0; leaf < one->first[one->workers]; leaf++) draw_leaf(&draw, one, leaf);
}

/* ---- the oracle ---- */

/* A leaf's gradient of a row; NULL: it has not got it. */
static const float *find_leaf(const struct case_ *one, int leaf, int32_t id) {
    for (size_t i = 0; i < one->leaves[leaf].count; i++)
        if (one->lists[leaf][i] == id) return one->gradients[leaf][i];
    return NULL;
}

static bool sum_tree(const struct case_ *one, int low, int high, int32_t id, float sum[WIDTH]) {
    float other[WIDTH];
    if (high - low == 1) {
        const float *own = find_leaf(one, low, id);
        if (own) memcpy(sum, own, WIDTH * sizeof(*sum));
        return own;
    }
    int middle = low + ls_tree_split(high - low);
    bool left = sum_tree(one, low, middle, id, sum), right = sum_tree(one, middle, high, id, other);
    for (int k = 0; k < WIDTH && right; k++) sum[k] = left ? sum[k] + other[k] : other[k];
    return left || right;
}

static size_t count_rows(const struct case_ *one, int owner) {
    size_t count = 0;
    for (int leaf = 0; leaf < one->first[one->workers]; leaf++)
        for (size_t i = 0; i < one->leaves[leaf].count; i++) {
            bool first = one->lists[leaf][i] % one->layout.holders == owner;
            for (int before = 0; before < leaf && first; before++) first = !find_leaf(one, before, one->lists[leaf][i]);
            count += first;
        }
    return count;
}

/* ---- the comparison ---- */

static void compare_owner(const struct case_ *one, const struct ls_row_lists *lists, int server, int copy) {
    int owner = ls_layout_before(&one->layout, server, copy);
    float copied[MOST_LEAVES][MOST_IDS][WIDTH], right[WIDTH];
    struct ls_row_sums sums = {NULL, NULL, 0};
    for (int leaf = 0; leaf < lists->leaves; leaf++) {
        struct ls_row_slice *slice = &lists->slices[leaf * one->layout.copies + copy];
        if (slice->count != ls_row_lists_span(&one->leaves[leaf], owner).count)
            trial_fail("%s: leaf %d has %zu ids of server %d", one->text, leaf, slice->count, owner);
        for (size_t i = 0; i < slice->count; i++)
            memcpy(copied[leaf][i], find_leaf(one, leaf, slice->ids[i]), sizeof(right));
        slice->gradients = copied[leaf][0];
    }
    check_status(one, ls_row_lists_add(lists, one->layout.copies, copy, WIDTH, &sums));
    if (sums.count != count_rows(one, owner))
        trial_fail("%s: %zu rows of server %d, not %zu", one->text, sums.count, owner, count_rows(one, owner));
    for (size_t i = 0; i < sums.count; i++) {
        if (i && sums.ids[i] <= sums.ids[i - 1]) trial_fail("%s: ids do not ascend", one->text);
        if (!sum_tree(one, 0, lists->leaves, sums.ids[i], right) ||
            memcmp(sums.gradients + i * WIDTH, right, sizeof(right)) != 0)
            trial_fail("%s: the sum of row %d is another", one->text, sums.ids[i]);
    }
    ls_row_lists_free_sums(&sums);
}

static void compare_server(const struct case_ *one, int server) {
    size_t counts[MOST_WORKERS], sum = 0;
    for (int w = 0; w < one->workers; w++)
        sum += counts[w] = ls_row_lists_encode(one->leaves + one->first[w], one->first[w + 1] - one->first[w],
                                               &one->layout, server, NULL);
    int32_t *words = ls_alloc_array(sum, sizeof(*words)), *at = words;
    struct ls_row_lists lists;
    for (int w = 0; w < one->workers; w++)
        at += ls_row_lists_encode(one->leaves + one->first[w], one->first[w + 1] - one->first[w], &one->layout, server,
                                  at);
    const struct ls_row_words told = {words, counts, one->workers, server, one->rows};
    check_status(one, ls_row_lists_decode(&told, &one->layout, &lists));
    if (lists.leaves != one->first[one->workers] ||
        memcmp(lists.first, one->first, (size_t)(one->workers + 1) * sizeof(*lists.first)) != 0)
        trial_fail("%s: server %d reads other leaves", one->text, server);
    for (int copy = 0; copy < one->layout.copies; copy++) compare_owner(one, &lists, server, copy);
    ls_row_lists_free(&lists);
    ls_free(words);
}

static long one_step(uint64_t seed) {
    static struct case_ one;
    draw_case(seed, &one);
    for (int server = 0; server < one.layout.holders; server++) compare_server(&one, server);
    return 1;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/row_lists", one_step);
}
