/* Building a plan: every node appends its ops, forward in order, then the loss (plan_loss.c), then backward against the
 * order. Tensors are numbers of buffers here; where they lie is decided when all ops are known. A value that several
 * nodes take has its gradient from all of them: the first one's, to which those of the others are added.
 *
 * With mixed precision values and their gradients are of 16 bits: features are converted first, with all variables, as
 * kernels; the last layer's outputs at the end of forward, and their gradient at the begin of backward. */
#include "model/plan_builder.h"

#include <string.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/options.h"
#include "base/shape.h"
#include "model/plan.h"
#include "model/network.h"

/* Of one value: what a node gives, or the network's features. */
struct value {
    struct ls_tensor forward, gradient;
    struct ls_tensor again;              /* made once more in backward, where forward's is not kept */
    struct ls_tensor kept[LS_MOST_KEPT]; /* what the node that gives it leaves to its backward */
    bool trainable;                      /* something up to here is trained: its gradient is needed */
};

struct ls_plan_builder {
    const struct ls_plan_config *config;
    struct ls_plan *plan;
    struct value *values;              /* [layers + 1]: 0 is the features, node + 1 the others */
    const struct ls_plan_stage *stage; /* the nodes of the plan: all, or a stage's */
    ls_dtype type;                     /* of values */
    struct ls_tensor kernels[2];       /* the trained variables and the frozen ones, as type */
    const char *of;                    /* the layer that appends at present */
    ls_recompute recompute;            /* not LS_RECOMPUTE_AUTO */
    bool divided;                      /* the last layer and the loss are over parts of the rows, with their backward */
    bool too_large;
};

static const struct ls_node *node_at(const struct ls_plan_builder *builder, size_t index) {
    return ls_network_node(builder->config->network, index);
}

static struct value *value_of(const struct ls_plan_builder *builder, int node) {
    return &builder->values[node + 1];
}

/* The same elements under another shape. */
static struct ls_tensor reshape(struct ls_tensor tensor, const ls_shape *shape) {
    tensor.shape = *shape;
    return tensor;
}

static const struct ls_node *owner_of(const struct ls_plan_builder *builder, int value) {
    return node_at(builder, (size_t)node_at(builder, (size_t)value)->owner);
}

/* In backward. */
static bool reads_x(const struct ls_node *node) {
    if (node->layer.kind == LS_LAYER_ACTIVATION) return ls_op_activation_takes_x(node->layer.activation);
    return node->type->reads_x && !node->layer.frozen;
}

/* A slope follows from y, or from what the activation took. */
static bool reads_y(const struct ls_node *node) {
    bool activates = node->type->takes.activation && node->layer.activation != LS_LINEAR;
    bool masks = node->residual != LS_NO_NODE && node->activation;
    return node->type->reads_y || masks || (activates && !ls_op_activation_takes_x(node->layer.activation));
}

/* ---- for layers ---- */

const struct ls_plan_config *ls_plan_builder_config(const struct ls_plan_builder *builder) {
    return builder->config;
}

struct ls_plan *ls_plan_builder_plan(const struct ls_plan_builder *builder) {
    return builder->plan;
}

struct ls_tensor ls_plan_builder_tensor(struct ls_plan_builder *builder, ls_dtype dtype, const ls_shape *shape) {
    struct ls_plan *plan = builder->plan;
    int64_t count = ls_shape_count(shape);
    if (count < 1 || (uint64_t)count > LS_ARENA_LIMIT ||
        LS_GROW(plan->buffers, plan->buffer_capacity, plan->buffer_count + 1, 64, "the buffers of a plan")) {
        builder->too_large = true;
        return (struct ls_tensor){NULL, dtype, *shape, 0};
    }
    size_t step = LS_ARENA_STEP * sizeof(float) / ls_dtype_size(dtype);
    size_t size = ((size_t)count + step - 1) / step * LS_ARENA_STEP;
    plan->buffers[plan->buffer_count++] = (struct ls_plan_buffer){.size = size};
    return (struct ls_tensor){NULL, dtype, *shape, (int)plan->buffer_count};
}

/* A value, or its gradient. */
static struct ls_tensor new_values(struct ls_plan_builder *builder, const ls_shape *shape) {
    return ls_plan_builder_tensor(builder, builder->type, shape);
}

