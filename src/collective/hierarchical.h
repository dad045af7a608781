/* AUTO between hosts of which some have several workers: memory inside a host, links between hosts. */
#pragma once
#include "collective/schedule/reduction.h"
#include "collective/group_private.h"

/* True if the algorithm can run the call. */
bool ls_hierarchical_fits(const struct ls_group *group, const struct ls_reduction *reduction);
/* The tree over all leaves; the bits are those of ls_direct_schedule, and so are the bytes that leave a host if it were
 * one worker, times the group's factor. */
ls_status ls_hierarchical(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction);
