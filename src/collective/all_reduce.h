/* All-reduce. */
#pragma once
#include "collective/group.h"
#include "collective/group_private.h"

/* True if calls with a compression are compressed; calls through shared memory are not. */
bool ls_group_all_reduce_compresses(const struct ls_group *group, ls_communication communication);
/* INVALID_ARGUMENT for what this rank alone can see in all but leaves, count and arrays. */
ls_status ls_group_all_reduce_check(const struct ls_all_reduce *call);
ls_status ls_group_all_reduce(struct ls_group *group, const struct ls_all_reduce *call);
