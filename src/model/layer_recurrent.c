/* LSTM and GRU: one product makes what the inputs of all positions give to the gates, an op goes through the positions,
 * and backward two products make the gradients of both kernels. Mirrors tf.keras.layers.LSTM and GRU(reset_after=True)
 * with their defaults: tanh, and the logistic function in the gates. */
#include "base/shape.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "model/network.h"
#include "model/plan_builder.h"
#include "base/status.h"

enum { KERNEL = 0, RECURRENT_KERNEL, BIAS };
enum { SAVED = 0, BEFORE }; /* the tensors that are kept */

static enum ls_cell cell_of(const struct ls_node *node) {
    return node->layer.kind == LS_LAYER_GRU ? LS_CELL_GRU : LS_CELL_LSTM;
}

static int64_t columns_of_gates(const struct ls_node *node) {
    return ls_cell_gates(cell_of(node)) * node->layer.units;
}

static ls_status recurrent_check(const struct ls_node *node, size_t position) {
    return ls_layer_fields_check_kernel(node, position, "units", 1);
}

/* Keras' shapes. An LSTM's forget gate begins open (unit_forget_bias). A GRU has a bias for each of its products. */
static ls_status add_recurrent_variables(struct ls_network *network, struct ls_node *node) {
    int64_t in = node->input.dims[1], units = node->layer.units, columns = columns_of_gates(node);
    bool gru = cell_of(node) == LS_CELL_GRU;
    const struct ls_variable_spec kernel = {"kernel", LS_SHAPE(in, columns), node->layer.kernel_initializer, in,
                                            columns,  .moved = false};
    const struct ls_variable_spec recurrent = {
        "recurrent_kernel", LS_SHAPE(units, columns), LS_ORTHOGONAL, units, columns, .moved = false};
    struct ls_variable_spec bias = {"bias", LS_SHAPE(columns), LS_ZEROS, in, columns, .ones = {units, 2 * units}};
    if (gru) bias.shape = LS_SHAPE(2, columns), bias.ones[0] = bias.ones[1] = 0;
    ls_status status = ls_network_add_variable(network, node, &kernel);
    if (!status) status = ls_network_add_variable(network, node, &recurrent);
    return status || node->layer.no_bias ? status : ls_network_add_variable(network, node, &bias);
}

static ls_status recurrent_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    if (node->input.rank != 2)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (%s): it takes (positions, channels), and gets %d axes; an embedding, or dense with "
                       "per_position, makes them",
                       position, node->title.name, node->input.rank);
    node->output = LS_SHAPE(node->input.dims[0], node->layer.units);
    if (!node->layer.return_sequences) node->output = LS_SHAPE(node->layer.units);
    return add_recurrent_variables(network, node);
}

/* ---- the op's tensors ---- */

/* (rows, positions, width), and all positions as rows of a matrix. */
static ls_shape sequences_of(struct ls_plan_builder *builder, const struct ls_node *node, int64_t width) {
    return LS_SHAPE(ls_plan_builder_config(builder)->rows, node->input.dims[0], width);
}
static struct ls_tensor flat(struct ls_tensor tensor) {
    if (ls_tensor_exists(&tensor))
        tensor.shape = LS_SHAPE(tensor.shape.dims[0] * tensor.shape.dims[1], tensor.shape.dims[2]);
    return tensor;
}

/* A row of a GRU's bias: of the inputs' product, then of the other. An LSTM's is of the first; absent stays absent. */
static struct ls_tensor bias_row(const struct ls_node *node, struct ls_tensor bias, bool recurrent) {
    int64_t columns = columns_of_gates(node);
    bool gru = cell_of(node) == LS_CELL_GRU;
    if (!ls_tensor_exists(&bias) || (recurrent && !gru)) return (struct ls_tensor){0};
    bias.shape = LS_SHAPE(columns);
    if (recurrent) bias.within += (size_t)columns * sizeof(float);
    return bias;
}

static struct ls_tensor bias_of(struct ls_plan_builder *builder, const struct ls_node *node, bool recurrent) {
    if (node->layer.no_bias) return (struct ls_tensor){0};
    return bias_row(node, ls_plan_builder_parameter(builder, node, BIAS), recurrent);
}

/* ---- forward ---- */

static struct ls_tensor keep(struct ls_plan_builder *builder, const struct ls_node *node, int index, ls_dtype dtype,
                             int64_t width) {
    const ls_shape shape = sequences_of(builder, node, width);
    return *ls_plan_builder_kept(builder, node, index) = ls_plan_builder_tensor(builder, dtype, &shape);
}

