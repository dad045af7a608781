/* The schedule of AUTO. Every rank sends, for the block that a peer owns, the maximal subtrees that its leaves make up
 * (a single leaf straight from the input, more folded first); the owner finishes the tree and sends the result to all.
 */
#include "collective/blocks.h"
#include "collective/reduction.h"

enum { SMALL = 64 * 1024 }; /* bytes to all peers together up to which every rank owns everything */
enum { MAXIMAL = 2 * 32 };  /* subtrees of any range of leaves */

struct direct {
    struct ls_schedule *schedule;
    const struct ls_reduction *reduction;
    unsigned char *scratch; /* the next free byte */
};
struct block {
    size_t offset, size; /* bytes */
};

static bool everyone_owns(const struct ls_reduction *reduction) {
    size_t peers = (size_t)reduction->size - 1;
    return !peers || reduction->count * reduction->element <= SMALL / peers;
}

static struct block block_of(const struct ls_reduction *reduction, int rank) {
    if (everyone_owns(reduction)) return (struct block){0, reduction->count * reduction->element};
    return (struct block){ls_block_start(reduction->count, reduction->size, rank) * reduction->element,
                          ls_block_count(reduction->count, reduction->size, rank) * reduction->element};
}

static int subtrees_of(const struct ls_reduction *reduction, int rank, struct ls_subtree subtrees[MAXIMAL]) {
    const int *first = reduction->first;
    return ls_tree_maximal(first[reduction->size], first[rank], first[rank + 1], subtrees, MAXIMAL);
}

static size_t slot(size_t size) {
    return (size + 63) & ~(size_t)63;
}

static unsigned char *take(struct direct *direct, size_t size) {
    unsigned char *at = direct->scratch;
    direct->scratch += slot(size);
    return at;
}

static const unsigned char *input(const struct direct *direct, int leaf, size_t offset) {
    const struct ls_reduction *reduction = direct->reduction;
    return (const unsigned char *)reduction->inputs[leaf - reduction->first[reduction->rank]] + offset;
}

/* This rank's result of a subtree for a block: where it lies, and the action that makes it (-1: it lies there). */
static const unsigned char *partial(struct direct *direct, struct ls_subtree subtree, struct block block, int *made) {
    *made = -1;
    if (subtree.high - subtree.low == 1) return input(direct, subtree.low, block.offset);
    unsigned char *to = take(direct, block.size);
    *made = ls_schedule_add(direct->schedule, (struct ls_action){.kind = LS_ACTION_FOLD, .to = to, .size = block.size});
    for (int leaf = subtree.low; leaf < subtree.high; leaf++)
        ls_schedule_source(direct->schedule, *made, (struct ls_subtree){leaf, leaf + 1},
                           input(direct, leaf, block.offset));
    return to;
}

static void send(struct direct *direct, int peer, const unsigned char *from, size_t size, int gate) {
    int action = ls_schedule_add(direct->schedule,
                                 (struct ls_action){.kind = LS_ACTION_SEND, .peer = peer, .from = from, .size = size});
    ls_schedule_gate(direct->schedule, action, gate);
}

/* Own partials to each peer for the block that it owns, the next rank first. */
static void contribute(struct direct *direct) {
    const struct ls_reduction *reduction = direct->reduction;
    struct ls_subtree subtrees[MAXIMAL];
    int count = subtrees_of(reduction, reduction->rank, subtrees), n = reduction->size;
    for (int step = 1; step < n; step++) {
        int peer = (reduction->rank + step) % n, made;
        struct block block = block_of(reduction, peer);
        for (int i = 0; i < count; i++) {
            const unsigned char *from = partial(direct, subtrees[i], block, &made);
            send(direct, peer, from, block.size, made);
        }
    }
}

/* The same when every rank owns everything: each partial is made once and sent to all. */
static void contribute_to_all(struct direct *direct) {
    const struct ls_reduction *reduction = direct->reduction;
    struct ls_subtree subtrees[MAXIMAL];
    int count = subtrees_of(reduction, reduction->rank, subtrees), n = reduction->size, made;
    struct block block = block_of(reduction, reduction->rank);
    for (int i = 0; i < count && n > 1; i++) {
        const unsigned char *from = partial(direct, subtrees[i], block, &made);
        for (int step = 1; step < n; step++) send(direct, (reduction->rank + step) % n, from, block.size, made);
    }
}

