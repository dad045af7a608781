/* Batches on the replicas' devices. A device without host memory receives them from where the pipeline has read them,
 * which is pinned, while it computes.
 * Each replica has two inputs: during a step on one of them, the examples of the next step are copied into the other.
 * The pipeline does not know of this copy. The next step uses the copy if it is of the pipeline's present step, and
 * drops it if not, as after a recovery. */
#include "train/input.h"

#include "base/shape.h"
#include "train/model.h"
#include "train/step.h"
#include "train/sparse.h"

/* ---- memory ---- */

static void release_buffers(struct ls_device *device, struct ls_model_input *input) {
    if (input->features) device->ops->release(device, input->features);
    if (input->byte_values) device->ops->release(device, input->byte_values);
    if (input->targets) device->ops->release(device, input->targets);
    if (input->weights) device->ops->release(device, input->weights);
    if (input->host_targets) ls_device_release_host(device, input->host_targets);
    if (input->host_weights) ls_device_release_host(device, input->host_weights);
    *input = (struct ls_model_input){0};
}

void ls_inputs_release(struct ls_model_replica *replica) {
    ls_device_drain(replica->device); /* copies may be on their way */
    ls_plan_slots_drop(replica);      /* they point into the inputs */
    for (int i = 0; i < 2; i++) release_buffers(replica->device, &replica->inputs[i]);
    replica->input = 0;
}

/* Bytes of a replica's batches. */
struct sizes {
    size_t features, targets, weights;
};

static ls_status allocate_byte_values(struct ls_device *device, struct ls_model_input *input) {
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, sizeof(((struct ls_pixel_table *)0)->values), &memory);
    if (!status) input->byte_values = memory;
    return status;
}

static ls_status allocate_device(struct ls_device *device, const struct sizes *sizes, struct ls_model_input *input) {
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, sizes->features, &memory);
    if (!status) input->features = memory;
    if (!status) status = device->ops->allocate(device, sizes->targets, &memory);
    if (!status) input->targets = memory;
    if (!status) status = device->ops->allocate(device, sizes->weights, &memory);
    if (!status) input->weights = memory;
    return status;
}

static ls_status allocate_host(struct ls_device *device, const struct sizes *sizes, struct ls_model_input *input) {
    void *memory = NULL;
    ls_status status = ls_device_allocate_host(device, sizes->targets, &memory);
    if (!status) input->host_targets = memory;
    if (!status) status = ls_device_allocate_host(device, sizes->weights, &memory);
    if (!status) input->host_weights = memory;
    return status;
}

/* True if there is more room already; else room becomes what holds both. */
static bool has_room(const struct ls_input_room *there, struct ls_input_room *room) {
    if (room->rows <= there->rows && room->targets <= there->targets && room->example <= there->example) return true;
    if (room->rows < there->rows) room->rows = there->rows;
    if (room->targets < there->targets) room->targets = there->targets;
    if (room->example < there->example) room->example = there->example;
    return false;
}

static ls_status reserve_inputs(const ls_model *model, struct ls_model_replica *replica, struct ls_input_room room) {
    bool far = !replica->device->host_memory;
    size_t rows = (size_t)room.rows, example = (size_t)ls_shape_count(&model->built.input) * sizeof(float);
    const struct sizes sizes = {rows * (far ? room.example : example), rows * (size_t)room.targets * sizeof(float),
                                rows * sizeof(float)};
    ls_status status = LS_OK;
    ls_inputs_release(replica);
    for (int k = 0; !status && k < (far ? 2 : 1); k++) {
        status = allocate_device(replica->device, &sizes, &replica->inputs[k]);
        if (!status && far) status = allocate_byte_values(replica->device, &replica->inputs[k]);
        if (!status && far) status = allocate_host(replica->device, &sizes, &replica->inputs[k]);
    }
    return status;
}

ls_status ls_inputs_reserve(ls_model *model, struct ls_input_room room) {
    ls_status status = LS_OK;
    if (has_room(&model->built.room, &room)) return LS_OK;
    model->built.room.rows = 0;
    for (int i = 0; !status && i < model->strategy->local_count; i++)
        status = reserve_inputs(model, &model->built.replicas[i], room);
    if (!status) status = ls_sparse_reserve(model, room.rows);
    if (!status) model->built.room = room;
    return status;
}

/* ---- batches ---- */

void ls_inputs_forget(ls_model *model) {
    for (int i = 0; i < model->built.replica_count; i++)
        for (int k = 0; k < 2; k++) {
            model->built.replicas[i].inputs[k].ahead = false;
            model->built.replicas[i].inputs[k].table = NULL;
        }
}

void ls_input_use_pipeline(ls_model *model, struct ls_pipeline *pipeline) {
    if (model->progress.pipeline != pipeline) ls_inputs_forget(model);
    model->progress.pipeline = pipeline;
    if (pipeline && model->spec.objective.loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY)
        ls_pipeline_take_classes(pipeline);
}

/* The pipeline's targets: labels or numbers in targets, sample weights in weights. */
static struct ls_targets targets_in(const ls_model *model, void *targets, float *weights) {
    const struct ls_target_kind *kind = ls_pipeline_targets(model->progress.pipeline);
    return (struct ls_targets){kind->numbers ? NULL : targets, kind->numbers ? targets : NULL,
                               kind->weighted ? weights : NULL};
}