struct ls_tensor *ls_plan_builder_kept(struct ls_plan_builder *builder, const struct ls_node *node, int index) {
    return &value_of(builder, (int)node->index)->kept[index];
}

struct ls_tensor ls_plan_builder_given(const struct ls_plan_builder *builder, enum ls_plan_given given, ls_dtype dtype,
                                       const ls_shape *shape) {
    return (struct ls_tensor){NULL, dtype, *shape, builder->plan->given[given] ? -(int)given : 0};
}

ls_shape ls_plan_builder_shape(const struct ls_plan_builder *builder, const ls_shape *example) {
    ls_shape shape = ls_shape_of_rows(builder->config->rows, example);
    if (builder->config->decoding) shape.dims[1] = builder->config->decoding->positions;
    return shape;
}

static struct ls_tensor variable_in(const struct ls_plan_builder *builder, enum ls_plan_given blob,
                                    const struct ls_node *node, int index) {
    const struct ls_network_variable *variable = ls_network_variable_of(builder->config->network, node, index);
    struct ls_tensor tensor = ls_plan_builder_given(builder, blob, LS_FLOAT32, &variable->shape);
    tensor.within = variable->offset * sizeof(float);
    return tensor;
}

struct ls_tensor ls_plan_builder_parameter(const struct ls_plan_builder *builder, const struct ls_node *node,
                                           int index) {
    return variable_in(builder, LS_GIVEN_PARAMETERS, node, index);
}

/* With mixed precision (Micikevicius et al. 2018) float32 variables are the master copy; one cast of the whole blob
 * makes the 16-bit kernels of a step, and a kernel is a place in it (within). */
struct ls_tensor ls_plan_builder_kernel(const struct ls_plan_builder *builder, const struct ls_node *node, int index) {
    struct ls_tensor kernel = ls_plan_builder_parameter(builder, node, index);
    if (kernel.dtype == builder->type) return kernel;
    kernel.dtype = builder->type;
    const struct ls_tensor *all = &builder->kernels[node->layer.frozen];
    size_t begin = node->layer.frozen ? ls_network_summed_count(builder->config->network) : 0;
    kernel.buffer = all->buffer;
    kernel.within = (kernel.within / sizeof(float) - begin) * ls_dtype_size(builder->type);
    return kernel;
}

struct ls_tensor ls_plan_builder_gradient(const struct ls_plan_builder *builder, const struct ls_node *node,
                                          int index) {
    const struct ls_network_variable *variable = ls_network_variable_of(builder->config->network, node, index);
    return variable->trained || variable->moved ? variable_in(builder, LS_GIVEN_GRADIENTS, node, index)
                                                : (struct ls_tensor){0};
}

ls_status ls_plan_builder_append(struct ls_plan_builder *builder, const struct ls_op *op) {
    struct ls_plan *plan = builder->plan;
    ls_status status = LS_GROW(plan->steps, plan->capacity, plan->count + 1, 16, "the ops of a plan");
    if (status) return status;
    const struct ls_objective *objective = &builder->config->objective;
    plan->steps[plan->count] = (struct ls_plan_step){*op, LS_NOT_READY, builder->of, false, 0};
    struct ls_op *appended = &plan->steps[plan->count++].op;
    appended->tf32 = objective->precision == LS_PRECISION_TF32;
    appended->bfloat16 = objective->precision == LS_MIXED_BFLOAT16 && builder->config->device->rounds_factors;
    appended->nondeterministic = objective->nondeterministic_ops;
    return LS_OK;
}

ls_status ls_plan_builder_apply(struct ls_plan_builder *builder, struct ls_op op, const struct ls_tensor *x,
                                const struct ls_tensor *y) {
    op.tensors[LS_ARG_X] = *x;
    op.tensors[LS_ARG_Y] = *y;
    return ls_plan_builder_append(builder, &op);
}

ls_status ls_plan_builder_convert(struct ls_plan_builder *builder, const struct ls_tensor *from, ls_dtype type,
                                  struct ls_tensor *to) {
    *to = *from;
    if (from->dtype == type) return LS_OK;
    *to = ls_plan_builder_tensor(builder, type, &from->shape);
    return ls_plan_builder_apply(builder, (struct ls_op){.kind = LS_OP_CAST}, from, to);
}

