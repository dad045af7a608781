/* Pools: the maximum or the average of a window, or of a whole image or sequence. Mirrors tf.keras.layers.MaxPooling2D,
 * AveragePooling2D, GlobalMaxPooling2D and GlobalAveragePooling2D, and the same with 1D. */
#include "base/status.h"
#include "device/op_layers.h"
#include "model/plan_builder.h"
#include "model/layer.h"

static bool is_global(const struct ls_node *node) {
    return !node->type->takes.kernel_size;
}

/* Backward of a maximum alone reads x. */
static bool is_maximum(const struct ls_node *node) {
    return node->type->reads_x;
}

static ls_status pool_check(const struct ls_node *node, size_t position) {
    return is_global(node) ? LS_OK : ls_layer_window_check(node, position);
}

static ls_status pool_window_of(const struct ls_node *node, size_t position, struct ls_window *window) {
    ls_status status = ls_layer_window_check_image(node, position);
    if (status || !is_global(node)) return status ? status : ls_layer_window(node, position, window);
    const ls_shape image = ls_layer_window_image(node);
    *window = (struct ls_window){
        .kernel = {image.dims[0], image.dims[1]}, .strides = {1, 1}, .dilation = {1, 1}, .groups = 1};
    return LS_OK;
}

static ls_status pool_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    struct ls_window window;
    (void)network;
    ls_status status = pool_window_of(node, position, &window);
    if (status) return status;
    int64_t channels = node->input.dims[node->input.rank - 1];
    node->output = is_global(node) ? LS_SHAPE(channels) : ls_layer_window_output(node, &window, channels);
    return LS_OK;
}

static ls_status start_layer_pool_op(const struct ls_node *node, enum ls_op_kind kind, struct ls_op *op) {
    *op = (struct ls_op){.kind = kind, .pool = is_maximum(node) ? LS_POOL_MAX : LS_POOL_AVERAGE};
    return pool_window_of(node, node->index, &op->window);
}

static ls_status pool_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                              const struct ls_node_tensors *at) {
    struct ls_op op;
    ls_status status = start_layer_pool_op(node, LS_OP_POOL_FORWARD, &op);
    if (status) return status;
    op.tensors[LS_ARG_X] = ls_layer_window_as_image(at->x[0]);
    op.tensors[LS_ARG_Y] = ls_layer_window_as_image(at->y);
    return ls_plan_builder_append(builder, &op);
}

static ls_status pool_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                               struct ls_node_tensors *at) {
    struct ls_op op;
    ls_status status = start_layer_pool_op(node, LS_OP_POOL_BACKWARD, &op);
    if (status || !ls_tensor_exists(&at->dx[0])) return status;
    if (is_maximum(node)) {
        op.tensors[LS_ARG_X] = ls_layer_window_as_image(at->x[0]);
        op.tensors[LS_ARG_Y] = ls_layer_window_as_image(at->y);
    }
    op.tensors[LS_ARG_DY] = ls_layer_window_as_image(at->dy);
    op.tensors[LS_ARG_DX] = ls_layer_window_as_image(at->dx[0]);
    return ls_plan_builder_append(builder, &op);
}

#define POOL_TYPE(type, its_kind, name, class_name, maximum, ...)                                                      \
    const struct ls_layer_type type = {                                                                                \
        .kind = its_kind,                                                                                              \
        .title = {name, class_name},                                                                                   \
        .takes = {__VA_ARGS__},                                                                                        \
        .check = pool_check,                                                                                           \
        .infer = pool_infer,                                                                                           \
        .forward = pool_forward,                                                                                       \
        .backward = pool_backward,                                                                                     \
        .reads_x = maximum,                                                                                            \
        .reads_y = maximum,                                                                                            \
    }
POOL_TYPE(ls_max_pooling2d_type, LS_LAYER_MAX_POOLING2D, "max_pooling2d", "MaxPooling2D", true, LS_LAYER_WINDOW_FIELDS);
POOL_TYPE(ls_average_pooling2d_type, LS_LAYER_AVERAGE_POOLING2D, "average_pooling2d", "AveragePooling2D", false,
          LS_LAYER_WINDOW_FIELDS);
POOL_TYPE(ls_global_max_pooling2d_type, LS_LAYER_GLOBAL_MAX_POOLING2D, "global_max_pooling2d", "GlobalMaxPooling2D",
          true, 0);
POOL_TYPE(ls_global_average_pooling2d_type, LS_LAYER_GLOBAL_AVERAGE_POOLING2D, "global_average_pooling2d",
          "GlobalAveragePooling2D", false, 0);
POOL_TYPE(ls_global_average_pooling1d_type, LS_LAYER_GLOBAL_AVERAGE_POOLING1D, "global_average_pooling1d",
          "GlobalAveragePooling1D", false, 0);
POOL_TYPE(ls_max_pooling1d_type, LS_LAYER_MAX_POOLING1D, "max_pooling1d", "MaxPooling1D", true,
          LS_LAYER_SEQUENCE_FIELDS);
POOL_TYPE(ls_average_pooling1d_type, LS_LAYER_AVERAGE_POOLING1D, "average_pooling1d", "AveragePooling1D", false,
          LS_LAYER_SEQUENCE_FIELDS);
POOL_TYPE(ls_global_max_pooling1d_type, LS_LAYER_GLOBAL_MAX_POOLING1D, "global_max_pooling1d", "GlobalMaxPooling1D",
          true, 0);
