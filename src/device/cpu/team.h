/* Loops divided among the threads that the calling thread computes with (its OpenMP team, as oneDNN's). */
#pragma once
#include <stdint.h>

/* The part [begin, end) of a loop. May run in any thread, and must not care which part another one has. */
typedef void ls_team_fn(void *context, int64_t begin, int64_t end);
/* Runs fn over [0, count), in parts of at least grain each. Returns when all is done. */
void ls_team_run(int64_t count, int64_t grain, ls_team_fn *fn, void *context);
