/* The hosts of a communicator's ranks: Horovod's local and cross ranks. */
#pragma once
#include "runtime/runtime.h"

struct ls_places {
    int local_rank, local_size; /* among the ranks on this host */
    int cross_rank, cross_size; /* among the hosts that have a rank of this local rank, by their first ranks */
    bool homogeneous;           /* all hosts have as many ranks */
};
/* Of place own of a list of count ranks of the runtime's group; NULL: of all its ranks. */
struct ls_places ls_places_find(const struct ls_runtime *runtime, const int *ranks, int count, int own);
