/* The schedules of all-reduces over links: a file each. */
#pragma once
#include "collective/schedule/reduction.h"

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
