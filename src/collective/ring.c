/* The schedule of RING. Step s: a rank sends on the partial of block rank - s and adds its own to what comes of block
 * rank - s - 1; after size - 1 steps it holds the sum of block rank + 1, which then goes round. With compression every
 * partial is rounded before it goes on. */
#include "collective/blocks.h"
#include "collective/wire.h"

struct block {
    size_t offset, size; /* bytes */
};

static struct block block_at(const struct ls_reduction *reduction, int index) {
    int n = reduction->size, wrapped = (index % n + n) % n;
    return (struct block){ls_block_start(reduction->count, n, wrapped) * reduction->element,
                          ls_block_count(reduction->count, n, wrapped) * reduction->element};
}

static unsigned char *result(const struct ls_reduction *reduction, struct block block) {
    return (unsigned char *)reduction->outputs[0] + block.offset;
}

static int next_rank(const struct ls_reduction *reduction) {
    return (reduction->rank + 1) % reduction->size;
}

static int previous_rank(const struct ls_reduction *reduction) {
    return (reduction->rank + reduction->size - 1) % reduction->size;
}

static int local_leaves(const struct ls_reduction *reduction) {
    return reduction->first[reduction->rank + 1] - reduction->first[reduction->rank];
}

/* The local leaves' sum of a block; as the next rank gets it when it is only sent. */
static struct ls_values own_part(struct ls_schedule *schedule, const struct ls_reduction *reduction, struct block block,
                                 bool sent) {
    bool narrow = sent && reduction->compression;
    struct ls_values values = {(const unsigned char *)reduction->inputs[0] + block.offset, false, -1};
    if (local_leaves(reduction) == 1 && !narrow) return values;
    int fold;
    if (narrow) {
        fold = ls_wire_fold(schedule, reduction, NULL, block.size, 0, &values);
    } else {
        struct ls_action action = {.kind = LS_ACTION_FOLD, .to = result(reduction, block), .size = block.size};
        fold = ls_schedule_add(schedule, action);
        values = (struct ls_values){action.to, false, fold};
    }
    for (int i = 0; i < local_leaves(reduction); i++)
        ls_schedule_source(schedule, fold, (struct ls_subtree){i, i + 1},
                           (const unsigned char *)reduction->inputs[i] + block.offset);
    return values;
}

/* Adds the own part to what comes of a block; returns what goes on. */
static struct ls_values add(struct ls_schedule *schedule, const struct ls_reduction *reduction, struct block block,
                            bool last) {
    int divide = last ? reduction->divide : 0, peer = previous_rank(reduction);
    struct ls_values own = own_part(schedule, reduction, block, false), sum;
    if (!reduction->compression) {
        struct ls_action action = {.kind = LS_ACTION_RECEIVE_ADD,
                                   .peer = peer,
                                   .to = result(reduction, block),
                                   .from = own.at,
                                   .size = block.size,
                                   .divide = divide};
        sum = (struct ls_values){action.to, false, ls_schedule_add(schedule, action)};
        ls_schedule_gate(schedule, sum.gate, own.gate);
        return sum;
    }
    struct ls_values partial = ls_wire_receive(schedule, reduction, peer, block.size, false);
    int fold = ls_wire_fold(schedule, reduction, last ? result(reduction, block) : NULL, block.size, divide, &sum);
    ls_wire_source(schedule, fold, (struct ls_subtree){0, 1}, &partial);
    ls_wire_source(schedule, fold, (struct ls_subtree){1, 2}, &own);
    return sum;
}

/* Adds to each block as it passes; returns the sum of the last. */
static struct ls_values reduce_scatter(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    int n = reduction->size;
    struct block block = block_at(reduction, reduction->rank);
    struct ls_values values = own_part(schedule, reduction, block, true);
    for (int step = 1; step < n; step++) {
        (void)ls_wire_send(schedule, next_rank(reduction), &values, block.size);
        block = block_at(reduction, reduction->rank - step);
        values = add(schedule, reduction, block, step == n - 1);
    }
    return values;
}

void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    if (schedule->leaves < 2) schedule->leaves = 2; /* folds pairs too */
    struct ls_values values = reduce_scatter(schedule, reduction);
    struct block block = block_at(reduction, reduction->rank + 1);
    ls_reduction_spread(schedule, reduction, block.offset, block.size, values.gate);
    for (int step = 0, whole; step < reduction->size - 1; step++) {
        (void)ls_wire_send(schedule, next_rank(reduction), &values, block.size);
        block = block_at(reduction, reduction->rank - step);
        values = ls_wire_receive_into(schedule, reduction, previous_rank(reduction), result(reduction, block),
                                      block.size, &whole);
        ls_reduction_spread(schedule, reduction, block.offset, block.size, whole);
    }
}
