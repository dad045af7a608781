/* Dense: y = activation(x kernel + bias), with inputs of several axes flattened, or for each position of all axes but
 * the last. Mirrors tf.keras.layers.Dense, behind a Flatten unless per_position. */
#include "base/shape.h"
#include "base/status.h"
#include "model/plan_builder.h"
#include "model/layer.h"
#include "model/network.h"
#include "model/layer_fields.h"

enum { KERNEL = 0, BIAS };

static ls_status dense_check(const struct ls_node *node, size_t position) {
    return ls_layer_fields_check_kernel(node, position, "units", 1);
}

static ls_status dense_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    int rank = node->input.rank;
    if (node->layer.per_position && rank < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (dense): its input has no axis, which per_position needs",
                       position);
    bool whole = !node->layer.per_position;
    int64_t in = whole ? ls_shape_count(&node->input) : node->input.dims[rank - 1], out = node->layer.units;
    node->output = whole ? LS_SHAPE(out) : node->input;
    node->output.dims[node->output.rank - 1] = out;
    struct ls_variable_spec kernel = {"kernel", LS_SHAPE(in, out), node->layer.kernel_initializer, in, out, false};
    struct ls_variable_spec bias = {"bias", LS_SHAPE(out), LS_ZEROS, in, out, false};
    ls_status status = ls_network_add_variable(network, node, &kernel);
    return status || node->layer.no_bias ? status : ls_network_add_variable(network, node, &bias);
}

/* Of so many columns. */
static struct ls_tensor as_matrix(struct ls_tensor tensor, int64_t columns) {
    if (ls_tensor_exists(&tensor)) tensor.shape = LS_SHAPE(ls_shape_count(&tensor.shape) / columns, columns);
    return tensor;
}

/* The op does ReLU by itself, with the bias or its gradient. */
static ls_activation own_activation(const struct ls_node *node, enum ls_op_kind kind) {
    bool biased = !node->layer.no_bias && !(kind == LS_OP_DENSE_BACKWARD && node->layer.frozen);
    return node->layer.activation == LS_RELU && biased ? LS_RELU : LS_LINEAR;
}

/* The op's x, w, y and what is alike for their gradients. */
static struct ls_op start_dense(struct ls_plan_builder *builder, const struct ls_node *node, enum ls_op_kind kind,
                                const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = kind, .activation = own_activation(node, kind)};
    const struct ls_tensor kernel = ls_plan_builder_kernel(builder, node, KERNEL);
    op.tensors[LS_ARG_X] = as_matrix(at->x[0], kernel.shape.dims[0]);
    op.tensors[LS_ARG_W] = kernel;
    op.tensors[LS_ARG_Y] = as_matrix(at->y, kernel.shape.dims[1]);
    return op;
}

static ls_status dense_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                               const struct ls_node_tensors *at) {
    struct ls_op op = start_dense(builder, node, LS_OP_DENSE_FORWARD, at);
    if (!node->layer.no_bias) op.tensors[LS_ARG_B] = ls_plan_builder_parameter(builder, node, BIAS);
    const struct ls_tensor place = ls_layer_activation_place(builder, node, &at->y);
    op.tensors[LS_ARG_Y] = as_matrix(place, node->layer.units);
    ls_status status = ls_plan_builder_append(builder, &op);
    return status || op.activation == LS_RELU ? status : ls_layer_activation_append(builder, node, &at->y);
}

static ls_status dense_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                struct ls_node_tensors *at) {
    struct ls_op op = start_dense(builder, node, LS_OP_DENSE_BACKWARD, at);
    if (op.activation != LS_RELU) op.tensors[LS_ARG_Y] = (struct ls_tensor){0};
    op.tensors[LS_ARG_DY] = as_matrix(at->dy, node->layer.units);
    op.tensors[LS_ARG_DX] = as_matrix(at->dx[0], op.tensors[LS_ARG_X].shape.dims[1]);
    op.tensors[LS_ARG_DW] = ls_plan_builder_gradient(builder, node, KERNEL);
    if (!node->layer.no_bias) op.tensors[LS_ARG_DB] = ls_plan_builder_gradient(builder, node, BIAS);
    ls_status status = LS_OK;
    if (op.activation != LS_RELU) status = ls_layer_activation_append_back(builder, node, &at->y, &at->dy);
    return status ? status : ls_plan_builder_append(builder, &op);
}

const struct ls_layer_type ls_dense_type = {
    .kind = LS_LAYER_DENSE,
    .title = {"dense", "Dense"},
    .takes = {LS_LAYER_KERNEL_FIELDS, .per_position = true},
    .check = dense_check,
    .infer = dense_infer,
    .forward = dense_forward,
    .decode = dense_forward,
    .backward = dense_backward,
    .again = ls_layer_activation_again,
    .reads_x = true,
    .divides = true,
};
