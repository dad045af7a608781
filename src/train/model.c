/* The public model: layers, compile, variables, digest (tf.keras.Sequential under a strategy). */
#include "train/training.h"

#include <limits.h>
#include <string.h>

#include "base/digest.h"
#include "base/need.h"
#include "base/new.h"
#include "model/optimizer.h"
#include "model/summary.h"
#include "train/about.h"
#include "train/model_build.h"
#include "train/fit.h"
#include "train/model_state.h"
#include "train/staged.h"
#include "train/sparse.h"
#include "train/step.h"

#define NAMES (3 + LS_MAX_OTHER_INPUTS) /* in a layer */

/* Its own copy of a layer's name, or of an input's. */
static ls_status copy_name(ls_model *model, const char **name) {
    if (!*name) return LS_OK;
    char *copy = ls_strdup(*name);
    if (!copy) return ls_fail_memory("a layer's name", strlen(*name));
    model->spec.layer_names[model->spec.name_count++] = copy;
    *name = copy;
    return LS_OK;
}

static ls_status copy_layers(ls_model *model, const ls_layer *layers, size_t count) {
    ls_status status = LS_OK;
    model->spec.layers = ls_alloc_array(count, sizeof(*layers));
    model->spec.layer_names = ls_alloc_array(count, NAMES * sizeof(*model->spec.layer_names));
    if (!model->spec.layers || !model->spec.layer_names) return ls_fail_memory("layers", count * sizeof(*layers));
    model->spec.layer_count = count;
    memcpy(model->spec.layers, layers, count * sizeof(*layers));
    for (size_t i = 0; !status && i < count; i++) {
        status = copy_name(model, &model->spec.layers[i].name);
        if (!status) status = copy_name(model, &model->spec.layers[i].input);
        if (!status) status = copy_name(model, &model->spec.layers[i].tied);
        for (int k = 0; !status && k < LS_MAX_OTHER_INPUTS; k++)
            status = copy_name(model, &model->spec.layers[i].others[k]);
    }
    return status;
}

ls_status ls_model_new(ls_strategy *strategy, const ls_layer *layers, size_t count, ls_model **model) {
    LS_NEED(strategy, layers, model);
    ls_status status = ls_network_check(layers, count);
    if (status) return status;
    LS_NEW(ls_model, made, "a model");
    made->strategy = strategy;
    made->sync = ls_sync_of(strategy);
    status = copy_layers(made, layers, count);
    if (!status) status = ls_training_add(made);
    return LS_HAND_OVER(status, model, made, ls_model_free(made));
}

void ls_model_free(ls_model *model) {
    if (!model) return;
    ls_training_remove(model);
    ls_model_build_release(model);
    ls_initial_weights_free(model->spec.initial);
    for (size_t i = 0; i < model->spec.name_count; i++) ls_free(model->spec.layer_names[i]);
    ls_free(model->spec.layer_names);
    ls_free(model->spec.layers);
    ls_free(model->spec.excluded);
    ls_free(model->spec.classes);
    ls_free(model->spec.transform);
    ls_free(model->spec.note);
    ls_free(model->spec.about);
    ls_free(model->spec.loss);
    ls_free(model);
}

ls_status ls_model_seed(ls_model *model, uint64_t seed) {
    LS_NEED(model);
    if (model->built.network)
        return ls_fail(LS_FAILED_PRECONDITION, "the seed must be set before the first fit or evaluate");
    model->spec.seed = seed;
    return LS_OK;
}

ls_status ls_model_set_frozen(ls_model *model, const char *names, bool frozen) {
    LS_NEED(model, names);
    if (model->built.network)
        return ls_fail(LS_FAILED_PRECONDITION, "layers must be frozen, or not, before the first fit or evaluate");
    size_t count = model->spec.layer_count;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(bool, found, count, "a list of layers");
    ls_status status = ls_network_find(model->spec.layers, count, names, found);
    for (size_t i = 0; !status && i < count; i++)
        if (found[i]) model->spec.layers[i].frozen = frozen;
    return status;
}

