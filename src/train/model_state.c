/* A model's state as one array, and copies of parts of it in host memory. */
#include "train/model_state.h"

#include "base/memory.h"
#include "model/rate_schedule.h"
#include "train/model.h"

static int moments(const ls_model *model) {
    return ls_optimizer_moments(&model->progress.step.rule);
}

size_t ls_model_state_count(const ls_model *model) {
    return model->built.blob_count * (size_t)(1 + moments(model));
}

ls_status ls_model_state_copy_out(const ls_model *model, const float *blob, size_t offset, size_t count, float **copy) {
    struct ls_device *device = model->built.replicas[0].device;
    LS_CLEANUP(ls_free_pointer) float *made = ls_alloc_aligned(count * sizeof(*made));
    if (!made) return ls_fail_memory("a copy of variables", count * sizeof(*made));
    ls_status status = device->ops->copy_out(device, made, blob + offset, count * sizeof(*made));
    if (!status) *copy = ls_steal(made);
    return status;
}

ls_status ls_model_state_get_parameters(const ls_model *model, float *parameters) {
    const struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_device *device = replica->device;
    return device->ops->copy_out(device, parameters, replica->parameters, model->built.blob_count * sizeof(float));
}

ls_status ls_model_state_set_parameters(ls_model *model, const float *parameters) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        struct ls_device *device = replica->device;
        if (replica->shares) continue;
        status = device->ops->copy_in(device, replica->parameters, parameters, model->built.blob_count * sizeof(float));
    }
    return status;
}

ls_status ls_model_state_get(const ls_model *model, float *state) {
    const struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_device *device = replica->device;
    size_t count = model->built.blob_count, size = count * sizeof(float);
    ls_status status = device->ops->copy_out(device, state, replica->parameters, size);
    for (int m = 0; !status && m < moments(model); m++)
        status = device->ops->copy_out(device, state + (size_t)(m + 1) * count, replica->moments[m], size);
    return status;
}

ls_status ls_model_state_set(ls_model *model, const float *state) {
    size_t count = model->built.blob_count, size = count * sizeof(float);
    ls_status status = LS_OK;
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        struct ls_device *device = replica->device;
        if (replica->shares) continue;
        status = device->ops->copy_in(device, replica->parameters, state, size);
        for (int m = 0; !status && m < moments(model); m++)
            status = device->ops->copy_in(device, replica->moments[m], state + (size_t)(m + 1) * count, size);
    }
    return status;
}

struct ls_training_progress ls_model_state_progress(const ls_model *model) {
    return (struct ls_training_progress){.step = model->progress.step.iteration,
                                         .learning_rate = model->progress.step.rule.learning_rate,
                                         .last_rate = model->progress.step.last_rate,
                                         .epoch_rate = model->progress.epoch_rate,
                                         .scaler = model->progress.scaler,
                                         .requests = model->progress.requests};
}

void ls_model_state_set_progress(ls_model *model, const struct ls_training_progress *progress) {
    model->progress.step.iteration = progress->step;
    model->progress.step.rule.learning_rate = progress->learning_rate;
    model->progress.step.last_rate = progress->last_rate;
    model->progress.epoch_rate = progress->epoch_rate;
    model->progress.scaler = progress->scaler;
    model->progress.requests = progress->requests;
}

float ls_model_state_changed_rate(const ls_model *model) {
    float rate = model->progress.step.rule.learning_rate;
    bool scheduled = !ls_rate_schedule_is_constant(&model->progress.step.rule.schedule);
    return scheduled || rate == model->spec.compiled_rate ? 0 : rate;
}
