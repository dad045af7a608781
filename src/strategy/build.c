/* Building a model for its first dataset: the network, every replica's parameters and moments, the chief's weights to
 * all. What training needs beside that is made by attach.c. */
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/point.h"
#include "strategy/model.h"

static ls_status check_input(const ls_model *model, const ls_dataset *data) {
    char have[200], want[200];
    ls_shape shape = ls_dataset_shape(data);
    if (!ls_shape_equal(&shape, &model->input)) {
        ls_shape_text(&shape, have, sizeof(have));
        ls_shape_text(&model->input, want, sizeof(want));
        return ls_fail(LS_INVALID_ARGUMENT, "the dataset's examples have shape %s, the model was built for %s", have,
                       want);
    }
    int outputs = ls_network_outputs(model->network), classes = ls_dataset_num_classes(data);
    bool squares = model->objective.loss == LS_MEAN_SQUARED_ERROR;
    if (outputs == 1 && ls_objective_is_binary(&model->objective) && (classes <= 2 || squares)) return LS_OK;
    if (classes > outputs)
        return ls_fail(LS_INVALID_ARGUMENT, "the dataset has %d classes, the model's last layer has %d units", classes,
                       outputs);
    return LS_OK;
}

static ls_status allocate_blob(struct ls_device *device, size_t count, float **blob) {
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, count * sizeof(float), &memory);
    if (!status) *blob = memory;
    return status;
}

/* What regularisers add to the loss of an example. */
static ls_status build_penalty(const ls_model *model, struct ls_model_replica *replica) {
    struct ls_op op = {.kind = LS_OP_PENALTY,
                       .value = &replica->numbers->penalty,
                       .variables = model->parts,
                       .variable_count = model->part_count};
    bool any = false;
    for (size_t i = 0; i < model->part_count; i++) any = any || model->parts[i].l1 > 0 || model->parts[i].l2 > 0;
    if (!any) return LS_OK;
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){replica->parameters, LS_FLOAT32,
                                                       LS_SHAPE((int64_t)ls_network_trainable_count(model->network))};
    ls_status status = replica->device->ops->build(replica->device, &op);
    replica->penalty = op;
    replica->penalty_built = !status;
    return status;
}

static ls_status build_replica(ls_model *model, struct ls_model_replica *replica) {
    struct ls_device *device = replica->device;
    replica->arena.device = device;
    replica->numbers = &model->numbers->replicas[replica - model->replicas];
    ls_status status = allocate_blob(device, model->blob_count, &replica->parameters);
    for (int i = 0; !status && i < ls_optimizer_moments(&model->step.rule); i++)
        status = allocate_blob(device, model->blob_count, &replica->moments[i]);
    return status;
}

/* In memory that all devices reach: that of one which can not reach the host's. */
static ls_status allocate_numbers(ls_model *model) {
    const ls_strategy *strategy = model->strategy;
    void *memory = NULL;
    model->host = strategy->replicas[0].device;
    for (int i = strategy->device_count; i-- > 0;)
        if (!strategy->replicas[i].device->host_memory) model->host = strategy->replicas[i].device;
    ls_status status = ls_device_allocate_host(model->host, sizeof(*model->numbers), &memory);
    if (status) return status;
    model->numbers = memory;
    model->numbers->step = model->step;
    return LS_OK;
}

static ls_status build_replicas(ls_model *model) {
    ls_strategy *strategy = model->strategy;
    size_t count = (size_t)strategy->local_count;
    ls_status status = allocate_numbers(model);
    if (status) return status;
    model->replicas = ls_alloc_array(count, sizeof(*model->replicas));
    if (!model->replicas) return ls_fail_memory("replicas", count * sizeof(*model->replicas));
    model->replica_count = strategy->local_count;
    for (size_t i = 0; i < count; i++) model->replicas[i].device = strategy->replicas[i].device;
    status = ls_optimizer_parts(&model->step.rule, model->network, &model->parts, &model->part_count);
    for (size_t i = 0; !status && i < count; i++) status = build_replica(model, &model->replicas[i]);
    for (size_t i = 0; !status && i < count; i++) status = build_penalty(model, &model->replicas[i]);
    return status;
}

/* The chief draws the weights; one flat broadcast brings them to every worker, a copy to every replica. */
static ls_status broadcast_weights(ls_model *model) {
    LS_CLEANUP(ls_free_pointer) float *blob = ls_alloc_aligned(model->blob_count * sizeof(float));
    if (!blob) return ls_fail_memory("the initial weights", model->blob_count * sizeof(float));
    ls_reached("broadcast");
    ls_status status = LS_OK;
    if (model->strategy->membership->rank == 0) {
        ls_network_initialize(model->network, model->seed, blob);
        status = ls_initial_weights_take(model, blob);
    }
    if (!status)
        status = ls_group_broadcast(model->strategy->membership->group, "initial weights", 0, LS_FLOAT32, blob,
                                    model->blob_count);
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        struct ls_model_replica *replica = &model->replicas[i];
        status = replica->device->ops->copy_in(replica->device, replica->parameters, blob,
                                               model->blob_count * sizeof(float));
    }
    return status;
}