ls_status ls_model_compile_with(ls_model *model, ls_optimizer optimizer, ls_loss loss,
                                const ls_compile_options *options) {
    LS_NEED(model);
    struct ls_objective objective;
    if (model->built.network)
        return ls_fail(LS_FAILED_PRECONDITION, "compile the model before its first fit or evaluate");
    ls_status status = ls_objective_new(loss, options, &objective);
    if (!status) status = ls_optimizer_resolve(&optimizer);
    if (!status) status = ls_precision_try(model->strategy, objective.precision);
    if (!status)
        status = ls_about_keep_text(optimizer.exclude_from_weight_decay, "a list of variables", &model->spec.excluded);
    if (status) return status;
    optimizer.exclude_from_weight_decay = model->spec.excluded;
    model->progress.scaler = ls_loss_scaler_initial(objective.precision);
    model->progress.step = (struct ls_optimizer_step){.rule = optimizer};
    model->spec.compiled_rate = optimizer.learning_rate;
    model->spec.objective = objective;
    model->spec.compiled = true;
    return LS_OK;
}

ls_status ls_model_compile(ls_model *model, ls_optimizer optimizer, ls_loss loss) {
    return ls_model_compile_with(model, optimizer, loss, NULL);
}

ls_status ls_model_check_trainable(const ls_model *model, const ls_dataset *data) {
    if (data && data->source->unlabelled)
        return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset has no labels: it is for ls_model_predict alone",
                       data->source->kind);
    if (!model->spec.implied) return LS_OK;
    return ls_fail(LS_FAILED_PRECONDITION,
                   "the model was not compiled before its first predict, and cannot be any more: make another one");
}

const char *ls_model_metric_name(const ls_model *model, int index) {
    LS_NEED_OR(NULL, model);
    bool there = index >= 0 && index < model->spec.objective.metric_count;
    return there ? ls_objective_metric_name(&model->spec.objective, index) : NULL;
}

static ls_status check_compiled(const ls_model *model) {
    return model->spec.compiled
               ? LS_OK
               : ls_fail(LS_FAILED_PRECONDITION, "compile the model: before that it has no learning rate");
}

float ls_model_next_rate(const ls_model *model) {
    const ls_optimizer *rule = &model->progress.step.rule;
    if (ls_rate_schedule_is_constant(&rule->schedule)) return rule->learning_rate;
    return ls_rate_schedule_rate(&rule->schedule, model->spec.compiled_rate,
                                 model->progress.step.iteration - model->progress.scaler.skipped);
}

ls_status ls_model_learning_rate(const ls_model *model, float *learning_rate) {
    LS_NEED(model, learning_rate);
    ls_status status = check_compiled(model);
    if (!status) *learning_rate = ls_model_next_rate(model);
    return status;
}

ls_status ls_model_set_learning_rate(ls_model *model, float learning_rate) {
    LS_NEED(model);
    ls_status status = check_compiled(model);
    if (!status && !ls_rate_schedule_is_constant(&model->progress.step.rule.schedule))
        status = ls_fail(LS_FAILED_PRECONDITION, "the learning rate follows the optimizer's schedule");
    if (!status) status = ls_optimizer_check_rate(learning_rate);
    if (!status) model->progress.step.rule.learning_rate = learning_rate;
    return status;
}

ls_status ls_model_summary(const ls_model *model, ls_shape input, char **text) {
    LS_NEED(model, text);
    struct ls_network *network = NULL;
    ls_status status = ls_network_new(model->spec.layers, model->spec.layer_count, &input, &network);
    if (!status) status = ls_network_summary(network, text);
    ls_network_free(network);
    return status;
}

int ls_model_num_variables(const ls_model *model) {
    LS_NEED_OR(0, model);
    return model->built.network ? ls_network_variable_count(model->built.network) : 0;
}

