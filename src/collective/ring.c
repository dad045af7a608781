/* The schedule of RING. Step s: a rank sends on the partial of block rank - s and adds its own to what comes of block
 * rank - s - 1; after size - 1 steps it holds the sum of block rank + 1, which then goes round. */
#include "collective/blocks.h"
#include "collective/reduction.h"

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

/* The local leaves' sum of a block: where it lies, and the action that makes it (-1: one leaf, lies there already). */
static const unsigned char *own_part(struct ls_schedule *schedule, const struct ls_reduction *reduction,
                                     struct block block, int *action) {
    int leaves = schedule->leaves;
    *action = -1;
    if (leaves == 1) return (const unsigned char *)reduction->inputs[0] + block.offset;
    *action = ls_schedule_add(
        schedule, (struct ls_action){.kind = LS_ACTION_FOLD, .to = result(reduction, block), .size = block.size});
    for (int i = 0; i < leaves; i++)
        ls_schedule_source(schedule, *action, (struct ls_subtree){i, i + 1},
                           (const unsigned char *)reduction->inputs[i] + block.offset);
    return result(reduction, block);
}

static void send(struct ls_schedule *schedule, const struct ls_reduction *reduction, const unsigned char *from,
                 struct block block, int gate) {
    struct ls_action action = {
        .kind = LS_ACTION_SEND, .peer = (reduction->rank + 1) % reduction->size, .from = from, .size = block.size};
    ls_schedule_gate(schedule, ls_schedule_add(schedule, action), gate);
}

static struct ls_action receive(enum ls_action_kind kind, const struct ls_reduction *reduction, struct block block) {
    return (struct ls_action){.kind = kind,
                              .peer = (reduction->rank + reduction->size - 1) % reduction->size,
                              .to = result(reduction, block),
                              .size = block.size};
}

/* Adds to each block as it passes; returns the action that completes the last. */
static int reduce_scatter(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    int n = reduction->size, made;
    struct block block = block_at(reduction, reduction->rank);
    const unsigned char *from = own_part(schedule, reduction, block, &made);
    for (int step = 1; step < n; step++) {
        send(schedule, reduction, from, block, made);
        block = block_at(reduction, reduction->rank - step);
        int own;
        struct ls_action action = receive(LS_ACTION_RECEIVE_ADD, reduction, block);
        action.from = own_part(schedule, reduction, block, &own);
        action.divide = step == n - 1 ? reduction->divide : 0;
        made = ls_schedule_add(schedule, action);
        ls_schedule_gate(schedule, made, own);
        from = result(reduction, block);
    }
    return made;
}

void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    int made = reduce_scatter(schedule, reduction);
    struct block block = block_at(reduction, reduction->rank + 1);
    ls_schedule_spread(schedule, reduction, block.offset, block.size, made);
    for (int step = 0; step < reduction->size - 1; step++) {
        send(schedule, reduction, result(reduction, block), block, made);
        block = block_at(reduction, reduction->rank - step);
        made = ls_schedule_add(schedule, receive(LS_ACTION_RECEIVE, reduction, block));
        ls_schedule_spread(schedule, reduction, block.offset, block.size, made);
    }
}

void ls_schedule_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                        int gate) {
    int outputs = reduction->first[reduction->rank + 1] - reduction->first[reduction->rank];
    const unsigned char *from = (const unsigned char *)reduction->outputs[0] + offset;
    for (int i = 1; i < outputs; i++) {
        unsigned char *to = (unsigned char *)reduction->outputs[i] + offset;
        if (to == from) continue;
        struct ls_action copy = {.kind = LS_ACTION_COPY, .to = to, .from = from, .size = size};
        ls_schedule_gate(schedule, ls_schedule_add(schedule, copy), gate);
    }
}
