/* A table of positions that is added to each example. Mirrors keras_hub.layers.PositionEmbedding. */
#include "base/status.h"
#include "model/network.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "model/plan_builder.h"
#include "model/plan_decode.h"

enum { TABLE = 0 };

static ls_status position_check(const struct ls_node *node, size_t position) {
    if (ls_initializer_name(node->layer.kernel_initializer)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): kernel_initializer %d is no ls_initializer", position,
                   node->title.name, (int)node->layer.kernel_initializer);
}

static ls_status position_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    if (node->input.rank != 2)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): it takes (positions, channels), and gets %d axes",
                       position, node->title.name, node->input.rank);
    const struct ls_variable_spec table = {"embeddings", node->input, node->layer.kernel_initializer,
                                           node->input.dims[0], node->input.dims[1]};
    node->output = node->input;
    return ls_network_add_variable(network, node, &table);
}

static ls_status position_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                  const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_POSITION_FORWARD};
    op.tensors[LS_ARG_B] = ls_plan_builder_parameter(builder, node, TABLE);
    op.tensors[LS_ARG_AT] = ls_plan_decode_place(builder);
    return ls_plan_builder_apply(builder, op, &at->x[0], &at->y);
}

static ls_status position_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                   struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_POSITION_BACKWARD};
    op.tensors[LS_ARG_DY] = at->dy;
    op.tensors[LS_ARG_DB] = ls_plan_builder_gradient(builder, node, TABLE);
    if (ls_tensor_exists(&at->dx[0])) at->dx[0] = at->dy;
    return ls_tensor_exists(&op.tensors[LS_ARG_DB]) ? ls_plan_builder_append(builder, &op) : LS_OK;
}

const struct ls_layer_type ls_position_embedding_type = {
    .kind = LS_LAYER_POSITION_EMBEDDING,
    .title = {"position_embedding", "PositionEmbedding"},
    .takes = {.kernel_initializer = LS_ONES, .stddev = 1, LS_LAYER_VARIABLE_FIELDS},
    .check = position_check,
    .infer = position_infer,
    .forward = position_forward,
    .decode = position_forward,
    .backward = position_backward,
};
