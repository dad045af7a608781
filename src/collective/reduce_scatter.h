/* Reduce-scatter. */
#pragma once
#include "collective/group.h"

ls_status ls_group_reduce_scatter(struct ls_group *group, const struct ls_reduce_scatter *call);
