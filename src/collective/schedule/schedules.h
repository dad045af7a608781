/* The schedules of all-reduces over links: a file each. */
#pragma once
#include <stddef.h>

#include "collective/schedule/reduction.h"
#include "collective/schedule/schedule.h"

/* Direct exchange between hosts. Without shared memory every rank is a host. */

/* Direct exchange of maximal subtrees in two steps: hosts send to the owner of each block, which finishes the tree, and
 * the owner sends the result back. */
void ls_direct_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* The workers' part of it to the servers, who own all, and keep the results and copies of them. */
void ls_direct_schedule_push(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* The same in one step: every host owns the whole vector. */
void ls_direct_schedule_exchange(struct ls_schedule *schedule, const struct ls_reduction *reduction);
/* The maximal subtrees that a host's ranks make up, in leaf order; ranges is scratch for as many as there are ranks.
 * Returns how many; writes at most capacity. */
int ls_direct_host_parts(const struct ls_reduction *reduction, int host, struct ls_subtree *ranges,
                         struct ls_subtree *parts, int capacity);
/* True if, in direct exchange, this rank is the one of its host that reads and writes owner's block of the elements in
 * the host's memory; gives the bytes of the block then. */
bool ls_direct_serves(const struct ls_reduction *reduction, int owner, size_t *offset, size_t *size);

/* Halving-doubling in the order of the tree. */

/* Halving-doubling in its binary-blocks form: 2 * floor(log2(workers)) steps. */
void ls_halving_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
bool ls_halving_fits(const struct ls_reduction *reduction);

/* The schedule of RING. */

/* RING: the local leaves are folded; block b is summed along the ring of workers from rank b on; an all-gather round
 * the ring follows. */
void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);

/* Meeting: the schedule of a call that moves nothing but fingerprints. */

/* Up to so many ranks all compare their fingerprints with all, in one step; more of them only along the edges of their
 * schedule, so that the links of a worker do not grow with their number. */
#define LS_MEET_ALL 8

/* Lays out a barrier of count ranks, of which ranks[own] is this one: nobody leaves before all have come. NULL: ranks 0
 * to count - 1. */
void ls_meet_schedule(struct ls_schedule *schedule, const int *ranks, int count, int own);

/* Divides count elements over n ranks: contiguous blocks in rank order, the first count mod n one longer. */

/* The first element of block index; index n gives count. */
static inline size_t ls_block_start(size_t count, int n, int index) {
    size_t parts = (size_t)n, at = (size_t)index, longer = count % parts;
    return count / parts * at + (at < longer ? at : longer);
}
static inline size_t ls_block_count(size_t count, int n, int index) {
    return ls_block_start(count, n, index + 1) - ls_block_start(count, n, index);
}
