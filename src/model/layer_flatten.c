/* Flatten: the same elements in one axis; no ops. Mirrors tf.keras.layers.Flatten. */
#include "base/dtype.h"
#include "model/layer.h"

static const char *flatten_base_name(const ls_layer *layer) {
    (void)layer;
    return "flatten";
}

static ls_status flatten_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network, (void)position;
    node->output = LS_SHAPE(ls_shape_count(&node->input));
    return LS_OK;
}

static bool flatten_passes_through(const struct ls_node *node) {
    (void)node;
    return true;
}

static ls_status no_ops(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at) {
    (void)builder, (void)node, (void)at;
    return LS_OK;
}

const struct ls_layer_type ls_flatten_type = {
    LS_LAYER_FLATTEN, flatten_base_name, flatten_infer, flatten_passes_through, no_ops, no_ops,
};