ls_status ls_model_describe(const ls_model *model, char **line) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    ls_status status = ls_network_describe(model->network, &text);
    if (status) return status;
    size_t size = strlen(text) + 16;
    char *made = ls_alloc(size);
    if (!made) return ls_fail_memory("a description", size);
    memcpy(made, "model=", 6);
    memcpy(made + 6, text, strlen(text));
    for (char *c = made; *c; c++)
        if (*c == '\n') *c = ';';
    made[strlen(made)] = '\n';
    *line = made;
    return LS_OK;
}

/* What must be equal on all workers before the weights go round. */
static ls_status agree_on_network(ls_model *model) {
    LS_CLEANUP(ls_free_pointer) char *line = NULL;
    ls_status status = ls_model_describe(model, &line);
    return status ? status : ls_membership_agree(model->strategy->membership, "model", line);
}

ls_status ls_model_plan(ls_model *model, const ls_dataset *data) {
    if (model->network) return LS_OK;
    model->input = ls_dataset_shape(data);
    ls_status status = ls_network_new(model->layers, model->layer_count, &model->input, &model->network);
    if (!status) model->blob_count = ls_network_blob_count(model->network);
    return status;
}

/* state NULL: the chief's weights go round. */
static ls_status build_network(ls_model *model, const ls_dataset *data, const float *state) {
    ls_status status = ls_model_plan(model, data);
    if (!status && !state) status = agree_on_network(model);
    if (!status) status = build_replicas(model);
    if (!status) status = state ? ls_model_set_state(model, state) : broadcast_weights(model);
    return status;
}

ls_status ls_model_build(ls_model *model, const ls_dataset *data, const struct ls_pipeline *pipeline,
                         const float *state) {
    if (!model->compiled) return ls_fail(LS_FAILED_PRECONDITION, "call ls_model_compile before fit or evaluate");
    ls_status status = LS_OK;
    if (!model->replicas)
        status = build_network(model, data, state);
    else if (state)
        status = ls_model_set_state(model, state);
    if (status) {
        ls_model_release(model); /* half a model is none: the next call starts anew */
        return status;
    }
    status = check_input(model, data);
    return status ? status : ls_inputs_reserve(model, ls_pipeline_max_rows(pipeline));
}

/* What a replica that is added begins with: the first one's. */
static ls_status copy_replica(const ls_model *model, struct ls_model_replica *replica) {
    const struct ls_model_replica *first = &model->replicas[0];
    size_t size = model->blob_count * sizeof(float);
    LS_CLEANUP(ls_free_pointer) void *blob = ls_alloc_aligned(size);
    if (!blob) return ls_fail_memory("a replica's variables", size);
    ls_status status = LS_OK;
    for (int i = -1; !status && i < LS_MAX_MOMENTS; i++) {
        const float *from = i < 0 ? first->parameters : first->moments[i];
        if (!from) continue;
        status = first->device->ops->copy_out(first->device, blob, from, size);
        float *to = i < 0 ? replica->parameters : replica->moments[i];
        if (!status) status = replica->device->ops->copy_in(replica->device, to, blob, size);
    }
    return status;
}

ls_status ls_model_add_replicas(ls_model *model, int from) {
    size_t count = (size_t)model->strategy->local_count;
    int64_t rows = model->max_rows;
    struct ls_model_replica *replicas = ls_alloc_array(count, sizeof(*replicas));
    if (!replicas) return ls_fail_memory("replicas", count * sizeof(*replicas));
    memcpy(replicas, model->replicas, (size_t)from * sizeof(*replicas));
    ls_free(model->replicas);
    model->replicas = replicas;
    model->replica_count = model->strategy->local_count;
    ls_status status = LS_OK;
    for (size_t i = (size_t)from; i < count; i++) replicas[i].device = model->strategy->replicas[i].device;
    for (size_t i = (size_t)from; !status && i < count; i++) {
        status = build_replica(model, &replicas[i]);
        if (!status) status = build_penalty(model, &replicas[i]);
        if (!status) status = copy_replica(model, &replicas[i]);
    }
    model->max_rows = 0;
    return status ? status : ls_inputs_reserve(model, rows);
}

static void release_replica(struct ls_model_replica *replica) {
    struct ls_device *device = replica->device;
    ls_inputs_release(replica);
    ls_arena_release(&replica->arena);
    if (replica->parameters) device->ops->release(device, replica->parameters);
    if (replica->penalty_built) device->ops->discard(device, &replica->penalty);
    for (int i = 0; i < LS_MAX_MOMENTS; i++)
        if (replica->moments[i]) device->ops->release(device, replica->moments[i]);
    ls_free(replica->mirror);
}

void ls_model_drop_replicas(ls_model *model, int from) {
    for (int i = from; i < model->replica_count; i++) release_replica(&model->replicas[i]);
    if (from < model->replica_count) model->replica_count = from;
}

void ls_model_release(ls_model *model) {
    ls_model_detach(model);
    if (model->replicas) ls_model_drop_replicas(model, 0);
    if (model->numbers) ls_device_release_host(model->host, model->numbers);
    model->numbers = NULL;
    ls_free(model->replicas);
    ls_free(model->parts);
    ls_network_free(model->network);
    model->parts = NULL;
    model->replicas = NULL;
    model->network = NULL;
    model->max_rows = 0;
    model->adder[0] = '\0';
    model->step.iteration = 0;
    model->scaler = ls_loss_scaler_initial(model->objective.precision);
}
