/* A model's state as one array, and copies of parts of it in host memory. */
#include "base/memory.h"
#include "strategy/model.h"

static int moments(const ls_model *model) {
    return ls_optimizer_moments(&model->step.rule);
}

size_t ls_model_state_count(const ls_model *model) {
    return model->blob_count * (size_t)(1 + moments(model));
}

ls_status ls_model_copy_out(const ls_model *model, const float *blob, size_t offset, size_t count, float **copy) {
    struct ls_device *device = model->replicas[0].device;
    LS_CLEANUP(ls_free_pointer) float *made = ls_alloc_aligned(count * sizeof(*made));
    if (!made) return ls_fail_memory("a copy of variables", count * sizeof(*made));
    ls_status status = device->ops->copy_out(device, made, blob + offset, count * sizeof(*made));
    if (!status) *copy = ls_steal(made);
    return status;
}

ls_status ls_model_get_parameters(const ls_model *model, float *parameters) {
    const struct ls_model_replica *replica = &model->replicas[0];
    struct ls_device *device = replica->device;
    return device->ops->copy_out(device, parameters, replica->parameters, model->blob_count * sizeof(float));
}

ls_status ls_model_set_parameters(ls_model *model, const float *parameters) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->replicas[i];
        struct ls_device *device = replica->device;
        status = device->ops->copy_in(device, replica->parameters, parameters, model->blob_count * sizeof(float));
    }
    return status;
}

ls_status ls_model_get_state(const ls_model *model, float *state) {
    const struct ls_model_replica *replica = &model->replicas[0];
    struct ls_device *device = replica->device;
    size_t count = model->blob_count, size = count * sizeof(float);
    ls_status status = device->ops->copy_out(device, state, replica->parameters, size);
    for (int m = 0; !status && m < moments(model); m++)
        status = device->ops->copy_out(device, state + (size_t)(m + 1) * count, replica->moments[m], size);
    return status;
}

ls_status ls_model_set_state(ls_model *model, const float *state) {
    size_t count = model->blob_count, size = count * sizeof(float);
    ls_status status = LS_OK;
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->replicas[i];
        struct ls_device *device = replica->device;
        status = device->ops->copy_in(device, replica->parameters, state, size);
        for (int m = 0; !status && m < moments(model); m++)
            status = device->ops->copy_in(device, replica->moments[m], state + (size_t)(m + 1) * count, size);
    }
    return status;
}
