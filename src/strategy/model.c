/* The public model: layers, compile, variables, digest (tf.keras.Sequential under a strategy). */
#include "strategy/saved.h"

#include <string.h>

#include "base/digest.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "model/rate_schedule.h"

#define NAMES (2 + LS_MAX_OTHER_INPUTS) /* in a layer */

/* Its own copy of a layer's name, or of an input's. */
static ls_status copy_name(ls_model *model, const char **name) {
    if (!*name) return LS_OK;
    char *copy = ls_strdup(*name);
    if (!copy) return ls_fail_memory("a layer's name", strlen(*name));
    model->layer_names[model->name_count++] = copy;
    *name = copy;
    return LS_OK;
}

static ls_status copy_layers(ls_model *model, const ls_layer *layers, size_t count) {
    ls_status status = LS_OK;
    model->layers = ls_alloc_array(count, sizeof(*layers));
    model->layer_names = ls_alloc_array(count, NAMES * sizeof(*model->layer_names));
    if (!model->layers || !model->layer_names) return ls_fail_memory("layers", count * sizeof(*layers));
    model->layer_count = count;
    memcpy(model->layers, layers, count * sizeof(*layers));
    for (size_t i = 0; !status && i < count; i++) {
        status = copy_name(model, &model->layers[i].name);
        if (!status) status = copy_name(model, &model->layers[i].input);
        for (int k = 0; !status && k < LS_MAX_OTHER_INPUTS; k++) status = copy_name(model, &model->layers[i].others[k]);
    }
    return status;
}

ls_status ls_model_new(ls_strategy *strategy, const ls_layer *layers, size_t count, ls_model **model) {
    if (!layers || !count) return ls_fail(LS_INVALID_ARGUMENT, "a model needs at least one layer");
    ls_model *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a model", sizeof(*made));
    made->strategy = strategy;
    ls_status status = copy_layers(made, layers, count);
    if (status)
        ls_model_free(made);
    else
        *model = made;
    return status;
}

void ls_model_free(ls_model *model) {
    if (!model) return;
    ls_training_part(model);
    ls_model_release(model);
    ls_initial_weights_free(model->initial);
    for (size_t i = 0; i < model->name_count; i++) ls_free(model->layer_names[i]);
    ls_free(model->layer_names);
    ls_free(model->layers);
    ls_free(model->excluded);
    ls_free(model);
}

ls_status ls_model_seed(ls_model *model, uint64_t seed) {
    if (model->network) return ls_fail(LS_FAILED_PRECONDITION, "the seed must be set before the first fit or evaluate");
    model->seed = seed;
    return LS_OK;
}

static ls_status copy_exclusions(ls_model *model, ls_optimizer *optimizer) {
    const char *words = optimizer->exclude_from_weight_decay;
    char *copy = words ? ls_strdup(words) : NULL;
    if (words && !copy) return ls_fail_memory("a list of variables", strlen(words));
    ls_free(model->excluded);
    optimizer->exclude_from_weight_decay = model->excluded = copy;
    return LS_OK;
}

ls_status ls_model_compile_with(ls_model *model, ls_optimizer optimizer, ls_loss loss,
                                const ls_compile_options *options) {
    struct ls_objective objective;
    if (model->network) return ls_fail(LS_FAILED_PRECONDITION, "compile the model before its first fit or evaluate");
    ls_status status = ls_objective_new(loss, options, &objective);
    if (!status) status = ls_optimizer_resolve(&optimizer);
    if (!status) status = ls_precision_try(model->strategy, objective.precision);
    if (!status) status = copy_exclusions(model, &optimizer);
    if (status) return status;
    model->scaler = ls_loss_scaler_initial(objective.precision);
    model->step = (struct ls_optimizer_step){.rule = optimizer};
    model->compiled_rate = optimizer.learning_rate;
    model->objective = objective;
    model->compiled = true;
    return LS_OK;
}

ls_status ls_model_compile(ls_model *model, ls_optimizer optimizer, ls_loss loss) {
    return ls_model_compile_with(model, optimizer, loss, NULL);
}

const char *ls_model_metric_name(const ls_model *model, int index) {
    bool there = index >= 0 && index < model->objective.metric_count;
    return there ? ls_metric_name(&model->objective.metrics[index]) : NULL;
}

static ls_status check_compiled(const ls_model *model) {
    return model->compiled ? LS_OK
                           : ls_fail(LS_FAILED_PRECONDITION, "compile the model: before that it has no learning rate");
}

float ls_model_next_rate(const ls_model *model) {
    const ls_optimizer *rule = &model->step.rule;
    if (ls_rate_schedule_is_constant(&rule->schedule)) return rule->learning_rate;
    return ls_rate_schedule_rate(&rule->schedule, model->compiled_rate, model->step.iteration - model->scaler.skipped);
}

ls_status ls_model_learning_rate(const ls_model *model, float *learning_rate) {
    ls_status status = check_compiled(model);
    if (!status) *learning_rate = ls_model_next_rate(model);
    return status;
}

ls_status ls_model_set_learning_rate(ls_model *model, float learning_rate) {
    ls_status status = check_compiled(model);
    if (!status && !ls_rate_schedule_is_constant(&model->step.rule.schedule))
        status = ls_fail(LS_FAILED_PRECONDITION, "the learning rate follows the optimizer's schedule");
    if (!status) status = ls_optimizer_check_rate(learning_rate);
    if (!status) model->step.rule.learning_rate = learning_rate;
    return status;
}

ls_status ls_model_summary(const ls_model *model, ls_shape input, char **text) {
    struct ls_network *network = NULL;
    ls_status status = ls_network_new(model->layers, model->layer_count, &input, &network);
    if (!status) status = ls_network_summary(network, text);
    ls_network_free(network);
    return status;
}

int ls_model_num_variables(const ls_model *model) {
    return model->network ? ls_network_variable_count(model->network) : 0;
}

/* Where it lies; of a device without host memory, in the mirror. */
static ls_status read_variable(const ls_model *model, const struct ls_network_variable *variable, const float **data) {
    struct ls_model_replica *replica = &model->replicas[0];
    struct ls_device *device = replica->device;
    const float *place = replica->parameters + variable->offset;
    ls_status status = LS_OK;
    if (!device->host_memory && !replica->mirror) {
        replica->mirror = ls_alloc_aligned(model->blob_count * sizeof(float));
        if (!replica->mirror) return ls_fail_memory("a copy of the variables", model->blob_count * sizeof(float));
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
    if (index < 0 || index >= ls_model_num_variables(model))
        return ls_fail(LS_OUT_OF_RANGE, "variable %d: the model has %d%s", index, ls_model_num_variables(model),
                       model->network ? "" : " (it is built at its first fit or evaluate)");
    const struct ls_network_variable *variable = ls_network_variable(model->network, index);
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

ls_status ls_model_weights_sha256(const ls_model *model, char hex[65]) {
    if (!model->network)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "the model has no weights yet: it is built at its first fit or evaluate");
    struct ls_digest *digest;
    LS_CLEANUP(ls_free_pointer) float *parameters = NULL;
    ls_status status = ls_model_copy_out(model, model->replicas[0].parameters, 0, model->blob_count, &parameters);
    if (!status) status = ls_digest_new(&digest);
    if (status) return status;
    for (int i = 0; i < ls_network_variable_count(model->network); i++) {
        const struct ls_network_variable *variable = ls_network_variable(model->network, i);
        digest_variable(digest, variable, parameters + variable->offset);
    }
    status = ls_digest_hex(digest, hex);
    ls_digest_free(digest);
    return status;
}
