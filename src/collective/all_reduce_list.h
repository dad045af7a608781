/* All-reduce of a list of arrays in one call: Horovod's grouped_allreduce, torch's all_reduce_coalesced. */
#pragma once
#include "collective/group.h"

struct ls_all_reduce_list {
    struct ls_all_reduce call; /* but for count, inputs, outputs and leaves: a rank has one leaf */
    size_t count;              /* of arrays */
    const size_t *counts;      /* [count] elements of each */
    const void *const *inputs;
    void *const *outputs;
};
/* Each array gets the bits that an all-reduce of it alone gives it. */
ls_status ls_group_all_reduce_list(struct ls_group *group, const struct ls_all_reduce_list *list);
