/* An activation as a layer of its own, and as the end of other layers. Mirrors tf.keras.layers.ReLU, LeakyReLU, Softmax
 * and Activation. */
#include "base/status.h"
#include "model/layer.h"

#define LAYER_SLOPE 0.3F /* Keras' LeakyReLU */
#define SLOPE       0.2F /* Keras' leaky_relu as the activation of another layer */

static const char *const names[] = {
    [LS_LINEAR] = "linear",   [LS_RELU] = "relu", [LS_RELU6] = "relu6",    [LS_LEAKY_RELU] = "leaky_relu",
    [LS_SIGMOID] = "sigmoid", [LS_TANH] = "tanh", [LS_SOFTMAX] = "softmax"};

const char *ls_activation_name(ls_activation activation) {
    return (size_t)activation < sizeof(names) / sizeof(names[0]) ? names[activation] : NULL;
}

ls_status ls_layer_check_activation(const ls_layer *layer, size_t position) {
    if (!ls_activation_name(layer->activation))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: activation %d is no ls_activation", position,
                       (int)layer->activation);
    if (!(layer->negative_slope >= 0))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: negative_slope %g must not be negative", position,
                       (double)layer->negative_slope);
    return LS_OK;
}

static struct ls_op activation_op(const ls_layer *layer, enum ls_op_kind kind) {
    float usual = layer->kind == LS_LAYER_ACTIVATION ? LAYER_SLOPE : SLOPE;
    return (struct ls_op){.kind = kind,
                          .activation = layer->activation,
                          .alpha = layer->negative_slope > 0 ? layer->negative_slope : usual};
}

ls_status ls_plan_append_activation(struct ls_plan_builder *builder, const ls_layer *layer, const struct ls_tensor *y) {
    struct ls_op op = activation_op(layer, LS_OP_ACTIVATION_FORWARD);
    if (layer->activation == LS_LINEAR) return LS_OK;
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_Y] = *y;
    return ls_plan_append(builder, &op);
}

ls_status ls_plan_append_activation_back(struct ls_plan_builder *builder, const ls_layer *layer,
                                         const struct ls_tensor *y, const struct ls_tensor *dy) {
    struct ls_op op = activation_op(layer, LS_OP_ACTIVATION_BACKWARD);
    if (layer->activation == LS_LINEAR) return LS_OK;
    op.tensors[LS_ARG_Y] = *y;
    op.tensors[LS_ARG_DY] = op.tensors[LS_ARG_DX] = *dy;
    return ls_plan_append(builder, &op);
}

static const char *activation_base_name(const ls_layer *layer) {
    switch (layer->activation) {
    case LS_RELU:
    case LS_RELU6:
        return "re_lu";
    case LS_LEAKY_RELU:
        return "leaky_re_lu";
    case LS_SOFTMAX:
        return "softmax";
    default:
        return "activation";
    }
}

static ls_status activation_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network;
    node->output = node->input;
    return ls_layer_check_activation(&node->layer, position);
}

static bool activation_passes_through(const struct ls_node *node, bool training) {
    (void)training;
    return node->layer.activation == LS_LINEAR;
}

static ls_status activation_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    const struct ls_node_tensors *at) {
    struct ls_op op = activation_op(&node->layer, LS_OP_ACTIVATION_FORWARD);
    op.tensors[LS_ARG_X] = at->x[0];
    op.tensors[LS_ARG_Y] = at->y;
    return ls_plan_append(builder, &op);
}

static ls_status activation_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                     struct ls_node_tensors *at) {
    if (!ls_tensor_exists(&at->dx[0])) return LS_OK;
    at->dx[0] = at->dy;
    return ls_plan_append_activation_back(builder, &node->layer, &at->y, &at->dy);
}

const struct ls_layer_type ls_activation_type = {
    .kind = LS_LAYER_ACTIVATION,
    .base_name = activation_base_name,
    .infer = activation_infer,
    .passes_through = activation_passes_through,
    .forward = activation_forward,
    .backward = activation_backward,
};
