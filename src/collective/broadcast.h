/* Broadcast. */
#pragma once
#include "collective/group.h"

/* INVALID_ARGUMENT for what this rank alone can see, as the call gives it. */
ls_status ls_group_broadcast_check(const struct ls_group *group, const char *name, int root, ls_dtype dtype,
                                   const void *data, size_t count);
/* Of rank 0, each rank hears from it directly, so that a parameter server finds its frame. In a group with servers. */
ls_status ls_group_broadcast_directly(struct ls_group *group, const char *name, ls_dtype dtype, void *data,
                                      size_t count);
/* Broadcasts size bytes from root's data to the data of all ranks. */
ls_status ls_group_broadcast(struct ls_group *group, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count);