static struct ls_tensor rows_in(const struct ls_plan_builder *builder, float **list, const struct ls_node *node) {
    const struct ls_plan_config *config = builder->config;
    int64_t places = config->rows * ls_shape_count(ls_network_input(config->network));
    const ls_shape shape = LS_SHAPE(places, ls_network_table(config->network, node->first_table)->shape.dims[1]);
    return (struct ls_tensor){list[node->first_table], LS_FLOAT32, shape, 0};
}

struct ls_tensor ls_plan_builder_rows(const struct ls_plan_builder *builder, const struct ls_node *node) {
    return rows_in(builder, builder->config->tables->parameters, node);
}

struct ls_tensor ls_plan_builder_row_gradients(const struct ls_plan_builder *builder, const struct ls_node *node) {
    return rows_in(builder, builder->config->tables->gradients, node);
}

/* The first in the blob; NULL: the node has none. */
static const struct ls_network_variable *first_trained(const struct ls_plan_builder *builder,
                                                       const struct ls_node *node) {
    for (int v = 0; v < node->variable_count; v++) {
        const struct ls_network_variable *variable = ls_network_variable_of(builder->config->network, node, v);
        if (variable->trained) return variable;
    }
    return NULL;
}

/* ---- forward ---- */

static ls_status forward(struct ls_plan_builder *builder, const struct ls_node *node) {
    struct ls_node_tensors at = {0};
    const struct ls_node *last = node_at(builder, (size_t)node->last);
    struct value *value = value_of(builder, node->last);
    ls_shape shape = ls_plan_builder_shape(builder, &last->output);
    builder->of = node->name;
    for (int i = 0; i < node->input_count; i++) {
        at.x[i] = value_of(builder, node->inputs[i])->forward;
        value->trainable = value->trainable || value_of(builder, node->inputs[i])->trainable;
    }
    value->trainable = value->trainable || first_trained(builder, node) || node->table_count;
    if (node->residual != LS_NO_NODE) {
        at.residual = value_of(builder, node->residual)->forward;
        value->trainable = value->trainable || value_of(builder, node->residual)->trainable;
    }
    if (node->type->passes_through && node->type->passes_through(node, builder->config->training)) {
        value->forward = reshape(at.x[0], &shape);
        return LS_OK;
    }
    at.y = value->forward = new_values(builder, &shape);
    return (builder->config->decoding ? node->type->decode : node->type->forward)(builder, node, &at);
}

/* Ops that nodes have in a training before all others: at the beginning, so that runs of ops over parts of the batch
 * stay whole. */
static ls_status append_begins(struct ls_plan_builder *builder, bool backward) {
    ls_status status = LS_OK;
    for (size_t i = builder->stage->begin; !status && builder->config->training && i < builder->stage->end; i++)
        if (node_at(builder, i)->type->begin)
            status = node_at(builder, i)->type->begin(builder, node_at(builder, i), backward);
    return status;
}

/* The value that the stage before gives. Its gradient is needed where that one trains, or one before it. */
static ls_status take_entry(struct ls_plan_builder *builder) {
    int entry = (int)builder->stage->begin - 1;
    struct value *value = value_of(builder, entry);
    const ls_shape shape = ls_plan_builder_shape(builder, &node_at(builder, (size_t)entry)->output);
    value->forward = ls_plan_builder_given(builder, LS_GIVEN_ENTRY, LS_FLOAT32, &shape);
    for (int i = 0; i <= entry; i++)
        value->trainable = value->trainable || first_trained(builder, node_at(builder, (size_t)i));
    return LS_OK;
}

/* Of values' type; integers stay. */
static ls_status append_features(struct ls_plan_builder *builder) {
    const struct ls_plan_config *config = builder->config;
    struct ls_tensor *value = &builder->values[0].forward;
    ls_shape input = ls_plan_builder_shape(builder, ls_network_input(config->network));
    struct ls_tensor features = ls_plan_builder_given(builder, LS_GIVEN_FEATURES, LS_FLOAT32, &input);
    ls_dtype type = ls_network_takes_integers(config->network) ? features.dtype : builder->type;
    if (builder->stage->begin) return take_entry(builder);
    if (!config->byte_values) return ls_plan_builder_convert(builder, &features, type, value);
    struct ls_op op = {.kind = LS_OP_EXPAND};
    features.dtype = LS_UINT8;
    op.tensors[LS_ARG_W] = ls_plan_builder_given(builder, LS_GIVEN_BYTE_VALUES, LS_FLOAT32,
                                                 &LS_SHAPE(config->byte_channels, LS_BYTE_VALUES));
    *value = new_values(builder, &input);
    return ls_plan_builder_apply(builder, op, &features, value);
}

