/* AUTO between workers of one host. */
#pragma once
#include "collective/meet.h"
#include "collective/reduction.h"

/* Whether a call with these leaves can be done in shared memory. */
bool ls_push_fits(const struct ls_shared *shared, const int *first);
/* The tree over all leaves, in shared memory; the bits are those of ls_direct_schedule. */
ls_status ls_push(struct ls_shared *shared, struct ls_executor *executor, struct ls_schedule *schedule,
                  const struct ls_call *call, const struct ls_reduction *reduction);
