/* Embedding: rows of a table by whole numbers. Mirrors tf.keras.layers.Embedding. The ids are the model's features as
 * they come, int32 or float32, also where values are of 16 bits. */
#include "base/shape.h"
#include "base/status.h"
#include "model/network.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "model/plan_builder.h"

enum { TABLE = 0 };

static ls_status embedding_check(const struct ls_node *node, size_t position) {
    const ls_layer *layer = &node->layer;
    const char *kind = node->title.name;
    if (layer->input_dim < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): input_dim %d must be 1 or more", position, kind,
                       layer->input_dim);
    if (layer->units < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): output_dim %d must be 1 or more", position, kind,
                       layer->units);
    if (layer->sparse && layer->kernel_initializer == LS_ORTHOGONAL)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (%s): rows of a sparse table are drawn one by one, and LS_ORTHOGONAL makes a whole "
                       "table; leave sparse out, or kernel_initializer",
                       position, kind);
    if (ls_initializer_name(layer->kernel_initializer)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): kernel_initializer %d is no ls_initializer", position, kind,
                   (int)layer->kernel_initializer);
}

static ls_status embedding_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    const ls_layer *layer = &node->layer;
    const ls_initializer given = layer->kernel_initializer;
    if (node->inputs[0] != LS_NETWORK_INPUT || node->input.rank != 1)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (%s): it takes the model's input, of one axis: ids are no layer's output", position,
                       node->title.name);
    node->output = LS_SHAPE(node->input.dims[0], layer->units);
    const struct ls_variable_spec table = {"embeddings",
                                           LS_SHAPE(layer->input_dim, layer->units),
                                           given == LS_GLOROT_UNIFORM ? LS_RANDOM_UNIFORM : given,
                                           layer->input_dim,
                                           layer->units,
                                           .sparse = layer->sparse && !layer->frozen};
    return ls_network_add_variable(network, node, &table);
}

/* Of a sparse table they are places among the rows that are here. */
static struct ls_tensor ids_of(const struct ls_plan_builder *builder, const struct ls_node *node) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    struct ls_tensor ids = ls_network_ids(config->network, NULL, config->rows);
    ids.shape = ls_plan_builder_shape(builder, ls_network_input(config->network));
    ids.buffer = node->table_count ? 0 : -LS_GIVEN_FEATURES;
    if (!node->table_count) return ids;
    ids.data = config->tables->places;
    ids.dtype = LS_INT32;
    return ids;
}

static ls_status embedding_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                   const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_EMBEDDING_FORWARD};
    op.tensors[LS_ARG_X] = ids_of(builder, node);
    op.tensors[LS_ARG_W] =
        node->table_count ? ls_plan_builder_rows(builder, node) : ls_plan_builder_kernel(builder, node, TABLE);
    op.tensors[LS_ARG_Y] = at->y;
    return ls_plan_builder_append(builder, &op);
}

static ls_status embedding_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_EMBEDDING_BACKWARD, .adds = node->is_tied};
    op.tensors[LS_ARG_X] = ids_of(builder, node);
    op.tensors[LS_ARG_DY] = at->dy;
    op.tensors[LS_ARG_DW] = node->table_count ? ls_plan_builder_row_gradients(builder, node)
                                              : ls_plan_builder_gradient(builder, node, TABLE);
    return ls_plan_builder_append(builder, &op);
}

const struct ls_layer_type ls_embedding_type = {
    .kind = LS_LAYER_EMBEDDING,
    .title = {"embedding", "Embedding"},
    .takes = {.units = 1,
              .input_dim = 1,
              .sparse = true,
              .kernel_initializer = LS_ONES,
              .stddev = 1,
              LS_LAYER_VARIABLE_FIELDS},
    .check = embedding_check,
    .infer = embedding_infer,
    .forward = embedding_forward,
    .decode = embedding_forward,
    .backward = embedding_backward,
};
