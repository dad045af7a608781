/* Device memory of training: the planned size, and the measured peak where the device reports it. Both are of the
 * worker's first replica. */
#include "train/fit.h"

#include "base/memory.h"
#include "base/shape.h"
#include "train/kept_gradients.h"
#include "train/model.h"
#include "train/shards.h"
#include "train/staged.h"

static size_t inputs_size(const ls_model *model, const struct ls_model_replica *replica) {
    size_t features = (size_t)ls_shape_count(&model->built.input) * sizeof(float), inputs = 0;
    size_t row = (size_t)(model->built.room.targets + 1) * sizeof(float);
    row += replica->device->host_memory ? features : model->built.room.example;
    for (int i = 0; i < 2; i++) inputs += replica->inputs[i].features != NULL;
    return inputs * (size_t)model->built.room.rows * row;
}

/* Of a replica with variables of its own. */
static size_t floats_on_devices(const ls_model *model) {
    size_t floats = 0;
    for (size_t i = 0; i < model->built.state_count; i++)
        if (ls_part_is_on_devices(&model->built.state[i])) floats += model->built.state[i].count;
    return floats;
}

/* Of the whole worker. arena: of its plans. */
static size_t divided_size(const ls_model *model, size_t arena) {
    const struct ls_shards_of here = ls_shards_here(model);
    return ls_shards_are(model) ? ls_shards_planned_bytes(model, &here, arena) : 0;
}

/* With the numbers behind them. arena: of its plans. */
static size_t gradients_size(const ls_model *model, size_t arena, bool first) {
    const struct ls_shards_of here = ls_shards_here(model);
    return ls_kept_gradients_bytes(model, &here, arena, first);
}

/* The blobs of the first replica; gradients are there from the first step on. */
static size_t blobs_size(const ls_model *model, const struct ls_model_replica *replica) {
    size_t gathered = replica->gathered ? model->built.summed_count : 0;
    return (floats_on_devices(model) + gathered) * sizeof(float) +
           (replica->gradients ? gradients_size(model, replica->arena.size, true) : LS_EXTRAS * sizeof(float));
}

/* Of all replicas here whose blobs lie in host memory. */
static size_t host_bytes(const ls_model *model) {
    size_t bytes = 0, own = floats_on_devices(model) * sizeof(float);
    for (int i = 0; i < model->strategy->local_count; i++) {
        if (!model->strategy->replicas[i].device->host_memory) continue;
        bool holds = ls_strategy_holder(model->strategy, i) == i;
        bytes += gradients_size(model, SIZE_MAX, !i) + (holds ? own : 0); /* gradients; variables and moments */
    }
    return bytes + divided_size(model, SIZE_MAX);
}

ls_status ls_memory_report_check(const ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    struct ls_memory_limit limit = ls_memory_limit_find(runtime->settings.memory_limit, "");
    size_t needed = ls_staged_is(model) ? ls_staged_bytes(model) : host_bytes(model);
    if (needed <= limit.bytes) return LS_OK;
    return ls_fail(LS_RESOURCE_EXHAUSTED,
                   "rank %d needs %zu bytes for variables, moments and gradients of %d replica%s, and %s allows %zu: "
                   "give it fewer devices, workers that own parts of the moments (--shard) or layers (--stages), or "
                   "parameter servers",
                   runtime->rank, needed, model->strategy->local_count, model->strategy->local_count == 1 ? "" : "s",
                   ls_memory_limit_name(limit.of), limit.bytes);
}

void ls_memory_report_fill(const ls_model *model, ls_result *result) {
    if (!model->built.replicas) return;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    size_t peak = 0;
    result->arena_bytes = (int64_t)replica->arena.size;
    if (model->built.stages) {
        result->arena_bytes += (int64_t)ls_staged_arenas(model);
        result->planned_bytes = result->arena_bytes + (int64_t)(ls_staged_bytes(model) + inputs_size(model, replica));
        return;
    }
    result->planned_bytes = (int64_t)(replica->arena.size + blobs_size(model, replica) + inputs_size(model, replica) +
                                      divided_size(model, replica->arena.size));
    if (replica->device->ops->queue && !replica->device->ops->queue->peak(replica->device, &peak))
        result->peak_bytes = (int64_t)peak;
}

void ls_memory_report_log(const ls_model *model, const ls_result *result) {
    const double mega = 1e6;
    const struct ls_runtime *runtime = model->strategy->runtime;
    if (runtime->rank == 0 && result->peak_bytes)
        ls_log_info(&runtime->log, "memory of %s: %.1f MB at the most; planned are %.1f MB, of them %.1f MB for layers",
                    model->built.replicas[0].device->name, (double)result->peak_bytes / mega,
                    (double)result->planned_bytes / mega, (double)result->arena_bytes / mega);
}
