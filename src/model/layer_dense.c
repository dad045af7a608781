/* Dense: y = activation(x kernel + bias), with inputs of several axes flattened. Mirrors tf.keras.layers.Dense behind a
 * Flatten. */
#include "base/shape.h"
#include "model/plan_builder.h"
#include "model/layer.h"
#include "model/network.h"
#include "model/layer_fields.h"

enum { KERNEL = 0, BIAS };

static ls_status dense_check(const struct ls_node *node, size_t position) {
    return ls_layer_fields_check_kernel(node, position, "units", 1);
}

static ls_status dense_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)position;
    int64_t in = ls_shape_count(&node->input), out = node->layer.units;
    node->output = LS_SHAPE(out);
    struct ls_variable_spec kernel = {"kernel", LS_SHAPE(in, out), node->layer.kernel_initializer, in, out, false};
    struct ls_variable_spec bias = {"bias", LS_SHAPE(out), LS_ZEROS, in, out, false};
    ls_status status = ls_network_add_variable(network, node, &kernel);
    return status || node->layer.no_bias ? status : ls_network_add_variable(network, node, &bias);
}

static struct ls_tensor as_matrix(struct ls_tensor tensor) {
    int64_t rows = tensor.shape.dims[0];
    tensor.shape = LS_SHAPE(rows, ls_shape_count(&tensor.shape) / rows);
    return tensor;
}

/* The op does ReLU by itself, with the bias. */
static ls_activation own_activation(const struct ls_node *node) {
    return node->layer.activation == LS_RELU && !node->layer.no_bias ? LS_RELU : LS_LINEAR;
}

static ls_status dense_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                               const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_DENSE_FORWARD, .activation = own_activation(node)};
    op.tensors[LS_ARG_X] = as_matrix(at->x[0]);
    op.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, node, KERNEL);
    if (!node->layer.no_bias) op.tensors[LS_ARG_B] = ls_plan_builder_parameter(builder, node, BIAS);
    op.tensors[LS_ARG_Y] = at->y;
    ls_status status = ls_plan_builder_append(builder, &op);
    return status || op.activation == LS_RELU ? status : ls_layer_activation_append(builder, &node->layer, &at->y);
}

static ls_status dense_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_DENSE_BACKWARD, .activation = own_activation(node)};
    op.tensors[LS_ARG_X] = as_matrix(at->x[0]);
    op.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, node, KERNEL);
    if (op.activation == LS_RELU) op.tensors[LS_ARG_Y] = at->y;
    op.tensors[LS_ARG_DY] = at->dy;
    op.tensors[LS_ARG_DX] = ls_tensor_exists(&at->dx[0]) ? as_matrix(at->dx[0]) : at->dx[0];
    op.tensors[LS_ARG_DW] = ls_plan_builder_gradient(builder, node, KERNEL);
    if (!node->layer.no_bias) op.tensors[LS_ARG_DB] = ls_plan_builder_gradient(builder, node, BIAS);
    ls_status status = LS_OK;
    if (op.activation != LS_RELU) status = ls_layer_activation_append_back(builder, &node->layer, &at->y, &at->dy);
    return status ? status : ls_plan_builder_append(builder, &op);
}

const struct ls_layer_type ls_dense_type = {
    .kind = LS_LAYER_DENSE,
    .title = {"dense", "Dense"},
    .takes = {LS_LAYER_KERNEL_FIELDS},
    .check = dense_check,
    .infer = dense_infer,
    .forward = dense_forward,
    .backward = dense_backward,
    .reads_x = true,
};
