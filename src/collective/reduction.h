/* One all-reduce as its schedules see it, and the schedules. */
#pragma once
#include "collective/schedule.h"

struct ls_reduction {
    int rank, size;
    size_t element, count; /* bytes an element, elements */
    int divide;            /* at the root, for MEAN; 0: none */
    const int *first;      /* [size + 1]: worker w holds leaves [first[w], first[w + 1]) */
    const void *const *inputs;
    void *const *outputs;
    unsigned char *scratch; /* as much as ls_direct_scratch says, aligned to 64 */
};
/* RING: the local leaves are folded; block b is summed along the ring of workers from rank b on; an all-gather round
 * the ring follows. */
void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* AUTO: direct exchange of maximal subtrees; the owner of a block finishes the tree. Small counts: every rank owns
 * everything, which halves the steps; the bits are the same. */
void ls_direct_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* Bytes; false when they overflow. */
bool ls_direct_scratch(const struct ls_reduction *reduction, size_t *bytes);
/* Copies bytes [offset, offset + size) of outputs[0] to the other outputs behind action gate. */
void ls_schedule_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                        int gate);
