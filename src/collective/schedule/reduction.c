/* The result of an all-reduce in every place that receives it. */
#include "collective/schedule/reduction.h"

void ls_reduction_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                         int gate) {
    void *const *places = reduction->targets ? reduction->targets : reduction->outputs;
    int count = reduction->targets ? reduction->target_count : ls_reduction_leaves(reduction, reduction->rank);
    const unsigned char *from = (const unsigned char *)places[0] + offset;
    for (int i = 1; i < count; i++) {
        unsigned char *to = (unsigned char *)places[i] + offset;
        if (to != from) ls_schedule_gate(schedule, ls_schedule_copy(schedule, to, from, size), gate);
    }
}