/* The variables from begin to end, as kernels. */
static ls_status append_kernels(struct ls_plan_builder *builder, size_t begin, size_t end, struct ls_tensor *kernels) {
    const ls_shape shape = LS_SHAPE((int64_t)(end - begin));
    struct ls_tensor parameters = ls_plan_builder_given(builder, LS_GIVEN_PARAMETERS, LS_FLOAT32, &shape);
    parameters.within = begin * sizeof(float);
    return begin == end ? LS_OK : ls_plan_builder_convert(builder, &parameters, builder->type, kernels);
}

static ls_status append_forward(struct ls_plan_builder *builder) {
    const struct ls_plan_config *config = builder->config;
    ls_status status = append_features(builder);
    if (!status) status = append_kernels(builder, 0, ls_network_trainable_count(config->network), &builder->kernels[0]);
    if (!status)
        status = append_kernels(builder, ls_network_summed_count(config->network),
                                ls_network_blob_count(config->network), &builder->kernels[1]);
    if (!status) status = append_begins(builder, false);
    for (size_t i = builder->stage->begin; !status && i < builder->stage->end - builder->divided; i++)
        if (node_at(builder, i)->owner == (int)i) status = forward(builder, node_at(builder, i));
    builder->of = NULL;
    return status;
}

/* ---- backward ---- */

/* Outside of blocks a node with a residual does not make its value again, for the residual would have to live as long;
 * nor one with an activation whose own backward takes its output. */
static bool makes_from_kept(const struct ls_node *node) {
    bool needs_output = node->type->takes.activation && !ls_op_activation_takes_x(node->layer.activation);
    return node->type->again && node->residual == LS_NO_NODE && !needs_output;
}

static bool runs_again(const struct ls_plan_builder *builder, int value) {
    return builder->recompute == LS_RECOMPUTE_BLOCKS && node_at(builder, (size_t)value)->inside;
}

static bool is_made_again(const struct ls_plan_builder *builder, int value) {
    if (value < (int)builder->stage->begin || builder->recompute == LS_RECOMPUTE_NONE) return false;
    return runs_again(builder, value) || makes_from_kept(owner_of(builder, value));
}

static ls_status value_again(struct ls_plan_builder *builder, int index, struct ls_tensor *tensor);

static ls_status inputs_again(struct ls_plan_builder *builder, const struct ls_node *node, struct ls_node_tensors *at) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < node->input_count; i++) status = value_again(builder, node->inputs[i], &at->x[i]);
    if (!status && node->residual != LS_NO_NODE) status = value_again(builder, node->residual, &at->residual);
    return status;
}

/* Statistics are small, and those of a batch are told to others once: normalizations keep them. Inside of a block all
 * other layers run as in forward, and leave to backward what they left before. */
static ls_status make_again(struct ls_plan_builder *builder, const struct ls_node *node, bool runs) {
    struct ls_node_tensors at = {0};
    struct value *value = value_of(builder, node->last);
    bool has_before = !runs && ls_tensor_exists(ls_plan_builder_kept(builder, node, LS_KEPT_BEFORE));
    ls_status status = has_before ? LS_OK : inputs_again(builder, node, &at);
    if (status) return status;
    if (node->type->passes_through && node->type->passes_through(node, true)) {
        value->again = reshape(at.x[0], &value->forward.shape);
        return LS_OK;
    }
    at.y = value->again = new_values(builder, &value->forward.shape);
    bool forward = runs && (!node->type->again || node->type->takes.activation);
    return (forward ? node->type->forward : node->type->again)(builder, node, &at);
}

/* The value for a node's backward: where the node that gives it can make it again, it is not kept since forward.
 * Computing again instead of keeping is Chen et al. 2016, "Training deep nets with sublinear memory cost": for
 * normalizations and smooth activations, whose output costs one pass to make again, of what is kept for the node's own
 * backward anyway; and for all that backward reads inside of a block. */
