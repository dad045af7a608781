/* Dense: y = activation(x kernel + bias), with inputs of several axes flattened. Mirrors tf.keras.layers.Dense behind a
 * Flatten. */
#include "base/dtype.h"
#include "base/status.h"
#include "model/initializer.h"
#include "model/layer.h"

enum { KERNEL = 0, BIAS };

static const char *dense_base_name(const ls_layer *layer) {
    (void)layer;
    return "dense";
}

static ls_status check_fields(const ls_layer *layer, size_t position) {
    if (layer->units < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (dense): units %d must be 1 or more", position, layer->units);
    if (!ls_initializer_name(layer->kernel_initializer))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (dense): kernel_initializer %d is no ls_initializer", position,
                       (int)layer->kernel_initializer);
    return ls_layer_check_activation(layer, position);
}

static ls_status dense_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    ls_status status = check_fields(&node->layer, position);
    if (status) return status;
    int64_t in = ls_shape_count(&node->input), out = node->layer.units;
    node->output = LS_SHAPE(out);
    struct ls_variable_spec kernel = {"kernel", LS_SHAPE(in, out), node->layer.kernel_initializer, in, out, false};
    struct ls_variable_spec bias = {"bias", LS_SHAPE(out), LS_ZEROS, in, out, false};
    status = ls_network_add_variable(network, node, &kernel);
    return status ? status : ls_network_add_variable(network, node, &bias);
}

static struct ls_tensor as_matrix(struct ls_tensor tensor) {
    int64_t rows = tensor.shape.dims[0];
    tensor.shape = LS_SHAPE(rows, ls_shape_count(&tensor.shape) / rows);
    return tensor;
}

/* The op does ReLU by itself. */
static ls_activation own_activation(const struct ls_node *node) {
    return node->layer.activation == LS_RELU ? LS_RELU : LS_LINEAR;
}

static ls_status dense_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                               const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_DENSE_FORWARD, .activation = own_activation(node)};
    op.tensors[LS_ARG_X] = as_matrix(at->x[0]);
    op.tensors[LS_ARG_W] = ls_plan_kernel(builder, node, KERNEL);
    op.tensors[LS_ARG_B] = ls_plan_parameter(builder, node, BIAS);
    op.tensors[LS_ARG_Y] = at->y;
    ls_status status = ls_plan_append(builder, &op);
    return status || op.activation == LS_RELU ? status : ls_plan_append_activation(builder, &node->layer, &at->y);
}

static ls_status dense_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_DENSE_BACKWARD, .activation = own_activation(node)};
    op.tensors[LS_ARG_X] = as_matrix(at->x[0]);
    op.tensors[LS_ARG_W] = ls_plan_kernel(builder, node, KERNEL);
    if (op.activation == LS_RELU) op.tensors[LS_ARG_Y] = at->y;
    op.tensors[LS_ARG_DY] = at->dy;
    op.tensors[LS_ARG_DX] = ls_tensor_exists(&at->dx[0]) ? as_matrix(at->dx[0]) : at->dx[0];
    op.tensors[LS_ARG_DW] = ls_plan_gradient(builder, node, KERNEL);
    op.tensors[LS_ARG_DB] = ls_plan_gradient(builder, node, BIAS);
    ls_status status = LS_OK;
    if (op.activation != LS_RELU) status = ls_plan_append_activation_back(builder, &node->layer, &at->y, &at->dy);
    return status ? status : ls_plan_append(builder, &op);
}

const struct ls_layer_type ls_dense_type = {
    .kind = LS_LAYER_DENSE,
    .base_name = dense_base_name,
    .infer = dense_infer,
    .forward = dense_forward,
    .backward = dense_backward,
    .reads_x = true,
};
