/* Layers that change each element for itself: rescaling and dropout. Mirrors tf.keras.layers.Rescaling and Dropout. */
#include "base/random.h"
#include "base/status.h"
#include "model/plan_builder.h"
#include "model/layer.h"

static ls_status same_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network, (void)position;
    node->output = node->input;
    return LS_OK;
}

static ls_status dropout_check(const struct ls_node *node, size_t position) {
    if (node->layer.rate >= 0 && node->layer.rate < 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (dropout): rate %g must be at least 0 and below 1", position,
                   (double)node->layer.rate);
}

static bool dropout_passes_through(const struct ls_node *node, bool training) {
    return !training || node->layer.rate <= 0;
}

static struct ls_op op_of(const struct ls_plan_builder *builder, const struct ls_node *node) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    if (node->layer.kind == LS_LAYER_RESCALING)
        return (struct ls_op){.kind = LS_OP_SCALE, .alpha = node->layer.scale, .beta = node->layer.offset};
    return (struct ls_op){.kind = LS_OP_DROPOUT,
                          .alpha = node->layer.rate,
                          .random = {config->seed, ls_random_stream(node->name), config->replica},
                          .step = config->step};
}

static ls_status elements_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                  const struct ls_node_tensors *at) {
    return ls_plan_builder_apply(builder, op_of(builder, node), &at->x[0], &at->y);
}

static ls_status elements_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                   struct ls_node_tensors *at) {
    struct ls_op op = op_of(builder, node);
    if (!ls_tensor_exists(&at->dx[0])) return LS_OK;
    op.beta = 0;
    at->dx[0] = at->dy;
    return ls_plan_builder_apply(builder, op, &at->dy, &at->dy);
}

const struct ls_layer_type ls_rescaling_type = {
    .kind = LS_LAYER_RESCALING,
    .title = {"rescaling", "Rescaling"},
    .takes = {.scale = 1, .offset = 1},
    .infer = same_infer,
    .forward = elements_forward,
    .decode = elements_forward,
    .backward = elements_backward,
};

const struct ls_layer_type ls_dropout_type = {
    .kind = LS_LAYER_DROPOUT,
    .title = {"dropout", "Dropout"},
    .takes = {.rate = 1},
    .check = dropout_check,
    .infer = same_infer,
    .passes_through = dropout_passes_through,
    .forward = elements_forward,
    .decode = elements_forward,
    .backward = elements_backward,
};