static ls_status recurrent_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                   const struct ls_node_tensors *at) {
    const ls_shape shape = sequences_of(builder, node, columns_of_gates(node));
    const struct ls_tensor gates = ls_plan_builder_tensor(builder, at->y.dtype, &shape);
    const struct ls_tensor x = flat(at->x[0]), product = flat(gates);
    struct ls_op inputs = {.kind = LS_OP_DENSE_FORWARD};
    struct ls_op positions = {.kind = LS_OP_RECURRENT_FORWARD, .cell = cell_of(node)};
    inputs.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, node, KERNEL);
    inputs.tensors[LS_ARG_B] = bias_of(builder, node, false);
    positions.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, node, RECURRENT_KERNEL);
    positions.tensors[LS_ARG_B] = bias_of(builder, node, true);
    if (ls_plan_builder_config(builder)->training) {
        int64_t units = node->layer.units;
        positions.tensors[LS_ARG_SAVED] = keep(builder, node, SAVED, LS_FLOAT32, ls_cell_saved(positions.cell) * units);
        positions.tensors[LS_ARG_R] = keep(builder, node, BEFORE, at->y.dtype, units);
    }
    ls_status status = ls_plan_builder_apply(builder, inputs, &x, &product);
    return status ? status : ls_plan_builder_apply(builder, positions, &gates, &at->y);
}

/* ---- backward ---- */

/* The gradients of a kernel and its bias, and unless absent dx, from the kernel's factor x and what came of it. */
static ls_status append_gradients(struct ls_plan_builder *builder, const struct ls_node *node, int kernel,
                                  struct ls_op op) {
    op.kind = LS_OP_DENSE_BACKWARD;
    op.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, node, kernel);
    op.tensors[LS_ARG_DW] = ls_plan_builder_gradient(builder, node, kernel);
    if (!node->layer.no_bias)
        op.tensors[LS_ARG_DB] =
            bias_row(node, ls_plan_builder_gradient(builder, node, BIAS), kernel == RECURRENT_KERNEL);
    if (!ls_tensor_exists(&op.tensors[LS_ARG_DW]) && !ls_tensor_exists(&op.tensors[LS_ARG_DX])) return LS_OK;
    return ls_plan_builder_append(builder, &op);
}

static ls_status recurrent_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    struct ls_node_tensors *at) {
    const ls_shape shape = sequences_of(builder, node, columns_of_gates(node));
    struct ls_op positions = {.kind = LS_OP_RECURRENT_BACKWARD, .cell = cell_of(node)};
    const struct ls_tensor inner = ls_plan_builder_tensor(builder, at->dy.dtype, &shape);
    struct ls_tensor product = inner;
    if (positions.cell == LS_CELL_GRU) product = ls_plan_builder_tensor(builder, at->dy.dtype, &shape);
    if (positions.cell == LS_CELL_GRU) positions.tensors[LS_ARG_DR] = product;
    positions.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, node, RECURRENT_KERNEL);
    positions.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED);
    positions.tensors[LS_ARG_R] = *ls_plan_builder_kept(builder, node, BEFORE);
    positions.tensors[LS_ARG_DY] = at->dy;
    positions.tensors[LS_ARG_DX] = inner;
    struct ls_op inputs = {0}, outputs = {0};
    inputs.tensors[LS_ARG_X] = flat(at->x[0]), inputs.tensors[LS_ARG_DX] = flat(at->dx[0]);
    inputs.tensors[LS_ARG_DY] = flat(inner);
    outputs.tensors[LS_ARG_X] = flat(positions.tensors[LS_ARG_R]), outputs.tensors[LS_ARG_DY] = flat(product);
    ls_status status = ls_plan_builder_append(builder, &positions);
    if (!status) status = append_gradients(builder, node, RECURRENT_KERNEL, outputs);
    return status ? status : append_gradients(builder, node, KERNEL, inputs);
}

#define RECURRENT_TYPE(type, its_kind, name, class_name)                                                               \
    const struct ls_layer_type type = {                                                                                \
        .kind = its_kind,                                                                                              \
        .title = {name, class_name},                                                                                   \
        .takes = {.units = 1,                                                                                          \
                  .kernel_initializer = LS_ONES,                                                                       \
                  .no_bias = true,                                                                                     \
                  .return_sequences = true,                                                                            \
                  .kernel_l1 = 1,                                                                                      \
                  .kernel_l2 = 1,                                                                                      \
                  .stddev = 1,                                                                                         \
                  LS_LAYER_VARIABLE_FIELDS},                                                                           \
        .check = recurrent_check,                                                                                      \
        .infer = recurrent_infer,                                                                                      \
        .forward = recurrent_forward,                                                                                  \
        .backward = recurrent_backward,                                                                                \
        .reads_x = true,                                                                                               \
    }
RECURRENT_TYPE(ls_lstm_type, LS_LAYER_LSTM, "lstm", "LSTM");
RECURRENT_TYPE(ls_gru_type, LS_LAYER_GRU, "gru", "GRU");
