/* Batch normalization with what follows it (fuse.c). In training the batch's statistics normalize, and this replica's
 * part in the change of the moving ones goes where gradients go: all replicas' parts are added up and applied with the
 * step. Mirrors tf.keras.layers.BatchNormalization. The layer is that of Ioffe and Szegedy 2015. A moving statistic is
 * a mirrored variable: replicas must not assign it each on its own (tf.VariableAggregation.MEAN). So a replica writes
 * only its change, into the part of the gradient blob behind the trainable variables, and the all-reduce of the step
 * adds the changes. */
#include <math.h>

#include "base/status.h"
#include "model/plan_builder.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "model/network.h"

enum { GAMMA = 0, BETA, MOVING_MEAN, MOVING_VARIANCE, VARIABLES };
enum { SAVED = 0, LESS_BIAS }; /* tensors that are kept */

static bool has_variable(const struct ls_node *node, int which) {
    return !((which == GAMMA && node->layer.no_scale) || (which == BETA && node->layer.no_center));
}

/* Its number among those that the node has. */
static int index_of_variable(const struct ls_node *node, int which) {
    int number = 0;
    for (int i = 0; i < which; i++) number += has_variable(node, i);
    return number;
}

/* Absent where the node has it not. */
static struct ls_tensor variable(const struct ls_plan_builder *builder, const struct ls_node *node, int which) {
    return has_variable(node, which) ? ls_plan_builder_parameter(builder, node, index_of_variable(node, which))
                                     : (struct ls_tensor){0};
}

static struct ls_tensor change(const struct ls_plan_builder *builder, const struct ls_node *node, int which) {
    return has_variable(node, which) ? ls_plan_builder_gradient(builder, node, index_of_variable(node, which))
                                     : (struct ls_tensor){0};
}

static float momentum_of(const ls_layer *layer) {
    return layer->momentum > 0 ? layer->momentum : 0.99F;
}

static float epsilon_of(const ls_layer *layer) {
    return layer->epsilon > 0 ? layer->epsilon : 0.001F;
}

static ls_status norm_check(const struct ls_node *node, size_t position) {
    const ls_layer *layer = &node->layer;
    if (!(layer->momentum >= 0 && layer->momentum < 1))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (batch_normalization): momentum %g must be at least 0 and below 1", position,
                       (double)layer->momentum);
    if (!(layer->epsilon >= 0) || isinf(layer->epsilon))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (batch_normalization): epsilon %g must be above 0", position,
                       (double)layer->epsilon);
    return LS_OK;
}

static ls_status norm_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    ls_status status = LS_OK;
    if (node->input.rank < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (batch_normalization): its input has no axis", position);
    int64_t channels = node->input.dims[node->input.rank - 1];
    float kept = momentum_of(&node->layer);
    const struct ls_variable_spec specs[] = {{"gamma", LS_SHAPE(channels), LS_ONES, 1, 1, false},
                                             {"beta", LS_SHAPE(channels), LS_ZEROS, 1, 1, false},
                                             {"moving_mean", LS_SHAPE(channels), LS_ZEROS, 1, 1, true, kept},
                                             {"moving_variance", LS_SHAPE(channels), LS_ONES, 1, 1, true, kept}};
    node->output = node->input;
    for (int i = 0; !status && i < VARIABLES; i++)
        if (has_variable(node, i)) status = ls_network_add_variable(network, node, &specs[i]);
    return status;
}

static struct ls_op start_layer_batch_norm_op(struct ls_plan_builder *builder, const struct ls_node *node,
                                              enum ls_op_kind kind, const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = kind,
                       .activation = node->activation,
                       .momentum = momentum_of(&node->layer),
                       .epsilon = epsilon_of(&node->layer),
                       .fused = node->layer.fused,
                       .scale = ls_plan_builder_config(builder)->loss_scale};
    if (node->layer.synchronized && !node->layer.frozen) op.exchange = ls_plan_builder_config(builder)->exchange;
    op.tensors[LS_ARG_X] = at->x[0];
    op.tensors[LS_ARG_GAMMA] = variable(builder, node, GAMMA);
    op.tensors[LS_ARG_BETA] = variable(builder, node, BETA);
    return op;
}

