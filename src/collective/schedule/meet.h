/* Meeting: the schedule of a call that moves nothing but fingerprints. */
#pragma once
#include "collective/schedule/schedule.h"

/* Up to so many ranks all compare their fingerprints with all, in one step; more of them only along the edges of their
 * schedule, so that the links of a worker do not grow with their number. */
#define LS_MEET_ALL 8

/* Lays out a barrier of count ranks, of which ranks[own] is this one: nobody leaves before all have come. NULL: ranks 0
 * to count - 1. */
void ls_meet_schedule(struct ls_schedule *schedule, const int *ranks, int count, int own);
