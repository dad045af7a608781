/* Layer normalization and RMS normalization: each position by itself, over the last axis. Forward keeps two numbers of
 * a position for backward, and y can be made again from x. Mirrors tf.keras.layers.LayerNormalization and
 * RMSNormalization, and torch's LayerNorm and RMSNorm over one axis. */
#include <math.h>

#include "base/shape.h"
#include "base/status.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "model/network.h"
#include "model/plan_builder.h"

enum { SAVED = 0 }; /* the tensor that is kept */

static bool is_rms(const struct ls_node *node) {
    return node->layer.kind == LS_LAYER_RMS_NORMALIZATION;
}

static bool has_beta(const struct ls_node *node) {
    return !is_rms(node) && !node->layer.no_center;
}

static ls_status layer_norm_check(const struct ls_node *node, size_t position) {
    float epsilon = node->layer.epsilon;
    if (epsilon >= 0 && !isinf(epsilon)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): epsilon %g must be above 0", position, node->title.name,
                   (double)epsilon);
}

static ls_status layer_norm_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    int rank = node->input.rank;
    if (rank < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): its input has no axis", position, node->title.name);
    const ls_shape columns = LS_SHAPE(node->input.dims[rank - 1]);
    const struct ls_variable_spec gamma = {is_rms(node) ? "scale" : "gamma", columns, LS_ONES, 1, 1, false};
    const struct ls_variable_spec beta = {"beta", columns, LS_ZEROS, 1, 1, false};
    ls_status status = LS_OK;
    node->output = node->input;
    if (!node->layer.no_scale) status = ls_network_add_variable(network, node, &gamma);
    return status || !has_beta(node) ? status : ls_network_add_variable(network, node, &beta);
}

static struct ls_op start_layer_norm_op(struct ls_plan_builder *builder, const struct ls_node *node,
                                        enum ls_op_kind kind, const struct ls_tensor *x) {
    float usual = is_rms(node) ? 1e-6F : 1e-3F;
    struct ls_op op = {
        .kind = kind, .centered = !is_rms(node), .epsilon = node->layer.epsilon > 0 ? node->layer.epsilon : usual};
    op.tensors[LS_ARG_X] = *x;
    op.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED);
    if (!node->layer.no_scale) op.tensors[LS_ARG_GAMMA] = ls_plan_builder_parameter(builder, node, 0);
    return op;
}

/* In a training the op writes the same statistics once more. */
static ls_status layer_norm_again(struct ls_plan_builder *builder, const struct ls_node *node,
                                  const struct ls_node_tensors *at) {
    struct ls_op op = start_layer_norm_op(builder, node, LS_OP_LAYER_NORM_FORWARD, &at->x[0]);
    if (has_beta(node)) op.tensors[LS_ARG_BETA] = ls_plan_builder_parameter(builder, node, !node->layer.no_scale);
    op.tensors[LS_ARG_Y] = at->y;
    return ls_plan_builder_append(builder, &op);
}

static ls_status layer_norm_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    const struct ls_node_tensors *at) {
    const ls_shape *x = &at->x[0].shape, saved = LS_SHAPE(ls_shape_count(x) / x->dims[x->rank - 1], 2);
    if (ls_plan_builder_config(builder)->training)
        *ls_plan_builder_kept(builder, node, SAVED) = ls_plan_builder_tensor(builder, LS_FLOAT32, &saved);
    return layer_norm_again(builder, node, at);
}

static ls_status layer_norm_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                     struct ls_node_tensors *at) {
    struct ls_op op = start_layer_norm_op(builder, node, LS_OP_LAYER_NORM_BACKWARD, &at->x[0]);
    op.tensors[LS_ARG_DY] = at->dy;
    if (ls_tensor_exists(&at->dx[0])) op.tensors[LS_ARG_DX] = at->dx[0] = at->dy;
    if (!node->layer.no_scale) op.tensors[LS_ARG_DGAMMA] = ls_plan_builder_gradient(builder, node, 0);
    if (has_beta(node)) op.tensors[LS_ARG_DBETA] = ls_plan_builder_gradient(builder, node, !node->layer.no_scale);
    return ls_plan_builder_append(builder, &op);
}

#define NORMALIZATION_TYPE(type, its_kind, name, class_name, ...)                                                      \
    const struct ls_layer_type type = {                                                                                \
        .kind = its_kind,                                                                                              \
        .title = {name, class_name},                                                                                   \
        .takes = {.epsilon = 1, .no_scale = true, LS_LAYER_VARIABLE_FIELDS, __VA_ARGS__},                              \
        .check = layer_norm_check,                                                                                     \
        .infer = layer_norm_infer,                                                                                     \
        .forward = layer_norm_forward,                                                                                 \
        .decode = layer_norm_forward,                                                                                  \
        .backward = layer_norm_backward,                                                                               \
        .again = layer_norm_again,                                                                                     \
        .reads_x = true,                                                                                               \
    }
NORMALIZATION_TYPE(ls_layer_normalization_type, LS_LAYER_LAYER_NORMALIZATION, "layer_normalization",
                   "LayerNormalization", .no_center = true);
NORMALIZATION_TYPE(ls_rms_normalization_type, LS_LAYER_RMS_NORMALIZATION, "rms_normalization", "RMSNormalization");
