/* The schedule of RING. */
#pragma once
#include "collective/schedule/reduction.h"

/* RING: the local leaves are folded; block b is summed along the ring of workers from rank b on; an all-gather round
 * the ring follows. */
void ls_ring_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
