/* Broadcast. */
#pragma once
#include "collective/group.h"

/* Broadcasts size bytes from root's data to the data of all ranks. */
ls_status ls_group_broadcast(struct ls_group *group, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count);
