/* Replicas and rows that a worker has of a batch. */
#include "tools/plan.h"

#include "base/shape.h"
#include "data/division.h"

int ls_plan_share_replicas(const struct ls_tools_planning *planning, int worker) {
    return planning->first[worker + 1] - planning->first[worker];
}

int64_t ls_plan_share_rows(const struct ls_tools_planning *planning, int replica) {
    const struct ls_division_plan plan = {.total = planning->batch,
                                          .batch = planning->batch,
                                          .num_replicas = planning->total,
                                          .num_workers = planning->workers,
                                          .rule = planning->options->division,
                                          .shard = LS_SHARD_DATA};
    return ls_division_share(&plan, 0, replica).count;
}

size_t ls_plan_share_touched(const struct ls_tools_planning *planning, int worker, const struct ls_terms_table *table) {
    size_t ids = (size_t)ls_shape_count(&planning->model->built.input), sum = 0;
    for (int i = planning->first[worker]; i < planning->first[worker + 1]; i++) {
        size_t own = (size_t)ls_plan_share_rows(planning, i) * ids;
        sum += own < (size_t)table->rows ? own : (size_t)table->rows;
    }
    return sum;
}
