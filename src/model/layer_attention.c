/* The core of self-attention, on packed queries, keys and values. Mirrors keras.layers.GroupQueryAttention between its
 * dense layers, and torch.nn.functional.scaled_dot_product_attention. */
#include "base/status.h"
#include "device/op_layers.h"
#include "device/rope.h"
#include "model/plan_builder.h"
#include "model/plan_decode.h"
#include "model/layer.h"
#include "model/network.h"

enum { SAVED = 0 }; /* the tensor that is kept */

static struct ls_attention attention_of(const ls_layer *layer) {
    return (struct ls_attention){.heads = layer->heads,
                                 .kv_heads = layer->kv_heads ? layer->kv_heads : layer->heads,
                                 .causal = !layer->no_causal_mask,
                                 .window = layer->window,
                                 .rope = layer->rope,
                                 .rope_theta = layer->rope_theta};
}

static ls_status check_theta(const ls_layer *layer, size_t position) {
    if (layer->rope_theta != 0 && !layer->rope)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (attention): rope_theta %g is of rope; set it, or leave this out", position,
                       (double)layer->rope_theta);
    if (layer->rope_theta == 0 || (layer->rope_theta >= 1 && (double)layer->rope_theta <= LS_ROPE_MOST)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (attention): rope_theta %g must be 1 to %g, or 0 for %d", position,
                   (double)layer->rope_theta, LS_ROPE_MOST, LS_ROPE_THETA);
}

static ls_status attention_check(const struct ls_node *node, size_t position) {
    const ls_layer *layer = &node->layer;
    if (layer->heads < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (attention): heads %d must be 1 or more", position,
                       layer->heads);
    if (layer->kv_heads < 0 || (layer->kv_heads && layer->heads % layer->kv_heads))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (attention): kv_heads %d must divide heads %d, or be 0 for as many", position,
                       layer->kv_heads, layer->heads);
    if (layer->window < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (attention): window %d must be 1 or more, or 0 for none",
                       position, layer->window);
    if (layer->window && layer->no_causal_mask)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (attention): window %d is of a causal mask; leave no_causal_mask out, or window",
                       position, layer->window);
    return check_theta(layer, position);
}

static ls_status attention_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    (void)network;
    const struct ls_attention attention = attention_of(&node->layer);
    int64_t groups = attention.heads + 2 * attention.kv_heads;
    if (node->input.rank != 2)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "layer %zu (attention): it takes (positions, channels), and gets %d axes; an embedding, or dense "
            "with per_position, makes them",
            position, node->input.rank);
    int64_t channels = node->input.dims[1], width = channels / groups;
    if (channels % groups)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (attention): its input has %lld channels, which heads %lld and twice kv_heads %lld "
                       "do not divide; give the dense layer before it a multiple of %lld units",
                       position, (long long)channels, (long long)attention.heads, (long long)attention.kv_heads,
                       (long long)groups);
    if (attention.rope && width % 2)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu (attention): rope turns pairs, and a head has %lld channels; make them even, or "
                       "leave rope out",
                       position, (long long)width);
    node->output = LS_SHAPE(node->input.dims[0], attention.heads * width);
    return LS_OK;
}

static ls_status attention_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                   const struct ls_node_tensors *at) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    struct ls_op op = {.kind = LS_OP_ATTENTION_FORWARD, .attention = attention_of(&node->layer)};
    const ls_shape shape = LS_SHAPE(config->rows, node->layer.heads, node->input.dims[0]);
    if (config->training)
        op.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED) =
            ls_plan_builder_tensor(builder, LS_FLOAT32, &shape);
    return ls_plan_builder_apply(builder, op, &at->x[0], &at->y);
}

static int64_t width_of(const struct ls_node *node) {
    return node->output.dims[1] / node->layer.heads;
}

static int64_t attention_kept_floats(const struct ls_node *node) {
    return 2 * attention_of(&node->layer).kv_heads * node->input.dims[0] * width_of(node);
}

static bool attention_looks_ahead(const struct ls_node *node) {
    return node->layer.no_causal_mask;
}

static ls_status attention_decode(struct ls_plan_builder *builder, const struct ls_node *node,
                                  const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_ATTENTION_DECODE, .attention = attention_of(&node->layer)};
    const ls_shape shape =
        LS_SHAPE(ls_plan_builder_config(builder)->rows, 2, op.attention.kv_heads, node->input.dims[0], width_of(node));
    op.tensors[LS_ARG_AT] = ls_plan_decode_place(builder);
    op.tensors[LS_ARG_KEPT] = ls_plan_decode_kept(builder, node, &shape);
    return ls_plan_builder_apply(builder, op, &at->x[0], &at->y);
}

static ls_status attention_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                    struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_ATTENTION_BACKWARD, .attention = attention_of(&node->layer)};
    if (!ls_tensor_exists(&at->dx[0])) return LS_OK;
    op.tensors[LS_ARG_SAVED] = *ls_plan_builder_kept(builder, node, SAVED);
    op.tensors[LS_ARG_DY] = at->dy;
    op.tensors[LS_ARG_DX] = at->dx[0];
    return ls_plan_builder_apply(builder, op, &at->x[0], &at->y);
}

const struct ls_layer_type ls_attention_type = {
    .kind = LS_LAYER_ATTENTION,
    .title = {"attention", "Attention"},
    .takes = {.heads = 1, .kv_heads = 1, .window = 1, .rope = true, .rope_theta = 1, .no_causal_mask = true},
    .check = attention_check,
    .infer = attention_infer,
    .forward = attention_forward,
    .decode = attention_decode,
    .kept_floats = attention_kept_floats,
    .looks_ahead = attention_looks_ahead,
    .backward = attention_backward,
    .reads_x = true,
    .reads_y = true,
};
