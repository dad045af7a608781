/* Building a model for its first dataset: the network, every replica's parameters and moments, the chief's weights to
 * all workers. ls_bind_attach makes the other parts that training needs. */
#include "train/model_build.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "base/point.h"
#include "base/text.h"
#include "collective/collectives.h"
#include "model/plan.h"
#include "model/network.h"
#include "train/bind.h"
#include "train/fit.h"
#include "train/input.h"
#include "train/model.h"
#include "train/model_state.h"
#include "train/shards.h"
#include "train/stages.h"
#include "train/sparse.h"
#include "train/step.h"

/* As Keras' losses: a last axis of 1 may be left out. Keras' squeeze_or_expand_to_same_rank does it to the two before a
 * loss. */
static bool shapes_fit(const ls_shape *target, const ls_shape *output) {
    ls_shape longer = target->rank > output->rank ? *target : *output;
    ls_shape shorter = target->rank > output->rank ? *output : *target;
    if (longer.rank == shorter.rank + 1 && longer.dims[shorter.rank] == 1) longer.rank--;
    return ls_shape_equal(&longer, &shorter);
}

/* Of numbers that are no classes, for the loss that compares classes. */
static ls_status refuse_numbers(const ls_dataset *data) {
    const struct ls_source *source = data->source;
    char have[128];
    if (!source->targets.numbers)
        return ls_fail(LS_INVALID_ARGUMENT, "the dataset's mix-up makes shares of classes, and "
                                            "sparse_categorical_crossentropy needs class numbers: take "
                                            "categorical_crossentropy");
    if (ls_target_width(&source->targets) == 1 && !(source->whole.value == 0))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the dataset's targets are numbers, and sparse_categorical_crossentropy takes them as classes "
                       "where all are whole and from 0: example %lld has %g; take mean_squared_error for a regression",
                       (long long)source->whole.example, (double)source->whole.value);
    ls_shape_text(&data->targets.shape, have, sizeof(have));
    return ls_fail(LS_INVALID_ARGUMENT,
                   "the dataset's targets are numbers of shape %s, and sparse_categorical_crossentropy needs class "
                   "numbers: bring integers, one an example; or take categorical_crossentropy for one-hot rows, "
                   "mean_squared_error for a regression",
                   have);
}

static ls_status check_numbers(const ls_model *model, const ls_dataset *data) {
    const ls_shape *target = &data->targets.shape, *output = ls_network_output_shape(model->built.network);
    char have[128], want[128];
    ls_shape_text(target, have, sizeof(have));
    ls_shape_text(output, want, sizeof(want));
    if (model->spec.objective.loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY) return refuse_numbers(data);
    if (!shapes_fit(target, output))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the dataset's targets have shape %s, the model's outputs %s: make them alike", have, want);
    return LS_OK;
}

/* Classes have the outputs' shape without the last axis. */
static bool fits_classes(const ls_model *model, const ls_shape *classes) {
    ls_shape judged = *ls_network_output_shape(model->built.network);
    if (judged.rank-- < 1) return false;
    return shapes_fit(classes, &judged);
}

static ls_status check_classes(const ls_model *model, int classes) {
    const ls_shape *shape = ls_network_output_shape(model->built.network);
    const struct ls_objective *objective = &model->spec.objective;
    int outputs = (int)shape->dims[shape->rank - 1];
    if (outputs == 1 && ls_objective_is_binary(objective) && (classes <= 2 || ls_objective_is_regression(objective)))
        return LS_OK;
    if (classes <= outputs) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "the dataset has %d classes, the model's last layer has %d units", classes,
                   outputs);
}

static ls_status refuse_class(const ls_model *model, const ls_shape *classes) {
    char text[128], have[128];
    ls_shape_text(ls_network_output_shape(model->built.network), text, sizeof(text));
    ls_shape_text(classes, have, sizeof(have));
    if (classes->rank)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "the model's outputs have shape %s, and the dataset has a class for each position of %s: the "
            "outputs need these axes and one of the classes behind them, as ls_dense with per_position gives",
            text, have);
    return ls_fail(LS_INVALID_ARGUMENT,
                   "the model's outputs have shape %s, and the dataset has one class an example, which needs one axis: "
                   "end with ls_dense, or bring classes or targets for each position",
                   text);
}

static ls_status check_class_weight(const ls_model *model, const struct ls_pipeline *pipeline) {
    const ls_shape *output = ls_network_output_shape(model->built.network);
    if (!ls_pipeline_weighs_classes(pipeline) || ls_objective_positions(&model->spec.objective, output) == 1)
        return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "class_weight: an example has a class for each position, and one weight; leave "
                                        "class_weight out, or bring sample weights");
}

