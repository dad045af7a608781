/* The schedule of RING. The vector is cut into size blocks; n is size, and indices of blocks are modulo n.
 *  - Reduce-scatter: in step s = 1 ... n - 1 rank r sends block r - s + 1 to rank r + 1, receives block r - s from rank
 *    r - 1 and adds its own part to it. After n - 1 steps rank r holds the sum of block r + 1.
 *  - All-gather: in n - 1 more steps the sums go round the ring, and each rank passes on the block that it has
 *    received.
 * Each rank sends 2 (n - 1) / n of the vector. With compression every partial sum is rounded before it is sent. The
 * algorithm is that of Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations":
 * no all-reduce of n ranks sends less from its busiest rank. TensorFlow has it as RingReducer behind
 * CommunicationImplementation.RING. Block b is added as the chain b, b + 1, ..., b - 1 (mod n), left to right. Its bits
 * therefore depend on the number of workers and on the borders of the blocks, and the rounding error grows with n. AUTO
 * stays in the order of the tree and leaves RING to those who ask for it. */
#include "collective/schedule/schedules.h"

#include "collective/schedule/wire.h"

enum { SHORT_RING = 8 /* ranks: n - 1 folds a block */ };

static struct ls_stripe block_at(const struct ls_reduction *reduction, int index) {
    int n = reduction->size, wrapped = (index % n + n) % n;
    return (struct ls_stripe){ls_block_start(reduction->count, n, wrapped) * reduction->element,
                              ls_block_count(reduction->count, n, wrapped) * reduction->element};
}

static unsigned char *result(const struct ls_reduction *reduction, struct ls_stripe block) {
    return (unsigned char *)reduction->outputs[0] + block.offset;
}

static int next_rank(const struct ls_reduction *reduction) {
    return (reduction->rank + 1) % reduction->size;
}

static int previous_rank(const struct ls_reduction *reduction) {
    return (reduction->rank + reduction->size - 1) % reduction->size;
}

static void add_leaves(struct ls_schedule *schedule, const struct ls_reduction *reduction, int fold, size_t offset) {
    for (int i = 0; i < ls_reduction_leaves(reduction, reduction->rank); i++)
        ls_schedule_source(schedule, fold, (struct ls_subtree){i, i + 1},
                           (const unsigned char *)reduction->inputs[i] + offset);
}

static struct ls_values fold_leaves(struct ls_schedule *schedule, const struct ls_reduction *reduction,
                                    struct ls_stripe block, void *to) {
    struct ls_action action = {.kind = LS_ACTION_FOLD, .to = to, .size = block.size};
    const struct ls_values values = {to, .gate = ls_schedule_add(schedule, action)};
    add_leaves(schedule, reduction, values.gate, block.offset);
    return values;
}

/* The sum of the local leaves of a block. If it is only sent, it has the form in which the next rank receives it. The
 * folds of this schedule run over the local leaves alone: algorithm.c has reset it with their number. A worker of one
 * leaf sends from its input, without a copy. */
static struct ls_values own_part(struct ls_schedule *schedule, const struct ls_reduction *reduction,
                                 struct ls_stripe block, bool sent) {
    bool narrow = sent && reduction->compression;
    struct ls_values values = {(const unsigned char *)reduction->inputs[0] + block.offset, false, -1};
    if (!narrow && ls_reduction_leaves(reduction, reduction->rank) == 1) return values;
    if (!narrow) return fold_leaves(schedule, reduction, block, result(reduction, block));
    int fold = ls_wire_fold(schedule, reduction, (struct ls_action){.size = block.size}, &values);
    add_leaves(schedule, reduction, fold, block.offset);
    return values;
}

/* Adds the own part to the block that the previous rank sends; returns the values that are sent on. The sum of the
 * previous ranks is the left operand and the own part the right one, with compression as well as without. A gate on
 * own.gate keeps the addition behind the fold of the local leaves. The MEAN is divided by the last rank of the chain
 * only, once for each block. */
static struct ls_values receive_and_add(struct ls_schedule *schedule, const struct ls_reduction *reduction,
                                        struct ls_stripe block, bool last) {
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
    struct ls_action action = {.to = last ? result(reduction, block) : NULL, .size = block.size, .divide = divide};
    int fold = ls_wire_fold(schedule, reduction, action, &sum);
    ls_wire_source(schedule, fold, (struct ls_subtree){0, 1}, &partial);
    ls_wire_source(schedule, fold, (struct ls_subtree){1, 2}, &own);
    return sum;
}

/* The reduce-scatter; returns the sum of the last block. Each send is gated by the values that it sends, byte by byte.
 * So rank r passes on the head of a block while its tail is still coming, and the n - 1 steps overlap. */
