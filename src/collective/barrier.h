/* Barrier. */
#pragma once
#include "collective/group.h"

ls_status ls_group_barrier(struct ls_group *group, const char *name);