ls_status ls_model_build_check(const ls_model *model, const ls_dataset *data) {
    char have[200], want[200];
    ls_shape shape = ls_dataset_shape(data);
    if (!ls_shape_equal(&shape, &model->built.input)) {
        ls_shape_text(&shape, have, sizeof(have));
        ls_shape_text(&model->built.input, want, sizeof(want));
        return ls_fail(LS_INVALID_ARGUMENT, "the dataset's examples have shape %s, the model was built for %s", have,
                       want);
    }
    bool integers = ls_network_takes_integers(model->built.network);
    if (data->source->integers != integers)
        return ls_fail(LS_INVALID_ARGUMENT, "the dataset's examples are %s, the model was built for %s",
                       data->source->integers ? "integers" : "floats", integers ? "integers" : "floats");
    ls_status status = data->source->bytes ? ls_network_check_bytes(model->built.network) : LS_OK;
    if (status) return status;
    if (data->source->unlabelled) return LS_OK;
    bool fit = fits_classes(model, &data->targets.shape);
    if (!data->targets.numbers)
        return fit ? check_classes(model, ls_dataset_num_classes(data)) : refuse_class(model, &data->targets.shape);
    bool whole = ls_dataset_whole_classes(data) && model->spec.objective.loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY;
    return whole && fit ? check_classes(model, data->source->whole.classes) : check_numbers(model, data);
}

bool ls_model_build_is_regularized(const ls_model *model) {
    for (size_t i = 0; i < model->built.part_count; i++)
        if (model->built.parts[i].l1 > 0 || model->built.parts[i].l2 > 0) return true;
    return false;
}

/* Builds the op that adds up the regularisers' penalty for an example. */
static ls_status build_penalty(const ls_model *model, struct ls_model_replica *replica) {
    struct ls_op op = {.kind = LS_OP_PENALTY,
                       .value = &replica->numbers->penalty,
                       .variables = model->built.parts,
                       .variable_count = model->built.part_count};
    if (!ls_model_build_is_regularized(model) || replica->shares) return LS_OK;
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){
        replica->parameters, LS_FLOAT32, LS_SHAPE((int64_t)ls_network_trainable_count(model->built.network))};
    return ls_update_add(replica, LS_UPDATE_PENALTY, &op);
}

static ls_status build_replica(ls_model *model, struct ls_model_replica *replica) {
    struct ls_device *device = replica->device;
    replica->arena.device = device;
    replica->numbers = &model->built.numbers->replicas[replica - model->built.replicas];
    const struct ls_model_replica *holder =
        &model->built.replicas[ls_strategy_holder(model->strategy, (int)(replica - model->built.replicas))];
    replica->shares = replica != holder;
    if (replica->shares) {
        replica->parameters = holder->parameters;
        return LS_OK;
    }
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < model->built.state_count; i++) {
        const struct ls_shard_part *part = &model->built.state[i];
        if (ls_part_is_on_devices(part))
            status = ls_device_allocate_floats(device, part->count, &replica->blobs[part->blob]);
    }
    return status;
}

/* In memory that all devices reach: that of one which can not reach the host's. */
static ls_status allocate_numbers(ls_model *model) {
    const ls_strategy *strategy = model->strategy;
    struct ls_model_built *built = &model->built;
    void *memory = NULL;
    built->host = strategy->replicas[0].device;
    for (int i = strategy->device_count; i-- > 0;)
        if (!strategy->replicas[i].device->host_memory) built->host = strategy->replicas[i].device;
    ls_status status = ls_device_allocate_host(built->host, sizeof(*built->numbers), &memory);
    if (status) return status;
    built->numbers = memory;
    built->numbers->step = model->progress.step;
    return LS_OK;
}

static ls_status build_replicas(ls_model *model) {
    const ls_strategy *strategy = model->strategy;
    struct ls_model_built *built = &model->built;
    size_t count = (size_t)strategy->local_count;
    ls_status status = allocate_numbers(model);
    if (!status) status = ls_turns_new(strategy->device_count, &built->turns);
    if (status) return status;
    built->replicas = ls_alloc_array(count, sizeof(*built->replicas));
    if (!built->replicas) return ls_fail_memory("replicas", count * sizeof(*built->replicas));
    built->replica_count = strategy->local_count;
    for (size_t i = 0; i < count; i++) built->replicas[i].device = strategy->replicas[i].device;
    status = ls_optimizer_parts(&model->progress.step.rule, built->network, &built->parts, &built->part_count);
    for (size_t i = 0; !status && i < count; i++) status = build_replica(model, &built->replicas[i]);
    for (size_t i = 0; !status && i < count; i++) status = build_penalty(model, &built->replicas[i]);
    return status;
}

