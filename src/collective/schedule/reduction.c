/* The result of an all-reduce in every place that receives it. */
#include "collective/schedule/reduction.h"

static int place_count(const struct ls_reduction *reduction) {
    if (reduction->targets) return reduction->target_count;
    return reduction->first[reduction->rank + 1] - reduction->first[reduction->rank];
}

void ls_reduction_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                         int gate) {
    void *const *places = reduction->targets ? reduction->targets : reduction->outputs;
    const unsigned char *from = (const unsigned char *)places[0] + offset;
    for (int i = 1; i < place_count(reduction); i++) {
        unsigned char *to = (unsigned char *)places[i] + offset;
        if (to != from) ls_schedule_gate(schedule, ls_schedule_copy(schedule, to, from, size), gate);
    }
}