static ls_status value_again(struct ls_plan_builder *builder, int index, struct ls_tensor *tensor) {
    struct value *value = value_of(builder, index);
    *tensor = value->forward;
    if (!is_made_again(builder, index)) return LS_OK;
    ls_status status = LS_OK;
    if (!ls_tensor_exists(&value->again))
        status = make_again(builder, owner_of(builder, index), runs_again(builder, index));
    *tensor = value->again;
    return status;
}

static struct ls_tensor new_gradient(struct ls_plan_builder *builder, int node) {
    const struct value *value = value_of(builder, node);
    return value->trainable ? new_values(builder, &value->forward.shape) : (struct ls_tensor){0};
}

/* A node's part of the gradient of one of its inputs. Nodes come in reverse order, so the parts are added in an order
 * that the network fixes. All consumers stand behind the node; its gradient is complete when its own backward begins.
 */
static ls_status settle_gradient(struct ls_plan_builder *builder, int node, const struct ls_tensor *part) {
    struct value *value = value_of(builder, node);
    if (!value->trainable) return LS_OK;
    if (!ls_tensor_exists(&value->gradient)) {
        value->gradient = reshape(*part, &value->forward.shape);
        return LS_OK;
    }
    struct ls_op op = {.kind = LS_OP_ADD};
    op.tensors[LS_ARG_W] = reshape(*part, &value->forward.shape);
    return ls_plan_builder_apply(builder, op, &value->gradient, &value->gradient);
}

static ls_status start_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                struct ls_node_tensors *at) {
    const struct value *value = value_of(builder, node->last);
    ls_status status = LS_OK;
    at->y = value->forward;
    at->dy = value->gradient;
    for (int i = 0; !status && i < node->input_count; i++) {
        at->x[i] = value_of(builder, node->inputs[i])->forward;
        if (reads_x(node)) status = value_again(builder, node->inputs[i], &at->x[i]);
        at->dx[i] = new_gradient(builder, node->inputs[i]);
    }
    if (!status && reads_y(node)) status = value_again(builder, node->last, &at->y);
    if (node->residual != LS_NO_NODE) at->dresidual = new_gradient(builder, node->residual);
    return status;
}

static ls_status backward(struct ls_plan_builder *builder, const struct ls_node *node) {
    struct ls_node_tensors at = {0};
    builder->of = node->name;
    if (node->type->passes_through && node->type->passes_through(node, true))
        return settle_gradient(builder, node->inputs[0], &value_of(builder, node->last)->gradient);
    ls_status status = start_backward(builder, node, &at);
    if (!status) status = node->type->backward(builder, node, &at);
    const struct ls_network_variable *trained = first_trained(builder, node);
    if (!status && trained) builder->plan->steps[builder->plan->count - 1].ready = trained->offset;
    for (int i = 0; !status && i < node->input_count; i++)
        status = settle_gradient(builder, node->inputs[i], &at.dx[i]);
    if (!status && node->residual != LS_NO_NODE) status = settle_gradient(builder, node->residual, &at.dresidual);
    return status;
}

/* ---- the end of forward ---- */

static struct value *last_value(const struct ls_plan_builder *builder) {
    return &builder->values[builder->stage->end];
}

void ls_plan_builder_judged(const struct ls_plan_builder *builder) {
    struct ls_plan *plan = builder->plan;
    if (builder->config->training && plan->count)
        plan->steps[plan->count - 1].ready = ls_network_trainable_count(builder->config->network);
}

/* Backward takes the outputs, or they are not the plan's own memory. */
static bool needs_outputs(const struct ls_plan_builder *builder) {
    int value = (int)builder->stage->end - 1;
    const struct ls_node *node = owner_of(builder, value);
    while (node->type->passes_through && node->type->passes_through(node, true)) {
        if (node->inputs[0] < (int)builder->stage->begin) return true;
        node = owner_of(builder, node->inputs[0]);
    }
    return reads_y(node) && builder->type == LS_FLOAT32;
}

/* Then the loss, if there are labels: it writes the gradient, in place of the outputs where it can. Else the caller
 * does. */
