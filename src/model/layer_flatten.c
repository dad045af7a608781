/* Flatten: the same elements in one axis; no ops. Mirrors tf.keras.layers.Flatten. */
#include "base/shape.h"
#include "model/layer.h"

static ls_status flatten_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network, (void)position;
    node->output = LS_SHAPE(ls_shape_count(&node->input));
    return LS_OK;
}

static bool flatten_passes_through(const struct ls_node *node, bool training) {
    (void)node, (void)training;
    return true;
}

const struct ls_layer_type ls_flatten_type = {
    .kind = LS_LAYER_FLATTEN,
    .title = {"flatten", "Flatten"},
    .infer = flatten_infer,
    .passes_through = flatten_passes_through,
};
