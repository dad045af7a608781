/* Outputs for a few examples, by this worker's first replica alone: serving. The replica's plan for evaluation runs on
 * them without a pipeline. A model whose variables are not all here yet has to predict together with the others once.
 */
#include "train/predict_on_batch.h"

#include "base/memory.h"
#include "base/need.h"
#include "base/shape.h"
#include "model/plan_run.h"
#include "train/input.h"
#include "train/model_build.h"
#include "train/step.h"
#include "train/stored.h"

LS_CLEANER(free_dataset, ls_dataset *, ls_dataset_free);

bool ls_predict_on_batch_ready(const ls_model *model) {
    return model->built.replicas && !model->spec.loaded && !ls_stored_has(model);
}

static ls_status bring_examples(const ls_model *model, const ls_arrays *examples) {
    const struct ls_model_replica *own = &model->built.replicas[0];
    const struct ls_model_input *input = &own->inputs[own->input];
    const void *values = examples->ids ? (const void *)examples->ids : examples->features;
    size_t rows = (size_t)examples->count, size = rows * (size_t)ls_shape_count(&model->built.input) * sizeof(float);
    ls_status status = ls_network_check_ids(model->built.network, values, examples->count);
    return status ? status : own->device->ops->copy_in(own->device, input->features, values, size);
}

static ls_status run_forward(ls_model *model, int64_t rows, float *outputs) {
    struct ls_device *device = model->built.replicas[0].device;
    size_t size = (size_t)(rows * ls_network_outputs(model->built.network)) * sizeof(float);
    struct ls_plan *plan;
    ls_status status = ls_plan_slots_find(model, 0, rows, false, &plan);
    if (!status) status = ls_plan_run(plan, NULL, NULL);
    if (!status) status = ls_device_wait(device);
    if (!status) status = device->ops->copy_out(device, outputs, ls_plan_outputs(plan), size);
    if (status) ls_device_drain(device);
    return status;
}

ls_status ls_predict_on_batch_alone(ls_model *model, ls_predict_alone_fn *run, void *context) {
    struct ls_device *device = model->built.replicas[0].device;
    struct ls_pipeline *fits = model->progress.pipeline;
    struct ls_thread_state before;
    ls_status status = device->ops->enter(device, &before);
    if (status) return status;
    model->progress.pipeline = NULL;
    status = run(model, context);
    model->progress.pipeline = fits;
    device->ops->leave(device, &before);
    return status;
}

struct batch {
    const ls_arrays *examples;
    float *outputs;
};

static ls_status compute_outputs(ls_model *model, void *context) {
    const struct batch *batch = context;
    ls_status status = bring_examples(model, batch->examples);
    return status ? status : run_forward(model, batch->examples->count, batch->outputs);
}

ls_status ls_model_predict_on_batch(ls_model *model, const ls_arrays *examples, float **outputs, ls_shape *shape) {
    LS_NEED(model, examples, outputs, shape);
    LS_CLEANUP(free_dataset) ls_dataset *data = NULL;
    ls_status status =
        ls_dataset_from_arrays(examples, LS_DATASET(.batch_size = examples->count, .shuffle = LS_SHUFFLE_NEVER), &data);
    if (status) return status;
    if (!ls_predict_on_batch_ready(model)) return ls_model_predict(model, data, outputs, shape);
    status = ls_model_build_check(model, data);
    const struct ls_input_room room = {examples->count, 1, (size_t)ls_shape_count(&model->built.input) * sizeof(float)};
    if (!status) status = ls_inputs_reserve(model, room);
    if (status) return status;
    const ls_shape made = ls_shape_of_rows(examples->count, ls_network_output_shape(model->built.network));
    size_t size = (size_t)ls_shape_count(&made) * sizeof(float);
    LS_CLEANUP(ls_free_pointer) float *values = ls_alloc(size);
    if (!values) return ls_fail_memory("outputs", size);
    status = ls_predict_on_batch_alone(model, compute_outputs, &(struct batch){examples, values});
    if (status) return status;
    *shape = made;
    *outputs = ls_steal(values);
    return LS_OK;
}
