/* Tied dense: y = x table transposed, with the table of an embedding before it, for each position of all axes but the
 * last. Its three products are those of dense ops whose arguments change places, so it has no op of its own. Mirrors
 * keras_hub.layers.ReversibleEmbedding with reverse=True, and lm_head.weight = wte.weight of torch; see Press and Wolf
 * 2016, "Using the output embedding to improve language models". */
#include "base/shape.h"
#include "base/status.h"
#include "model/layer.h"
#include "model/network.h"
#include "model/plan_builder.h"

enum { TABLE = 0 };

static ls_status tied_check(const struct ls_node *node, size_t position) {
    if (node->layer.tied) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (tied_dense): it names no embedding layer; give tied", position);
}

static const struct ls_node *table_of(const struct ls_network *network, const struct ls_node *node) {
    return ls_network_node(network, (size_t)node->tied);
}

static ls_status tied_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    const struct ls_node *table = table_of(network, node);
    int rank = node->input.rank, width = table->layer.units;
    if (table->table_count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (tied_dense): the table of '%s' is sparse, and a product takes all of its rows",
                       position, table->name);
    if (rank < 1 || node->input.dims[rank - 1] != width)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (tied_dense): the last axis of its input has %lld elements, and the rows of '%s' %d",
                       position, rank ? (long long)node->input.dims[rank - 1] : 0, table->name, width);
    node->output = node->input;
    node->output.dims[rank - 1] = table->layer.input_dim;
    return LS_OK;
}

/* Of so many columns. */
static struct ls_tensor of_columns(struct ls_tensor tensor, int64_t columns) {
    tensor.shape = LS_SHAPE(ls_shape_count(&tensor.shape) / columns, columns);
    return tensor;
}

/* y(R,V) = x(R,C) table(V,C) transposed is what a dense layer of kernel (V,C) makes of a gradient. */
static ls_status tied_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                              const struct ls_node_tensors *at) {
    const struct ls_tensor table =
        ls_plan_builder_kernel(builder, table_of(ls_plan_builder_config(builder)->network, node), TABLE);
    struct ls_op op = {.kind = LS_OP_DENSE_BACKWARD};
    op.tensors[LS_ARG_W] = table;
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_DX] = of_columns(at->y, table.shape.dims[0]);
    op.tensors[LS_ARG_DY] = of_columns(at->x[0], table.shape.dims[1]);
    return ls_plan_builder_append(builder, &op);
}

/* The table's gradient (V,C) = dy transposed x, to which the embedding adds its rows. */
static ls_status append_table(struct ls_plan_builder *builder, const struct ls_node *table,
                              const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_DENSE_BACKWARD};
    op.tensors[LS_ARG_DW] = ls_plan_builder_gradient(builder, table, TABLE);
    if (!ls_tensor_exists(&op.tensors[LS_ARG_DW])) return LS_OK;
    op.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, table, TABLE);
    op.tensors[LS_ARG_X] = of_columns(at->dy, op.tensors[LS_ARG_W].shape.dims[0]);
    op.tensors[LS_ARG_DY] = of_columns(at->x[0], op.tensors[LS_ARG_W].shape.dims[1]);
    return ls_plan_builder_append(builder, &op);
}

static ls_status tied_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                               struct ls_node_tensors *at) {
    const struct ls_node *table = table_of(ls_plan_builder_config(builder)->network, node);
    struct ls_op op = {.kind = LS_OP_DENSE_FORWARD};
    ls_status status = append_table(builder, table, at);
    if (status || !ls_tensor_exists(&at->dx[0])) return status;
    op.tensors[LS_ARG_W] = ls_plan_builder_kernel(builder, table, TABLE);
    op.tensors[LS_ARG_X] = of_columns(at->dy, op.tensors[LS_ARG_W].shape.dims[0]);
    op.tensors[LS_ARG_Y] = of_columns(at->dx[0], op.tensors[LS_ARG_W].shape.dims[1]);
    return ls_plan_builder_append(builder, &op);
}

const struct ls_layer_type ls_tied_dense_type = {
    .kind = LS_LAYER_TIED_DENSE,
    .title = {"tied_dense", "TiedDense"},
    .takes = {.tied = "embedding"},
    .check = tied_check,
    .infer = tied_infer,
    .forward = tied_forward,
    .decode = tied_forward,
    .backward = tied_backward,
    .reads_x = true,
    .divides = true,
};
