/* A model's state as one array, and copies of parts of it in host memory. */
#include "train/model_state.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/optimizer.h"
#include "train/model.h"
#include "train/sparse.h"
#include "train/stored.h"

bool ls_model_state_has_outer(const ls_model *model) {
    return model->strategy->local.outer_momentum > 0;
}

static int moments(const ls_model *model) {
    return ls_optimizer_moments(&model->progress.step.rule);
}

/* Those that this worker has. */
static int moments_here(const ls_model *model) {
    return ls_stored_is(model) ? 0 : moments(model);
}

void ls_model_state_name(const ls_model *model, int blob, const char *variable, char *name, size_t size) {
    if (blob > moments(model))
        (void)snprintf(name, size, "outer_momentum/%s", variable);
    else if (blob)
        (void)snprintf(name, size, "optimizer/moment_%d/%s", blob, variable);
    else
        (void)snprintf(name, size, "%s", variable);
}

size_t ls_model_state_count(const ls_model *model) {
    return model->built.blob_count * (size_t)(1 + moments(model) + ls_model_state_has_outer(model));
}

size_t ls_model_state_count_here(const ls_model *model) {
    return model->built.blob_count * (size_t)(1 + moments_here(model) + ls_model_state_has_outer(model));
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
    ls_status status = ls_sparse_refuse(model, "a copy of all variables");
    if (status) return status;
    return device->ops->copy_out(device, parameters, replica->parameters, model->built.blob_count * sizeof(float));
}

ls_status ls_model_state_set_parameters(ls_model *model, const float *parameters) {
    ls_status status = ls_stored_change(model, LS_CHANGED_VARIABLES, NULL);
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        struct ls_device *device = replica->device;
        if (replica->shares) continue;
        status = device->ops->copy_in(device, replica->parameters, parameters, model->built.blob_count * sizeof(float));
    }
    return status;
}

/* Frozen variables have no moments: theirs are zero here. */
static ls_status get_moment(const ls_model *model, int moment, float *to) {
    const struct ls_model_replica *replica = &model->built.replicas[0];
    size_t count = model->built.summed_count;
    memset(to + count, 0, (model->built.blob_count - count) * sizeof(*to));
    return replica->device->ops->copy_out(replica->device, to, replica->moments[moment], count * sizeof(*to));
}

ls_status ls_model_state_get_here(const ls_model *model, float *state) {
    const struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_device *device = replica->device;
    size_t count = model->built.blob_count, size = count * sizeof(float);
    ls_status status = device->ops->copy_out(device, state, replica->parameters, size);
    for (int m = 0; !status && m < moments_here(model); m++)
        status = get_moment(model, m, state + (size_t)(m + 1) * count);
    if (model->built.outer) memcpy(state + (size_t)(moments_here(model) + 1) * count, model->built.outer, size);
    return status;
}

ls_status ls_model_state_put_back(ls_model *model, const float *state) {
    size_t count = model->built.blob_count, size = count * sizeof(float);
    ls_status status = LS_OK;
    if (model->built.outer) memcpy(model->built.outer, state + (size_t)(moments_here(model) + 1) * count, size);
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        struct ls_device *device = replica->device;
        if (replica->shares) continue;
        status = device->ops->copy_in(device, replica->parameters, state, size);
        for (int m = 0; !status && m < moments_here(model); m++)
            status = device->ops->copy_in(device, replica->moments[m], state + (size_t)(m + 1) * count,
                                          model->built.summed_count * sizeof(float));
    }
    return status;
}

ls_status ls_model_state_set_here(ls_model *model, const float *state) {
    ls_status status = ls_stored_change(model, LS_CHANGED_COPIED, NULL);
    return status ? status : ls_model_state_put_back(model, state);
}

/* Moments that no step has changed are zero. */
ls_status ls_model_state_get(const ls_model *model, float *state) {
    const struct ls_model_built *built = &model->built;
    size_t size = ls_model_state_count(model) - ls_model_state_count_here(model);
    if (!ls_stored_has_moments(model))
        return ls_fail(LS_FAILED_PRECONDITION, "the %s after step %lld are on the parameter servers",
                       ls_stored_is(model) ? "moments" : "tables", (long long)model->progress.step.iteration);
    ls_status status = ls_model_state_get_here(model, state);
    if (status || !size) return status;
    if (built->moments)
        memcpy(state + built->blob_count, built->moments, size * sizeof(float));
    else
        memset(state + built->blob_count, 0, size * sizeof(float));
    return LS_OK;
}

ls_status ls_model_state_set(ls_model *model, const float *state) {
    ls_status status = ls_stored_change(model, LS_CHANGED_ALL, state);
    return status ? status : ls_model_state_put_back(model, state);
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