/* *data points to the variable in device memory that the host can read; without such memory, into the mirror. */
static ls_status read_variable(const ls_model *model, const struct ls_network_variable *variable, const float **data) {
    struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_device *device = replica->device;
    const float *place = replica->parameters + variable->offset;
    ls_status status = ls_staged_check(model, false);
    if (status) return status;
    if (!device->host_memory && !replica->mirror) {
        replica->mirror = ls_alloc_aligned(model->built.blob_count * sizeof(float));
        if (!replica->mirror) return ls_fail_memory("a copy of the variables", model->built.blob_count * sizeof(float));
    }
    if (!device->host_memory) {
        float *copy = replica->mirror + variable->offset;
        status = device->ops->copy_out(device, copy, place, variable->count * sizeof(float));
        place = copy;
    }
    if (!status) *data = place;
    return status;
}

ls_status ls_model_variable(const ls_model *model, int index, const char **name, ls_shape *shape, const float **data) {
    LS_NEED(model, name, shape, data);
    if (index < 0 || index >= ls_model_num_variables(model))
        return ls_fail(LS_OUT_OF_RANGE, "variable %d: the model has %d%s", index, ls_model_num_variables(model),
                       model->built.network ? "" : " (it is built at its first fit or evaluate)");
    const struct ls_network_variable *variable = ls_network_variable(model->built.network, index);
    ls_status status = read_variable(model, variable, data);
    if (status) return status;
    *name = variable->name;
    *shape = variable->shape;
    return LS_OK;
}

/* name, rank and extents, then the values: little-endian, row-major, as they lie in memory. */
static void digest_variable(struct ls_digest *digest, const struct ls_network_variable *variable, const float *data) {
    ls_digest_add(digest, variable->name, strlen(variable->name) + 1);
    int64_t rank = variable->shape.rank;
    ls_digest_add(digest, &rank, sizeof(rank));
    ls_digest_add(digest, variable->shape.dims, (size_t)rank * sizeof(variable->shape.dims[0]));
    ls_digest_add(digest, data, variable->count * sizeof(float));
}

/* Those in front of that variable. */
static void digest_tables(const ls_model *model, struct ls_digest *digest, int variable, int *tables) {
    for (; *tables < ls_network_table_count(model->built.network); ++*tables) {
        const struct ls_network_variable *table = ls_network_table(model->built.network, *tables);
        if (table->before > variable) return;
        digest_variable(digest, table, ls_sparse_here(model, *tables));
    }
}

static ls_status digest_model(const ls_model *model, bool tables_too, char hex[65]) {
    if (!model->built.network)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "the model has no weights yet: it is built at its first fit or evaluate");
    const struct ls_model_replica *first = &model->built.replicas[0];
    bool copies = !first->device->host_memory; /* host memory is read where it is */
    struct ls_digest *digest;
    LS_CLEANUP(ls_free_pointer) float *copy = NULL;
    ls_status status = ls_staged_check(model, false);
    if (!status && copies)
        status = ls_model_state_copy_out(model, first->parameters, 0, model->built.blob_count, &copy);
    if (!status) status = ls_digest_new(&digest);
    if (status) return status;
    const float *parameters = copies ? copy : first->parameters;
    int tables = tables_too ? 0 : INT_MAX;
    for (int i = 0; i < ls_network_variable_count(model->built.network); i++) {
        const struct ls_network_variable *variable = ls_network_variable(model->built.network, i);
        digest_tables(model, digest, i, &tables);
        digest_variable(digest, variable, parameters + variable->offset);
    }
    digest_tables(model, digest, INT_MAX, &tables);
    status = ls_digest_hex(digest, hex);
    ls_digest_free(digest);
    return status;
}

ls_status ls_model_digest_here(const ls_model *model, char hex[65]) {
    return digest_model(model, false, hex);
}

ls_status ls_model_weights_sha256(const ls_model *model, char hex[65]) {
    LS_NEED(model, hex);
    ls_status status = ls_sparse_need(model, "ls_model_weights_sha256");
    return status ? status : digest_model(model, true, hex);
}
