/* All-to-all. */
#pragma once
#include "collective/group.h"

/* MPI_Alltoallv, where each rank knows what it receives. */
ls_status ls_group_all_to_all(struct ls_group *group, const struct ls_all_to_all *call);