/* What the peers contribute to the own block, into consecutive slots. */
static void receive_partials(struct direct *direct, size_t size) {
    const struct ls_reduction *reduction = direct->reduction;
    struct ls_subtree subtrees[MAXIMAL];
    for (int peer = 0; peer < reduction->size; peer++) {
        int count = peer == reduction->rank ? 0 : subtrees_of(reduction, peer, subtrees);
        for (int i = 0; i < count; i++)
            (void)ls_schedule_add(
                direct->schedule,
                (struct ls_action){.kind = LS_ACTION_RECEIVE, .peer = peer, .to = take(direct, size), .size = size});
    }
}

/* The sources of the last fold: own leaves, and the slots that receive_partials has filled from slots on. */
static void add_sources(struct direct *direct, int fold, const unsigned char *slots, struct block block) {
    const struct ls_reduction *reduction = direct->reduction;
    struct ls_subtree subtrees[MAXIMAL];
    for (int rank = 0; rank < reduction->size; rank++) {
        if (rank == reduction->rank) {
            for (int leaf = reduction->first[rank]; leaf < reduction->first[rank + 1]; leaf++)
                ls_schedule_source(direct->schedule, fold, (struct ls_subtree){leaf, leaf + 1},
                                   input(direct, leaf, block.offset));
            continue;
        }
        int count = subtrees_of(reduction, rank, subtrees);
        for (int i = 0; i < count; i++, slots += slot(block.size))
            ls_schedule_source(direct->schedule, fold, subtrees[i], slots);
    }
}

/* The fold of the own block, behind the receives; and, where it may overwrite what is being sent, behind the sends. */
static int finish(struct direct *direct, struct block block) {
    struct ls_schedule *schedule = direct->schedule;
    const struct ls_reduction *reduction = direct->reduction;
    const unsigned char *slots = direct->scratch;
    receive_partials(direct, block.size);
    size_t before = schedule->action_count;
    int fold = ls_schedule_add(schedule, (struct ls_action){.kind = LS_ACTION_FOLD,
                                                            .to = (unsigned char *)reduction->outputs[0] + block.offset,
                                                            .size = block.size,
                                                            .divide = reduction->divide});
    add_sources(direct, fold, slots, block);
    for (size_t i = 0; i < before; i++) {
        enum ls_action_kind kind = schedule->actions[i].kind;
        if (kind == LS_ACTION_RECEIVE || (kind == LS_ACTION_SEND && everyone_owns(reduction)))
            ls_schedule_gate(schedule, fold, (int)i);
    }
    ls_schedule_spread(schedule, reduction, block.offset, block.size, fold);
    return fold;
}

/* The own block's result to all, theirs into place. */
static void exchange_results(struct direct *direct, struct block own, int fold) {
    struct ls_schedule *schedule = direct->schedule;
    const struct ls_reduction *reduction = direct->reduction;
    unsigned char *result = reduction->outputs[0];
    for (int step = 1; step < reduction->size; step++) {
        int peer = (reduction->rank + step) % reduction->size;
        struct block block = block_of(reduction, peer);
        send(direct, peer, result + own.offset, own.size, fold);
        int received = ls_schedule_add(
            schedule, (struct ls_action){
                          .kind = LS_ACTION_RECEIVE, .peer = peer, .to = result + block.offset, .size = block.size});
        ls_schedule_spread(schedule, reduction, block.offset, block.size, received);
    }
}

void ls_direct_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct direct direct = {schedule, reduction, reduction->scratch};
    struct block own = block_of(reduction, reduction->rank);
    if (everyone_owns(reduction)) {
        contribute_to_all(&direct);
        (void)finish(&direct, own);
        return;
    }
    contribute(&direct);
    int fold = finish(&direct, own);
    exchange_results(&direct, own, fold);
}

bool ls_direct_scratch(const struct ls_reduction *reduction, size_t *bytes) {
    struct ls_subtree subtrees[MAXIMAL];
    size_t folded = 0, received = 0, sending, receiving;
    for (int rank = 0; rank < reduction->size; rank++) {
        int count = subtrees_of(reduction, rank, subtrees);
        if (rank != reduction->rank)
            received += (size_t)count;
        else
            for (int i = 0; i < count; i++) folded += subtrees[i].high - subtrees[i].low > 1;
    }
    if (reduction->size == 1) folded = 0;
    size_t all = slot(reduction->count * reduction->element) + 64 * (size_t)reduction->size; /* every block's slot */
    return !__builtin_mul_overflow(folded, all, &sending) &&
           !__builtin_mul_overflow(received, slot(block_of(reduction, reduction->rank).size), &receiving) &&
           !__builtin_add_overflow(sending, receiving, bytes);
}