static ls_status append_outputs(struct ls_plan_builder *builder) {
    const struct ls_plan_config *config = builder->config;
    struct ls_plan *plan = builder->plan;
    const struct ls_plan_part all = {0, config->rows};
    bool judged = config->labels || config->numbers;
    ls_status status = ls_plan_builder_convert(builder, &last_value(builder)->forward, LS_FLOAT32, &plan->outputs);
    if (config->training && judged && !needs_outputs(builder))
        plan->output_gradient = plan->outputs;
    else if (config->training)
        plan->output_gradient = ls_plan_builder_tensor(builder, LS_FLOAT32, &plan->outputs.shape);
    if (!status && judged) status = ls_plan_loss_append(builder, &plan->outputs, &plan->output_gradient, &all);
    ls_plan_builder_judged(builder);
    return status;
}

/* The last layer in parts, with its backward. */
static ls_status append_head(struct ls_plan_builder *builder) {
    const struct ls_plan_config *config = builder->config;
    const struct ls_node *node = node_at(builder, builder->stage->end - 1);
    const struct value *input = value_of(builder, node->inputs[0]);
    const struct ls_network_variable *trained = first_trained(builder, node);
    struct ls_plan_head head = {.node = node, .x = input->forward, .rows = ls_plan_head_rows(config, node)};
    head.trains = config->training && (input->trainable || trained);
    if (head.trains) head.dx = new_gradient(builder, node->inputs[0]);
    builder->of = node->name;
    ls_status status = ls_plan_head_append(builder, &head);
    if (!status && head.trains && trained) builder->plan->steps[builder->plan->count - 1].ready = trained->offset;
    return status || !head.trains ? status : settle_gradient(builder, node->inputs[0], &head.dx);
}

static ls_status append_backward(struct ls_plan_builder *builder) {
    ls_status status = LS_OK;
    if (!builder->divided)
        status = ls_plan_builder_convert(builder, &builder->plan->output_gradient, builder->type,
                                         &last_value(builder)->gradient);
    if (!status) status = append_begins(builder, true);
    for (size_t i = builder->stage->end - builder->divided; !status && i-- > builder->stage->begin;) {
        const struct ls_node *node = node_at(builder, i);
        if (node->owner == (int)i && value_of(builder, node->last)->trainable) status = backward(builder, node);
    }
    if (builder->stage->begin)
        builder->plan->entry_gradient = value_of(builder, (int)builder->stage->begin - 1)->gradient;
    return status;
}

/* Of what layers give each other. */
static ls_dtype values_type(const struct ls_plan_config *config) {
    ls_dtype type = ls_option_names_precision_dtype(config->objective.precision);
    return type == LS_BFLOAT16 && config->device->rounds_factors ? LS_FLOAT32 : type;
}

ls_status ls_plan_builder_run(const struct ls_plan_config *config, ls_recompute recompute, struct ls_plan *plan) {
    size_t count = ls_network_layer_count(config->network) + 1;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct value, values, count, "a plan");
    struct ls_plan_builder builder = {
        .config = config, .plan = plan, .values = values, .recompute = recompute, .type = values_type(config)};
    bool ends_early = config->decoding && config->decoding->layers;
    const struct ls_plan_stage whole = {0, ends_early ? config->decoding->layers : count - 1, NULL};
    builder.stage = config->stage ? config->stage : &whole;
    const void *given[LS_GIVEN_COUNT] = {[LS_GIVEN_PARAMETERS] = config->parameters,
                                         [LS_GIVEN_GRADIENTS] = config->gradients,
                                         [LS_GIVEN_FEATURES] = config->features,
                                         [LS_GIVEN_BYTE_VALUES] = config->byte_values,
                                         [LS_GIVEN_WEIGHTS] = config->weights,
                                         [LS_GIVEN_KEPT] = config->decoding ? config->decoding->kept : NULL,
                                         [LS_GIVEN_AT] = config->decoding ? config->decoding->at : NULL,
                                         [LS_GIVEN_ENTRY] = builder.stage->entry};
    memcpy(plan->given, given, sizeof(given));
    plan->given[LS_GIVEN_TARGETS] = config->numbers ? (const void *)config->numbers : config->labels;
    builder.divided = ls_plan_head_rows(config, node_at(&builder, builder.stage->end - 1)) < config->rows;
    ls_status status = append_forward(&builder);
    if (!status && !ends_early) status = (builder.divided ? append_head : append_outputs)(&builder);
    plan->turn = plan->count;
    if (!status && config->training) status = append_backward(&builder);
    if (!status && builder.too_large)
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "plan: the activations of %lld rows are larger than memory can be",
                         (long long)config->rows);
    return status;
}