/* The chief's weights, drawn, or those that the model has, and loaded ones in their place: one flat broadcast brings
 * them to every worker, a copy to every replica. Every worker could draw the same numbers from the seed. The broadcast
 * makes equality independent of the math library, and serves weights from a file that only the chief has, as mirrored
 * variables are initialised in TensorFlow. */
static ls_status broadcast_weights(ls_model *model, bool drawn) {
    LS_CLEANUP(ls_free_pointer) float *blob = ls_alloc_aligned(model->built.blob_count * sizeof(float));
    if (!blob) return ls_fail_memory("the initial weights", model->built.blob_count * sizeof(float));
    ls_reached("broadcast");
    bool given = model->spec.initial && ls_sparse_has(model); /* tables that the servers cannot draw */
    ls_status status = LS_OK;
    if (model->strategy->runtime->rank == 0) {
        if (drawn)
            ls_network_initialize(model->built.network, model->spec.seed, blob);
        else
            status = ls_model_state_get_parameters(model, blob);
        if (!status && given) status = ls_sparse_draw(model);
        if (!status) status = ls_initial_weights_take(model, blob);
    } else if (given) {
        status = ls_model_state_set(model, LS_OWNED_IN_ROWS, LS_FROM_PROGRAM, NULL);
    }
    if (!status)
        status = ls_group_broadcast(model->strategy->runtime->group,
                                    LS_BROADCAST("initial weights", blob, model->built.blob_count));
    return status ? status : ls_model_state_set_parameters(model, blob);
}

ls_status ls_model_build_describe(const ls_model *model, char **line) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    struct ls_text made;
    ls_status status = ls_network_describe(model->built.network, &text);
    if (status) return status;
    FILE *out = ls_text_open(&made, strlen(text));
    for (char *end = strchr(text, '\n'); end; end = strchr(end, '\n')) *end = ';';
    if (out) (void)fprintf(out, "model=%s\n", text);
    return ls_text_close(&made, LS_OK, "a description", line);
}

/* Compares the networks of all workers before the chief's weights are broadcast. */
static ls_status agree_on_network(ls_model *model) {
    LS_CLEANUP(ls_free_pointer) char *line = NULL, *lines = NULL;
    struct ls_text made;
    int tables = ls_network_table_count(model->built.network);
    ls_status status = ls_model_build_describe(model, &line);
    if (status) return status;
    FILE *out = ls_text_open(&made, strlen(line));
    if (out) (void)fprintf(out, "%ssparse_tables=%s", line, tables ? "" : "none");
    for (int t = 0; out && t < tables; t++)
        (void)fprintf(out, "%s%s", t ? "," : "", ls_network_table(model->built.network, t)->name);
    if (out) (void)fputc('\n', out);
    status = ls_text_close(&made, LS_OK, "a description", &lines);
    return status ? status : ls_runtime_agree(model->strategy->runtime, "model", lines);
}

ls_status ls_model_build_network(ls_model *model, const ls_dataset *data) {
    if (model->built.network) return LS_OK;
    model->built.input = ls_dataset_shape(data);
    ls_status status = ls_sparse_network(model, data, &model->built.network);
    if (!status) status = ls_network_take_integers(model->built.network, data->source->integers);
    if (status) {
        ls_network_free(ls_steal(model->built.network));
        return status;
    }
    model->built.blob_count = ls_network_blob_count(model->built.network);
    model->built.summed_count = ls_network_summed_count(model->built.network);
    return ls_model_state_list(model);
}

/* The chief's weights are broadcast if state is NULL. */
static ls_status build_network(ls_model *model, const ls_dataset *data, const float *state) {
    ls_status status = ls_model_build_network(model, data);
    if (!status && !state) status = agree_on_network(model);
    if (!status) status = ls_memory_report_check(model);
    if (!status) status = build_replicas(model);
    if (status) return status;
    return state ? ls_model_state_set(model, LS_PARTS_HERE, LS_FROM_WORKER, state) : broadcast_weights(model, true);
}

static ls_status reserve(ls_model *model, const struct ls_pipeline *pipeline) {
    size_t element = ls_pipeline_table(pipeline) ? 1 : sizeof(float);
    return ls_inputs_reserve(model, (struct ls_input_room){ls_pipeline_max_rows(pipeline),
                                                           ls_target_width(ls_pipeline_targets(pipeline)),
                                                           (size_t)ls_shape_count(&model->built.input) * element});
}

