/* An activation as a layer of its own. Mirrors tf.keras.layers.ReLU and Activation("linear"). */
#include "base/status.h"
#include "model/layer.h"

static const char *const names[] = {[LS_LINEAR] = "linear", [LS_RELU] = "relu"};

const char *ls_activation_name(ls_activation activation) {
    return (size_t)activation < sizeof(names) / sizeof(names[0]) ? names[activation] : NULL;
}

ls_status ls_layer_check_activation(const ls_layer *layer, size_t position) {
    if (ls_activation_name(layer->activation)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: activation %d is no ls_activation", position,
                   (int)layer->activation);
}

static const char *activation_base_name(const ls_layer *layer) {
    return layer->activation == LS_RELU ? "re_lu" : "activation";
}

static ls_status activation_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network;
    node->output = node->input;
    return ls_layer_check_activation(&node->layer, position);
}

static bool activation_passes_through(const struct ls_node *node) {
    return node->layer.activation == LS_LINEAR;
}

static ls_status activation_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_ACTIVATION_FORWARD, .activation = node->layer.activation};
    op.tensors[LS_ARG_X] = at->x;
    op.tensors[LS_ARG_Y] = at->y;
    return ls_plan_append(builder, &op);
}

static ls_status activation_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                     const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_ACTIVATION_BACKWARD, .activation = node->layer.activation};
    if (!at->dx.data) return LS_OK;
    op.tensors[LS_ARG_Y] = at->y;
    op.tensors[LS_ARG_DY] = at->dy;
    op.tensors[LS_ARG_DX] = at->dx;
    return ls_plan_append(builder, &op);
}

const struct ls_layer_type ls_activation_type = {
    LS_LAYER_ACTIVATION,       activation_base_name, activation_infer,
    activation_passes_through, activation_forward,   activation_backward,
};
