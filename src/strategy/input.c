/* Batches on the replicas' devices. Where a device has no host memory they go through memory that it has pinned, beside
 * the computing, and while it computes a step the next one's examples are brought into the other of its two inputs. The
 * pipeline does not know: what was copied ahead is taken if it is of the step that the pipeline stands at when it is
 * wanted, and dropped if it is not, as after a recovery. */
#include "base/dtype.h"
#include "strategy/model.h"

static bool is_far(const struct ls_model_replica *replica) {
    return !replica->device->host_memory;
}

/* ---- memory ---- */

static void release_input(struct ls_device *device, struct ls_model_input *input) {
    if (input->features) device->ops->release(device, input->features);
    if (input->labels) device->ops->release(device, input->labels);
    if (input->host_features) ls_device_release_host(device, input->host_features);
    if (input->host_labels) ls_device_release_host(device, input->host_labels);
    *input = (struct ls_model_input){0};
}

void ls_inputs_release(struct ls_model_replica *replica) {
    ls_device_drain(replica->device); /* copies may be on their way */
    ls_model_drop_plans(replica);     /* they point into the inputs */
    for (int i = 0; i < 2; i++) release_input(replica->device, &replica->inputs[i]);
    replica->input = 0;
}

static ls_status allocate_input(const struct ls_model_replica *replica, size_t rows, size_t width,
                                struct ls_model_input *input) {
    struct ls_device *device = replica->device;
    size_t features = rows * width * sizeof(float), labels = rows * sizeof(int32_t);
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, features, &memory);
    if (!status) input->features = memory;
    if (!status) status = device->ops->allocate(device, labels, &memory);
    if (status) return status;
    input->labels = memory;
    if (!is_far(replica)) return LS_OK;
    status = ls_device_allocate_host(device, features, &memory);
    if (!status) input->host_features = memory;
    if (!status) status = ls_device_allocate_host(device, labels, &memory);
    if (!status) input->host_labels = memory;
    return status;
}

ls_status ls_inputs_reserve(ls_model *model, int64_t rows) {
    size_t width = (size_t)ls_shape_count(&model->input);
    ls_status status = LS_OK;
    if (rows <= model->max_rows) return LS_OK;
    model->max_rows = 0;
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        struct ls_model_replica *replica = &model->replicas[i];
        ls_inputs_release(replica);
        for (int k = 0; !status && k < (is_far(replica) ? 2 : 1); k++)
            status = allocate_input(replica, (size_t)rows, width, &replica->inputs[k]);
    }
    if (!status) model->max_rows = rows;
    return status;
}

/* ---- batches ---- */

void ls_inputs_forget(ls_model *model) {
    for (int i = 0; model->replicas && i < model->replica_count; i++)
        for (int k = 0; k < 2; k++) model->replicas[i].inputs[k].ahead = false;
}

void ls_model_use_pipeline(ls_model *model, struct ls_pipeline *pipeline) {
    if (model->pipeline != pipeline) ls_inputs_forget(model);
    model->pipeline = pipeline;
}

/* From the pinned memory, beside what the device computes. A label that is no class would be told by the device when
 * the update is queued behind it: it is found here, before anything of the step is. */
static ls_status upload(const ls_model *model, const struct ls_model_replica *replica,
                        const struct ls_model_input *input) {
    struct ls_device *device = replica->device;
    size_t rows = (size_t)input->rows, width = (size_t)ls_shape_count(&model->input);
    ls_status status = ls_objective_check_labels(&model->objective, ls_network_outputs(model->network),
                                                 input->host_labels, input->rows);
    if (!status)
        status = device->ops->queue->receive(device, input->features, input->host_features,
                                             rows * width * sizeof(*input->features));
    if (status) return status;
    return device->ops->queue->receive(device, input->labels, input->host_labels, rows * sizeof(*input->labels));
}

static ls_status load_far(const ls_model *model, int local) {
    struct ls_model_replica *replica = &model->replicas[local];
    struct ls_model_input *input = &replica->inputs[replica->input];
    input->rows = ls_pipeline_rows(model->pipeline, local);
    if (!input->rows) return LS_OK;
    ls_status status = ls_pipeline_read(model->pipeline, local, input->host_features, input->host_labels);
    return status ? status : upload(model, replica, input);
}

/* The other input, if it holds the present step. */
static bool take_ahead(const ls_model *model, struct ls_model_replica *replica) {
    struct ls_model_input *other = &replica->inputs[1 - replica->input];
    struct ls_pipeline_step present = ls_pipeline_present(model->pipeline);
    bool taken = other->ahead && other->step.epoch == present.epoch && other->step.step == present.step;
    other->ahead = false;
    if (taken) replica->input = 1 - replica->input;
    return taken;
}

ls_status ls_input_load(const ls_model *model, int local, int64_t *rows) {
    struct ls_model_replica *replica = &model->replicas[local];
    const struct ls_model_input *input = &replica->inputs[0];
    ls_status status = LS_OK;
    *rows = ls_pipeline_rows(model->pipeline, local);
    if (!is_far(replica))
        return *rows ? ls_pipeline_read(model->pipeline, local, input->features, input->labels) : LS_OK;
    if (!take_ahead(model, replica)) status = load_far(model, local);
    return status ? status : replica->device->ops->queue->settle(replica->device);
}

void ls_input_load_ahead(const ls_model *model, int local, bool next_epoch) {
    struct ls_model_replica *replica = &model->replicas[local];
    struct ls_model_input *other = &replica->inputs[1 - replica->input];
    if (!is_far(replica) || !ls_pipeline_next(model->pipeline, &other->step)) return;
    if (!next_epoch && other->step.epoch != ls_pipeline_present(model->pipeline).epoch) return;
    other->rows = ls_pipeline_next_rows(model->pipeline, local);
    ls_status status = LS_OK;
    if (other->rows) status = ls_pipeline_read_next(model->pipeline, local, other->host_features, other->host_labels);
    if (!status && other->rows) status = upload(model, replica, other);
    other->ahead = !status;
}
