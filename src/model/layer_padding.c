/* Zero padding of images. Mirrors tf.keras.layers.ZeroPadding2D. */
#include "base/status.h"
#include "model/plan_builder.h"
#include "model/layer.h"

static ls_status padding_check(const struct ls_node *node, size_t position) {
    const int *zeros = node->layer.zeros;
    for (int i = 0; i < 4; i++)
        if (zeros[i] < 0)
            return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (zero_padding2d): %d zeros are not possible", position,
                           zeros[i]);
    return LS_OK;
}

static ls_status padding_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    const int *zeros = node->layer.zeros;
    (void)network;
    ls_status status = ls_layer_window_check_image(node, position);
    if (status) return status;
    node->output = LS_SHAPE(node->input.dims[0] + zeros[0] + zeros[1], node->input.dims[1] + zeros[2] + zeros[3],
                            node->input.dims[2]);
    return LS_OK;
}

static struct ls_op start_layer_padding_op(const struct ls_node *node, enum ls_op_kind kind) {
    const int *zeros = node->layer.zeros;
    return (struct ls_op){.kind = kind,
                          .window = {.kernel = {1, 1},
                                     .strides = {1, 1},
                                     .dilation = {1, 1},
                                     .before = {zeros[0], zeros[2]},
                                     .after = {zeros[1], zeros[3]},
                                     .groups = 1}};
}

static ls_status padding_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                 const struct ls_node_tensors *at) {
    return ls_plan_builder_apply(builder, start_layer_padding_op(node, LS_OP_PAD), &at->x[0], &at->y);
}

static ls_status padding_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                  struct ls_node_tensors *at) {
    if (!ls_tensor_exists(&at->dx[0])) return LS_OK;
    return ls_plan_builder_apply(builder, start_layer_padding_op(node, LS_OP_CROP), &at->dy, &at->dx[0]);
}

const struct ls_layer_type ls_zero_padding2d_type = {
    .kind = LS_LAYER_ZERO_PADDING2D,
    .title = {"zero_padding2d", "ZeroPadding2D"},
    .takes = {.zeros = {1, 1, 1, 1}},
    .check = padding_check,
    .infer = padding_infer,
    .forward = padding_forward,
    .backward = padding_backward,
};
