/* The memory of a worker on paper, by its parts. */
#include "tools/plan.h"

#include "base/new.h"
#include "sync/meeting.h"
#include "train/kept_gradients.h"
#include "train/model_state.h"
#include "train/sparse.h"
#include "train/step.h"

static size_t bytes_between_meetings(const ls_model *model) {
    size_t floats = 2 * ls_model_state_count(model, LS_PARTS_HERE);
    if (ls_model_state_outer(model)) floats += model->built.summed_count;
    return floats * sizeof(float);
}

/* As src/sync/fragments.c allocates it. */
static ls_status count_fragment_bytes(const struct ls_tools_planning *planning, size_t *bytes) {
    const ls_model *model = planning->model;
    const ls_local_sgd_options *local = &planning->strategy->local;
    size_t count = local->fragments ? (size_t)local->fragments : 1;
    if (!ls_fragments_are_wanted(planning->strategy)) return LS_OK;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_bucket, ranges, count, "fragments");
    ls_status status = ls_fragments_check(model);
    if (status) return status;
    size_t floats = (size_t)(2 + ls_meeting_moments(model)) * ls_fragments_cut(model, count, ranges);
    if (local->outer_learning_rate > 0) floats += ls_network_trainable_count(model->built.network);
    *bytes += floats * sizeof(float);
    return LS_OK;
}

static size_t bytes_of_moments(const ls_model *model) {
    return (size_t)ls_optimizer_moments(&model->progress.step.rule) * model->built.summed_count * sizeof(float);
}

/* Of the moments that a worker owns, with what an update takes. */
static size_t bytes_owned(const struct ls_tools_planning *planning, int worker) {
    const struct ls_shards_of of = ls_plan_share_of(planning, worker);
    if (!planning->divides) return 0;
    return ls_shards_planned_bytes(planning->model, &of, (size_t)planning->worker.memory.arena_bytes);
}

size_t ls_plan_memory_gradients(const struct ls_tools_planning *planning, int worker, bool first) {
    const struct ls_shards_of of = ls_plan_share_of(planning, worker);
    return ls_kept_gradients_bytes(planning->model, &of, (size_t)planning->worker.memory.arena_bytes, first);
}

static size_t bytes_whole(const struct ls_tools_planning *planning) {
    return planning->stores || planning->divides ? 0 : bytes_of_moments(planning->model);
}

size_t ls_tools_plan_memory(const struct ls_tools_planning *planning, int worker) {
    const ls_model *model = planning->model;
    size_t arena = (size_t)planning->worker.memory.arena_bytes, whole = bytes_whole(planning);
    size_t bytes = planning->worker.beside + bytes_owned(planning, worker) + ls_plan_wire_parts(planning, worker);
    for (int i = 0; i < ls_plan_share_replicas(planning, worker); i++) {
        bytes += planning->worker.rest + arena + whole + ls_plan_memory_gradients(planning, worker, !i);
        if (ls_strategy_holder(planning->strategy, i) != i) bytes -= model->built.blob_count * sizeof(float) + whole;
        if (ls_turn_arena(model, i) != i) bytes -= arena;
        bytes += ls_sparse_bytes(model, ls_plan_share_rows(planning, planning->first[worker] + i));
    }
    return bytes;
}

ls_status ls_plan_memory_count(struct ls_tools_planning *planning) {
    const ls_model *model = planning->model;
    ls_result *memory = &planning->worker.memory;
    size_t gradients = (model->built.summed_count + LS_EXTRAS) * sizeof(float);
    size_t own = bytes_whole(planning) + bytes_owned(planning, 0) + ls_plan_memory_gradients(planning, 0, true);
    planning->worker.rest = (size_t)(memory->planned_bytes - memory->arena_bytes) - bytes_of_moments(model) - gradients;
    memory->planned_bytes = memory->arena_bytes + (int64_t)(planning->worker.rest + own);
    if (!planning->meets) return LS_OK;
    planning->worker.beside += bytes_between_meetings(model);
    return count_fragment_bytes(planning, &planning->worker.beside);
}
