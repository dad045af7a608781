/* Activations by name, and as a field of layers. */
#include "model/layer.h"

#include "base/status.h"

static const char *const names[] = {
    [LS_LINEAR] = "linear",       [LS_RELU] = "relu", [LS_RELU6] = "relu6",     [LS_LEAKY_RELU] = "leaky_relu",
    [LS_SIGMOID] = "sigmoid",     [LS_TANH] = "tanh", [LS_SOFTMAX] = "softmax", [LS_GELU] = "gelu",
    [LS_GELU_TANH] = "gelu_tanh", [LS_SILU] = "silu"};

const char *ls_activation_name(ls_activation activation) {
    return (size_t)activation < sizeof(names) / sizeof(names[0]) ? names[activation] : NULL;
}

ls_status ls_activation_check(const struct ls_node *node, size_t position) {
    const ls_layer *layer = &node->layer;
    if (!ls_activation_name(layer->activation))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: activation %d is no ls_activation", position,
                       (int)layer->activation);
    if (!(layer->negative_slope >= 0))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: negative_slope %g must not be negative", position,
                       (double)layer->negative_slope);
    if (layer->negative_slope > 0 && layer->activation != LS_LEAKY_RELU)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: negative_slope is for LS_LEAKY_RELU, and this is %s", position,
                       ls_activation_name(layer->activation));
    return LS_OK;
}