static ls_status norm_inference(struct ls_plan_builder *builder, const struct ls_node *node,
                                const struct ls_node_tensors *at) {
    struct ls_op op = start_layer_batch_norm_op(builder, node, LS_OP_BATCH_NORM_INFERENCE, at);
    op.tensors[LS_ARG_Y] = at->y;
    op.tensors[LS_ARG_R] = at->residual;
    op.tensors[LS_ARG_MEAN] = variable(builder, node, MOVING_MEAN);
    op.tensors[LS_ARG_VARIANCE] = variable(builder, node, MOVING_VARIANCE);
    return ls_plan_builder_append(builder, &op);
}

static ls_status norm_again(struct ls_plan_builder *builder, const struct ls_node *node,
                            const struct ls_node_tensors *at) {
    if (node->layer.frozen) return norm_inference(builder, node, at);
    struct ls_op op = start_layer_batch_norm_op(builder, node, LS_OP_BATCH_NORM_AGAIN, at);
    op.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED);
    op.tensors[LS_ARG_Y] = at->y;
    op.tensors[LS_ARG_R] = at->residual;
    return ls_plan_builder_append(builder, &op);
}

static struct ls_op scale_by(float factor) {
    return (struct ls_op){.kind = LS_OP_SCALE, .alpha = factor};
}

/* Of a folded bias, a convolution's last variable. The change of the moving mean is (1 - momentum) (batch mean + bias -
 * mean), and the batch's mean has no bias: here is mean - bias. The bias' gradient is 0. */
static ls_status norm_begin(struct ls_plan_builder *builder, const struct ls_node *node, bool backward) {
    if (node->folded == LS_NO_NODE) return LS_OK;
    const struct ls_node *folded = ls_network_node(ls_plan_builder_config(builder)->network, (size_t)node->folded);
    const struct ls_tensor bias = ls_plan_builder_parameter(builder, folded, folded->variable_count - 1);
    if (backward && folded->layer.frozen) return LS_OK;
    if (backward) {
        const struct ls_tensor gradient = ls_plan_builder_gradient(builder, folded, folded->variable_count - 1);
        return ls_plan_builder_apply(builder, scale_by(0), &bias, &gradient);
    }
    struct ls_tensor *mean = ls_plan_builder_kept(builder, node, LESS_BIAS);
    *mean = ls_plan_builder_tensor(builder, LS_FLOAT32, &bias.shape);
    ls_status status = ls_plan_builder_apply(builder, scale_by(-1), &bias, mean);
    struct ls_op op = {.kind = LS_OP_ADD};
    op.tensors[LS_ARG_W] = variable(builder, node, MOVING_MEAN);
    return status ? status : ls_plan_builder_apply(builder, op, mean, mean);
}

/* The statistics first, of the whole batch; then y, which can be made a part of the batch at a time. */
static ls_status norm_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                              const struct ls_node_tensors *at) {
    if (node->layer.frozen || !ls_plan_builder_config(builder)->training) return norm_inference(builder, node, at);
    struct ls_op op = start_layer_batch_norm_op(builder, node, LS_OP_BATCH_NORM_FORWARD, at);
    const ls_shape shape = LS_SHAPE(2, node->input.dims[node->input.rank - 1]);
    op.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED) =
        ls_plan_builder_tensor(builder, LS_FLOAT32, &shape);
    op.tensors[LS_ARG_MEAN] = node->folded == LS_NO_NODE ? variable(builder, node, MOVING_MEAN)
                                                         : *ls_plan_builder_kept(builder, node, LESS_BIAS);
    op.tensors[LS_ARG_VARIANCE] = variable(builder, node, MOVING_VARIANCE);
    op.tensors[LS_ARG_DMEAN] = change(builder, node, MOVING_MEAN);
    op.tensors[LS_ARG_DVARIANCE] = change(builder, node, MOVING_VARIANCE);
    ls_status status = ls_plan_builder_append(builder, &op);
    return status ? status : norm_again(builder, node, at);
}

