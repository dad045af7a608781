/* The part of a model, and the replicas and rows of a batch, that a worker has. */
#include "tools/plan.h"

#include "base/shape.h"
#include "data/division.h"

struct ls_shards_of ls_plan_share_of(const struct ls_tools_planning *planning, int worker) {
    const ls_strategy_options *options = &planning->strategy_options;
    if (!planning->divides) return (struct ls_shards_of){LS_SHARDING_NONE, 0, planning->workers, worker};
    return (struct ls_shards_of){options->shard, options->shard_copies, planning->workers, worker};
}

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
