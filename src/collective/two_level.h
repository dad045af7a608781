/* AUTO between hosts of which some have several workers: memory inside a host, links between hosts. */
#pragma once
#include "collective/reduction.h"
#include "collective/state.h"

/* Whether a call with these leaves can be done so. */
bool ls_two_level_fits(const struct ls_group *group, const int *first);
/* The tree over all leaves; the bits are those of ls_direct_schedule, and so are the bytes that leave a host if it were
 * one worker, times ls_group_factor. */
ls_status ls_two_level(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction);
