/* Halving-doubling in the order of the tree. */
#pragma once
#include "collective/schedule/reduction.h"

/* Halving-doubling in its binary-blocks form: 2 * floor(log2(workers)) steps. */
void ls_halving_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction);
bool ls_halving_fits(const struct ls_reduction *reduction);