ls_status ls_model_build(ls_model *model, const ls_dataset *data, const struct ls_pipeline *pipeline,
                         const float *state) {
    if (!model->spec.compiled) return ls_fail(LS_FAILED_PRECONDITION, "call ls_model_compile before fit or evaluate");
    ls_status status = LS_OK;
    bool built = model->built.replicas != NULL;
    if (!built)
        status = build_network(model, data, state);
    else if (state)
        status = ls_model_state_set(model, LS_PARTS_HERE, LS_FROM_WORKER, state);
    if (status) {
        ls_model_build_release(model); /* half a model is none: the next call starts anew */
        return status;
    }
    if (state) model->spec.loaded = false;
    status = ls_model_build_check(model, data);
    if (!status) status = check_class_weight(model, pipeline);
    if (!status && built && !state && model->spec.loaded) status = broadcast_weights(model, false);
    return status ? status : reserve(model, pipeline);
}

/* Copies parameters and moments of the first replica to a replica that is added. */
static ls_status copy_replica(const ls_model *model, struct ls_model_replica *replica) {
    const struct ls_model_replica *first = &model->built.replicas[0];
    size_t size = model->built.blob_count * sizeof(float);
    LS_CLEANUP(ls_free_pointer) void *blob = ls_alloc_aligned(size);
    if (!blob) return ls_fail_memory("a replica's variables", size);
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < model->built.state_count; i++) {
        const struct ls_shard_part *part = &model->built.state[i];
        if (!ls_part_is_on_devices(part)) continue;
        size = part->count * sizeof(float);
        status = first->device->ops->copy_out(first->device, blob, first->blobs[part->blob], size);
        if (!status) status = replica->device->ops->copy_in(replica->device, replica->blobs[part->blob], blob, size);
    }
    return status;
}

/* Replicas that come to this worker after a loss take parameters and moments from its first replica: all copies are
 * equal, so any serves, and nothing crosses the wire. */
ls_status ls_model_build_add_replicas(ls_model *model, int from) {
    struct ls_model_built *built = &model->built;
    size_t count = (size_t)model->strategy->local_count;
    const struct ls_input_room room = built->room;
    LS_NEW_ARRAY(struct ls_model_replica, replicas, count, "replicas");
    memcpy(replicas, built->replicas, (size_t)from * sizeof(*replicas));
    ls_free(built->replicas);
    built->replicas = replicas;
    built->replica_count = model->strategy->local_count;
    ls_status status = LS_OK;
    for (size_t i = (size_t)from; i < count; i++) replicas[i].device = model->strategy->replicas[i].device;
    for (size_t i = (size_t)from; !status && i < count; i++) {
        status = build_replica(model, &replicas[i]);
        if (!status) status = build_penalty(model, &replicas[i]);
        if (!status && !replicas[i].shares) status = copy_replica(model, &replicas[i]);
    }
    built->room.rows = 0;
    return status ? status : ls_inputs_reserve(model, room);
}

static void release_replica(struct ls_model_replica *replica) {
    struct ls_device *device = replica->device;
    ls_inputs_release(replica);
    ls_arena_release(&replica->arena);
    ls_update_discard(replica, LS_UPDATE_PENALTY);
    for (int i = 0; i <= LS_MAX_MOMENTS && !replica->shares; i++)
        if (replica->blobs[i]) device->ops->release(device, replica->blobs[i]);
    ls_free(replica->mirror);
}

void ls_model_build_drop_replicas(ls_model *model, int from) {
    for (int i = from; i < model->built.replica_count; i++) release_replica(&model->built.replicas[i]);
    if (from < model->built.replica_count) model->built.replica_count = from;
}

void ls_model_build_release(ls_model *model) {
    const struct ls_model_built *built = &model->built;
    ls_bind_detach(model);
    ls_model_build_drop_replicas(model, 0);
    ls_sparse_release(model);
    ls_shards_free(model);
    ls_stages_free(model);
    ls_turns_free(built->turns, model->strategy->device_count);
    if (built->numbers) ls_device_release_host(built->host, built->numbers);
    ls_free(built->replicas);
    ls_free(built->parts);
    ls_parts_free(built->state, built->state_count);
    ls_network_free(built->network);
    model->built = (struct ls_model_built){0};
    model->progress.step.iteration = 0;
    model->progress.scaler = ls_loss_scaler_initial(model->spec.objective.precision);
}