/* With moving statistics the layer is linear in x. So dx is what it makes of dy, without mean and beta. */
static ls_status frozen_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                 const struct ls_node_tensors *at) {
    struct ls_op op = start_layer_batch_norm_op(builder, node, LS_OP_BATCH_NORM_INFERENCE, at);
    const struct ls_tensor mean = variable(builder, node, MOVING_MEAN);
    op.tensors[LS_ARG_X] = at->dy;
    op.tensors[LS_ARG_Y] = at->dx[0];
    op.tensors[LS_ARG_BETA] = (struct ls_tensor){0};
    op.tensors[LS_ARG_MEAN] = ls_plan_builder_tensor(builder, LS_FLOAT32, &mean.shape);
    op.tensors[LS_ARG_VARIANCE] = variable(builder, node, MOVING_VARIANCE);
    ls_status status = ls_plan_builder_apply(builder, scale_by(0), &mean, &op.tensors[LS_ARG_MEAN]);
    return status ? status : ls_plan_builder_append(builder, &op);
}

/* The sums that dx needs, then dx. The residual's gradient is dy: where there is an activation, after it. */
static ls_status norm_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                               struct ls_node_tensors *at) {
    if (node->layer.frozen) return frozen_backward(builder, node, at);
    struct ls_op op = start_layer_batch_norm_op(builder, node, LS_OP_BATCH_NORM_BACKWARD, at), data = op;
    bool masked = node->residual != LS_NO_NODE && node->activation;
    const ls_shape shape = LS_SHAPE(2, node->input.dims[node->input.rank - 1]);
    op.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED);
    op.tensors[LS_ARG_DY] = at->dy;
    if (masked) {
        op.tensors[LS_ARG_DR] = at->dy;
        op.tensors[LS_ARG_Y] = at->y;
    }
    op.tensors[LS_ARG_DGAMMA] = change(builder, node, GAMMA);
    op.tensors[LS_ARG_DBETA] = change(builder, node, BETA);
    if (ls_tensor_exists(&at->dx[0])) op.tensors[LS_ARG_SHIFTS] = ls_plan_builder_tensor(builder, LS_FLOAT32, &shape);
    ls_status status = ls_plan_builder_append(builder, &op);
    if (ls_tensor_exists(&at->dresidual)) at->dresidual = at->dy;
    if (status || !ls_tensor_exists(&at->dx[0])) return status;
    data.kind = LS_OP_BATCH_NORM_BACKWARD_DATA;
    if (masked) data.activation = LS_LINEAR;
    data.tensors[LS_ARG_SAVED] = op.tensors[LS_ARG_SAVED];
    data.tensors[LS_ARG_SHIFTS] = op.tensors[LS_ARG_SHIFTS];
    data.tensors[LS_ARG_DY] = at->dy;
    data.tensors[LS_ARG_DX] = at->dx[0];
    return ls_plan_builder_append(builder, &data);
}

const struct ls_layer_type ls_batch_normalization_type = {
    .kind = LS_LAYER_BATCH_NORMALIZATION,
    .title = {"batch_normalization", "BatchNormalization"},
    .takes = {.momentum = 1,
              .epsilon = 1,
              .no_scale = true,
              .no_center = true,
              .synchronized = true,
              .fused = true,
              LS_LAYER_VARIABLE_FIELDS},
    .check = norm_check,
    .infer = norm_infer,
    .begin = norm_begin,
    .forward = norm_forward,
    .decode = norm_forward,
    .backward = norm_backward,
    .again = norm_again,
    .reads_x = true,
};
