/* One all-reduce as its schedules see it, and the schedules. */
#pragma once
#include "collective/hosts.h"
#include "collective/schedule.h"

struct ls_reduction {
    int rank, size;
    size_t element, count;      /* bytes an element, elements */
    int divide;                 /* at the root, for MEAN; 0: none */
    ls_compression compression; /* on links; of float32 only */
    const int *first;           /* [size + 1]: worker w holds leaves [first[w], first[w + 1]) */
    const void *const *inputs;
    void *const *outputs;
    const struct ls_hosts *hosts;
    /* Where a host's ranks work on each other's memory; NULL: every rank on its own. */
    const void *const *leaves; /* [all leaves]: those of this rank's host, as mapped here */
    bool folded;               /* each of the host's maximal subtrees lies folded where its first leaf would */
    void *const *targets;      /* [target_count]: all outputs of this rank's host, the own ones first */
    int target_count;
};
/* RING: the local leaves are folded; block b is summed along the ring of workers from rank b on; an all-gather round
 * the ring follows. */
void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* Direct exchange of maximal subtrees, two steps: to the owner of each block, who finishes the tree, and back. */
void ls_direct_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* The same in one step: every host owns everything. */
void ls_exchange_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* Halving-doubling in its binary-blocks form: 2 * floor(log2(workers)) steps. */
void ls_halving_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
bool ls_halving_fits(const struct ls_reduction *reduction);

/* The maximal subtrees that a host's ranks make up, in leaf order; ranges is scratch for as many as there are ranks.
 * Returns how many; writes at most capacity. */
int ls_host_parts(const struct ls_reduction *reduction, int host, struct ls_subtree *ranges, struct ls_subtree *parts,
                  int capacity);
/* Whether, in direct exchange, this rank is the one of its host that reads and writes owner's block of the elements
 * there; then which bytes that are. */
bool ls_direct_serves(const struct ls_reduction *reduction, int owner, size_t *offset, size_t *size);

static inline const unsigned char *ls_reduction_leaf(const struct ls_reduction *reduction, int leaf) {
    if (reduction->leaves) return reduction->leaves[leaf];
    return reduction->inputs[leaf - reduction->first[reduction->rank]];
}
/* The first of the places for the result. */
static inline unsigned char *ls_reduction_result(const struct ls_reduction *reduction) {
    return reduction->targets ? reduction->targets[0] : reduction->outputs[0];
}
/* Copies bytes [offset, offset + size) of the first place to the others behind action gate. */
void ls_reduction_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                         int gate);