static struct ls_values reduce_blocks(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    int n = reduction->size;
    struct ls_stripe block = block_at(reduction, reduction->rank);
    struct ls_values values = own_part(schedule, reduction, block, true);
    for (int step = 1; step < n; step++) {
        (void)ls_wire_send(schedule, next_rank(reduction), &values, block.size);
        block = block_at(reduction, reduction->rank - step);
        values = receive_and_add(schedule, reduction, block, step == n - 1);
    }
    return values;
}

/* ---- short vectors ---- */

/* Each rank receives all n parts, which go round the ring whole, and adds up every block in its order: the same bits in
 * n - 1 steps. It sends n - 1 vectors, so the vector is one that takes less time than a step. Two ranks send no more
 * than in two steps. */
static bool is_short(const struct ls_reduction *reduction) {
    size_t limit = (size_t)(reduction->size == 2 ? 16 : 4) << 10;
    bool few = reduction->size > 1 && reduction->size <= SHORT_RING;
    return few && !reduction->compression && ls_reduction_bytes(reduction) <= limit;
}

/* A single leaf lies in the input, more are folded. */
static struct ls_values whole_part(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct ls_stripe whole = {0, ls_reduction_bytes(reduction)};
    if (ls_reduction_leaves(reduction, reduction->rank) == 1)
        return (struct ls_values){reduction->inputs[0], .gate = -1};
    return fold_leaves(schedule, reduction, whole, ls_schedule_take(schedule, whole.size));
}

static void add_part(struct ls_schedule *schedule, int fold, int side, const struct ls_values *values, size_t offset) {
    ls_schedule_source(schedule, fold, (struct ls_subtree){side, side + 1}, values->at + offset);
    ls_schedule_gate_at(schedule, fold, values->gate, offset);
}

/* parts: of all ranks. Returns the last fold of the chain that begins at rank b. */
static int fold_chain(struct ls_schedule *schedule, const struct ls_reduction *reduction, const struct ls_values *parts,
                      int b) {
    int n = reduction->size, fold = -1;
    struct ls_stripe block = block_at(reduction, b);
    struct ls_values sum = parts[b];
    for (int step = 1; step < n; step++) {
        bool last = step == n - 1;
        struct ls_action action = {.kind = LS_ACTION_FOLD, .size = block.size, .divide = last ? reduction->divide : 0};
        action.to = last ? result(reduction, block) : ls_schedule_take(schedule, block.size);
        fold = ls_schedule_add(schedule, action);
        add_part(schedule, fold, 0, &sum, step == 1 ? block.offset : 0);
        add_part(schedule, fold, 1, &parts[(b + step) % n], block.offset);
        sum = (struct ls_values){action.to, .gate = fold};
    }
    return fold;
}

/* The result may lie where the own part does: it waits until that has left. */
static void pass_whole_parts(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct ls_values parts[SHORT_RING];
    int n = reduction->size, rank = reduction->rank, whole;
    size_t bytes = ls_reduction_bytes(reduction);
    parts[rank] = whole_part(schedule, reduction);
    int sent = ls_wire_send(schedule, next_rank(reduction), &parts[rank], bytes);
    for (int step = 1; step < n; step++) {
        int from = (rank + n - step) % n;
        struct ls_action receive = {
            .peer = previous_rank(reduction), .to = ls_schedule_take(schedule, bytes), .size = bytes};
        parts[from] = ls_wire_receive_into(schedule, reduction, receive, &whole);
        if (step < n - 1) (void)ls_wire_send(schedule, next_rank(reduction), &parts[from], bytes);
    }
    for (int b = 0; b < n && !schedule->out_of_memory; b++) {
        struct ls_stripe block = block_at(reduction, b);
        if (!block.size) continue;
        int fold = fold_chain(schedule, reduction, parts, b);
        ls_schedule_gate_at(schedule, fold, sent, block.offset);
        ls_reduction_spread(schedule, reduction, block.offset, block.size, fold);
    }
}

void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    if (schedule->leaves < 2) schedule->leaves = 2; /* folds pairs too */
    if (is_short(reduction)) {
        pass_whole_parts(schedule, reduction);
        return;
    }
    struct ls_values values = reduce_blocks(schedule, reduction);
    struct ls_stripe block = block_at(reduction, reduction->rank + 1);
    ls_reduction_spread(schedule, reduction, block.offset, block.size, values.gate);
    for (int step = 0, whole; step < reduction->size - 1; step++) {
        (void)ls_wire_send(schedule, next_rank(reduction), &values, block.size);
        block = block_at(reduction, reduction->rank - step);
        struct ls_action from = {.peer = previous_rank(reduction), .to = result(reduction, block), .size = block.size};
        values = ls_wire_receive_into(schedule, reduction, from, &whole);
        ls_reduction_spread(schedule, reduction, block.offset, block.size, whole);
    }
}
