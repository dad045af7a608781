/* Device memory of training: the planned size, and the measured peak where the device reports it. Both are of the
 * worker's first replica. */
#include "train/memory_report.h"

#include "base/shape.h"
#include "train/model.h"

static size_t inputs_size(const ls_model *model, const struct ls_model_replica *replica) {
    size_t row = (size_t)(ls_shape_count(&model->built.input) + model->built.max_targets + 1) * sizeof(float),
           inputs = 0;
    for (int i = 0; i < 2; i++) inputs += replica->inputs[i].features != NULL;
    return inputs * (size_t)model->built.max_rows * row;
}

/* The blobs; gradients are there from the first step on. */
static size_t blobs_size(const ls_model *model, const struct ls_model_replica *replica) {
    size_t blobs = (replica->parameters != NULL) + (size_t)(replica->gradients != NULL) + (replica->gathered != NULL);
    for (int i = 0; i < LS_MAX_MOMENTS; i++) blobs += replica->moments[i] != NULL;
    return (blobs * model->built.blob_count + LS_EXTRAS) * sizeof(float);
}

void ls_memory_report_fill(const ls_model *model, ls_result *result) {
    if (!model->built.replicas) return;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    size_t peak = 0;
    result->arena_bytes = (int64_t)replica->arena.size;
    result->planned_bytes = (int64_t)(replica->arena.size + blobs_size(model, replica) + inputs_size(model, replica));
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
