/* AUTO between workers of one host. */
#pragma once
#include "collective/shm/shm_barrier.h"
#include "collective/schedule/reduction.h"

/* True if a call with these leaves can run in shared memory. */
bool ls_shm_all_reduce_fits(const struct ls_shared *shared, const int *first);
/* The tree over all leaves, in shared memory; the bits are those of ls_direct_schedule. */
ls_status ls_shm_all_reduce(struct ls_shared *shared, struct ls_executor *executor, struct ls_schedule *schedule,
                            const struct ls_call *call, const struct ls_reduction *reduction);
