/* One all-reduce as its schedules see it. */
#pragma once
#include "collective/schedule/hosts.h"
#include "collective/schedule/schedule.h"

/* The ways to run one; collective/algorithm.c has their table. The numbers go into frames. */
enum ls_algorithm {
    LS_ALGORITHM_AUTO, /* chosen for each call */
    LS_ALGORITHM_SHARED,
    LS_ALGORITHM_TWO_LEVEL,
    LS_ALGORITHM_EXCHANGE,
    LS_ALGORITHM_DIRECT,
    LS_ALGORITHM_RING,
    LS_ALGORITHM_HALVING,
    LS_ALGORITHM_ASSIST, /* direct exchange whose owners are workers and parameter servers */
    LS_ALGORITHM_COUNT
};

struct ls_stripe {
    size_t offset, size; /* bytes */
};

struct ls_reduction {
    int rank, size;
    int servers; /* of the ranks, the highest: they hold no leaf and own blocks */
    /* [servers] NULL, or the bytes that each server owns: they are all of it, and the results stay there */
    const struct ls_stripe *owned;
    int copies;                 /* of owned: the servers behind the owner that get its result, and lie so in outputs */
    size_t element, count;      /* bytes an element, elements */
    int divide;                 /* at the root, for MEAN; 0 if nothing is divided */
    ls_compression compression; /* on links; of float32 only */
    const int *first;           /* [size + 1]: worker w holds leaves [first[w], first[w + 1]), a server none */
    const void *const *inputs;
    void *const *outputs;
    const struct ls_hosts *hosts; /* NULL in what only chooses: every rank has its own */
    /* The leaves of a host whose ranks work on each other's memory; NULL if every rank works on its own. */
    const void *const *leaves; /* [all leaves]: those of this rank's host, as mapped here */
    bool folded;               /* each of the host's maximal subtrees lies folded where its first leaf would */
    void *const *targets;      /* [target_count]: all outputs of this rank's host, the own ones first */
    int target_count;
};

/* Leaves of a rank. */
static inline int ls_reduction_leaves(const struct ls_reduction *reduction, int rank) {
    return reduction->first[rank + 1] - reduction->first[rank];
}
/* Of a leaf. */
static inline size_t ls_reduction_bytes(const struct ls_reduction *reduction) {
    return reduction->count * reduction->element;
}
static inline const unsigned char *ls_reduction_leaf(const struct ls_reduction *reduction, int leaf) {
    if (reduction->leaves) return reduction->leaves[leaf];
    return reduction->inputs[leaf - reduction->first[reduction->rank]];
}
/* The first of the places for the result. */
static inline unsigned char *ls_reduction_result(const struct ls_reduction *reduction) {
    return reduction->targets ? reduction->targets[0] : reduction->outputs[0];
}
/* Copies bytes [offset, offset + size) of the first place to the other places, behind action gate. */
void ls_reduction_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                         int gate);
