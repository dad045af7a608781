/* An activation as a layer of its own, and as the end of other layers. Mirrors tf.keras.layers.ReLU, LeakyReLU, Softmax
 * and Activation. */
#include "model/layer.h"

#include "device/op.h"
#include "model/plan_builder.h"

#define LAYER_SLOPE 0.3F /* Keras' LeakyReLU */
#define SLOPE       0.2F /* Keras' leaky_relu as the activation of another layer */

static struct ls_op activation_op(const ls_layer *layer, enum ls_op_kind kind) {
    float usual = layer->kind == LS_LAYER_ACTIVATION ? LAYER_SLOPE : SLOPE;
    return (struct ls_op){.kind = kind,
                          .activation = layer->activation,
                          .alpha = layer->negative_slope > 0 ? layer->negative_slope : usual};
}

static struct ls_tensor *value_before(struct ls_plan_builder *builder, const struct ls_node *node) {
    return ls_plan_builder_kept(builder, node, LS_KEPT_BEFORE);
}

struct ls_tensor ls_layer_activation_place(struct ls_plan_builder *builder, const struct ls_node *node,
                                           const struct ls_tensor *y) {
    if (!ls_op_activation_takes_x(node->layer.activation) || !ls_plan_builder_config(builder)->training) return *y;
    return *value_before(builder, node) = ls_plan_builder_tensor(builder, y->dtype, &y->shape);
}

ls_status ls_layer_activation_append(struct ls_plan_builder *builder, const struct ls_node *node,
                                     const struct ls_tensor *y) {
    const struct ls_tensor *before = value_before(builder, node);
    if (node->layer.activation == LS_LINEAR) return LS_OK;
    return ls_plan_builder_apply(builder, activation_op(&node->layer, LS_OP_ACTIVATION_FORWARD),
                                 ls_tensor_exists(before) ? before : y, y);
}

ls_status ls_layer_activation_again(struct ls_plan_builder *builder, const struct ls_node *node,
                                    const struct ls_node_tensors *at) {
    return ls_layer_activation_append(builder, node, &at->y);
}

/* In place. value is y, or x where the slope follows from it. */
static ls_status append_slope(struct ls_plan_builder *builder, const ls_layer *layer, const struct ls_tensor *value,
                              const struct ls_tensor *dy) {
    struct ls_op op = activation_op(layer, LS_OP_ACTIVATION_BACKWARD);
    op.tensors[ls_op_activation_takes_x(layer->activation) ? LS_ARG_X : LS_ARG_Y] = *value;
    op.tensors[LS_ARG_DY] = op.tensors[LS_ARG_DX] = *dy;
    return ls_plan_builder_append(builder, &op);
}

ls_status ls_layer_activation_append_back(struct ls_plan_builder *builder, const struct ls_node *node,
                                          const struct ls_tensor *y, const struct ls_tensor *dy) {
    const struct ls_tensor *before = value_before(builder, node);
    if (node->layer.activation == LS_LINEAR) return LS_OK;
    return append_slope(builder, &node->layer, ls_tensor_exists(before) ? before : y, dy);
}

/* Keras names the layer after its activation. */
static struct ls_layer_title activation_title(const ls_layer *layer) {
    switch (layer->activation) {
    case LS_RELU:
    case LS_RELU6:
        return (struct ls_layer_title){"re_lu", "ReLU"};
    case LS_LEAKY_RELU:
        return (struct ls_layer_title){"leaky_re_lu", "LeakyReLU"};
    case LS_SOFTMAX:
        return (struct ls_layer_title){"softmax", "Softmax"};
    default:
        return (struct ls_layer_title){"activation", "Activation"};
    }
}

static ls_status activation_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network, (void)position;
    node->output = node->input;
    return LS_OK;
}

static bool activation_passes_through(const struct ls_node *node, bool training) {
    (void)training;
    return node->layer.activation == LS_LINEAR;
}

static ls_status activation_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    const struct ls_node_tensors *at) {
    const struct ls_op op = activation_op(&node->layer, LS_OP_ACTIVATION_FORWARD);
    return ls_plan_builder_apply(builder, op, &at->x[0], &at->y);
}

static ls_status activation_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                     struct ls_node_tensors *at) {
    bool takes_x = ls_op_activation_takes_x(node->layer.activation);
    if (!ls_tensor_exists(&at->dx[0])) return LS_OK;
    at->dx[0] = at->dy;
    return append_slope(builder, &node->layer, takes_x ? &at->x[0] : &at->y, &at->dy);
}

const struct ls_layer_type ls_activation_type = {
    .kind = LS_LAYER_ACTIVATION,
    .title = {"activation", "Activation"},
    .title_of = activation_title,
    .takes = {.activation = LS_RELU, .negative_slope = 1},
    .check = ls_activation_check,
    .infer = activation_infer,
    .passes_through = activation_passes_through,
    .forward = activation_forward,
    .decode = activation_forward,
    .backward = activation_backward,
    .again = activation_forward,
};
