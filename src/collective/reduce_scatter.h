/* Reduce-scatter. */
#pragma once
#include "collective/group.h"

/* INVALID_ARGUMENT for what this rank alone can see, as the call gives it. */
ls_status ls_group_reduce_scatter_check(const struct ls_group *group, const struct ls_reduce_scatter *call);
ls_status ls_group_reduce_scatter(struct ls_group *group, const struct ls_reduce_scatter *call);