static ls_status upload_targets(const ls_model *model, struct ls_device *device, const struct ls_model_input *input) {
    const struct ls_target_kind *kind = ls_pipeline_targets(model->progress.pipeline);
    size_t weights = (size_t)input->rows * sizeof(float), targets = weights * (size_t)ls_target_width(kind);
    ls_status status = device->ops->queue->receive(device, input->targets, input->host_targets, targets);
    if (status || !kind->weighted) return status;
    return device->ops->queue->receive(device, input->weights, input->host_weights, weights);
}

/* As bytes, which no layer takes as ids, where they lie so; else as floats. */
static ls_status upload_features(const ls_model *model, struct ls_device *device, struct ls_model_input *input,
                                 const void *features) {
    const struct ls_pixel_table *table = ls_pipeline_table(model->progress.pipeline);
    size_t count = (size_t)input->rows * (size_t)ls_shape_count(&model->built.input);
    ls_status status = LS_OK;
    if (!table) status = ls_network_check_ids(model->built.network, features, input->rows);
    if (!status && table && input->table != table) {
        status = device->ops->copy_in(device, input->byte_values, table->values, sizeof(table->values));
        if (!status) input->table = table;
    }
    return status ? status
                  : device->ops->queue->receive(device, input->features, features, count * (table ? 1 : sizeof(float)));
}

/* From the pinned memory, beside what the device computes. A label that is no class would be told by the device when
 * the update is queued behind it: it is found here, before anything of the step is. An id that is none is, too. */
static ls_status upload(const ls_model *model, struct ls_device *device, struct ls_model_input *input,
                        const void *features) {
    const struct ls_network *network = model->built.network;
    int64_t positions = ls_objective_positions(&model->spec.objective, ls_network_output_shape(network));
    const struct ls_labels_extent extent = {input->rows, positions, ls_network_outputs(network) / positions};
    ls_status status = LS_OK;
    if (ls_pipeline_is_labelled(model->progress.pipeline) && !ls_pipeline_targets(model->progress.pipeline)->numbers)
        status = ls_objective_check_labels(&model->spec.objective, &extent, input->host_targets);
    if (!status) status = upload_features(model, device, input, features);
    return status ? status : upload_targets(model, device, input);
}

/* The rows of the present step (place 0) or the next one (1). */
static ls_status bring_rows(const ls_model *model, int local, int place, struct ls_model_input *input) {
    const struct ls_targets targets = targets_in(model, input->host_targets, input->host_weights);
    const void *features;
    if (!input->rows) return LS_OK;
    ls_status status = ls_pipeline_find(model->progress.pipeline, place, local, &features, &targets);
    return status ? status : upload(model, model->built.replicas[local].device, input, features);
}

static ls_status load_far(const ls_model *model, int local) {
    struct ls_model_replica *replica = &model->built.replicas[local];
    struct ls_model_input *input = &replica->inputs[replica->input];
    input->rows = ls_pipeline_rows(model->progress.pipeline, local);
    return bring_rows(model, local, 0, input);
}

/* The other input, if it holds the present step. */
static bool take_ahead(const ls_model *model, struct ls_model_replica *replica) {
    struct ls_model_input *other = &replica->inputs[1 - replica->input];
    struct ls_pipeline_step present = ls_pipeline_present(model->progress.pipeline);
    bool taken = other->ahead && other->step.epoch == present.epoch && other->step.step == present.step;
    other->ahead = false;
    if (taken) replica->input = 1 - replica->input;
    return taken;
}

ls_status ls_input_load(const ls_model *model, int local, int64_t *rows) {
    struct ls_model_replica *replica = &model->built.replicas[local];
    const struct ls_model_input *input = &replica->inputs[0];
    ls_status status = LS_OK;
    *rows = ls_pipeline_rows(model->progress.pipeline, local);
    const struct ls_targets targets = targets_in(model, input->targets, input->weights);
    if (replica->device->host_memory) {
        if (*rows) status = ls_pipeline_read(model->progress.pipeline, local, input->features, &targets);
        return status ? status : ls_network_check_ids(model->built.network, input->features, *rows);
    }
    if (!take_ahead(model, replica)) status = load_far(model, local);
    return status ? status : replica->device->ops->queue->settle(replica->device);
}

/* An error here is no error yet: ahead stays false, the step loads the batch again by itself, and reports what goes
 * wrong then. So a step fails for its own batch only. */
void ls_input_load_ahead(const ls_model *model, int local, bool next_epoch) {
    struct ls_model_replica *replica = &model->built.replicas[local];
    struct ls_model_input *other = &replica->inputs[1 - replica->input];
    if (replica->device->host_memory || !ls_pipeline_next(model->progress.pipeline, &other->step)) return;
    if (!next_epoch && other->step.epoch != ls_pipeline_present(model->progress.pipeline).epoch) return;
    other->rows = ls_pipeline_next_rows(model->progress.pipeline, local);
    other->ahead = !bring_rows(model, local, 1, other);
}
