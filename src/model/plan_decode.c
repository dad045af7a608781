/* Decoding, for models that predict the next token. The first plan has the prompt, those after it one position each. An
 * attention needs keys and values of positions before. The caller has the memory for them, and gives it to all these
 * plans: node by node, of each all rows. Every other layer that decodes takes of a position nothing but that one.
 * Mirrors the cache of keras_hub's CausalLM, and use_cache of transformers. */
#include "model/plan_decode.h"

#include "base/shape.h"
#include "base/status.h"
#include "model/plan.h"
#include "model/plan_builder.h"

static size_t floats_of(const struct ls_node *node) {
    size_t floats = node->type->kept_floats ? (size_t)node->type->kept_floats(node) : 0;
    return (floats + LS_ARENA_STEP - 1) / LS_ARENA_STEP * LS_ARENA_STEP;
}

/* Of the nodes before end. */
static size_t floats_before(const struct ls_network *network, size_t end) {
    size_t floats = 0;
    for (size_t i = 0; i < end; i++) floats += floats_of(ls_network_node(network, i));
    return floats;
}

size_t ls_plan_decode_floats(const struct ls_network *network) {
    return floats_before(network, ls_network_layer_count(network));
}

/* A value has the input's positions along its first axis, and something at each. */
static bool node_decodes(const struct ls_network *network, const struct ls_node *node) {
    bool ahead = node->type->looks_ahead && node->type->looks_ahead(node);
    return node->type->decode && !ahead && !node->table_count && node->output.rank == 2 &&
           node->output.dims[0] == ls_network_input(network)->dims[0];
}

const struct ls_node *ls_plan_decode_obstacle(const struct ls_network *network) {
    const struct ls_node *first = ls_network_node(network, 0);
    if (ls_network_input(network)->rank != 1) return first;
    for (size_t i = 0; i < ls_network_layer_count(network); i++)
        if (!node_decodes(network, ls_network_node(network, i))) return ls_network_node(network, i);
    return NULL;
}

ls_status ls_plan_decode_check(const struct ls_plan_config *config) {
    const struct ls_decoding *decoding = config->decoding;
    const struct ls_node *obstacle = ls_plan_decode_obstacle(config->network);
    if (obstacle)
        return ls_fail(LS_INVALID_ARGUMENT, "plan: layer '%s' takes all positions at once, so none decodes",
                       obstacle->name);
    if (config->training || config->labels || config->numbers || config->byte_values)
        return ls_fail(LS_INVALID_ARGUMENT, "plan: a decoding takes ids, and has no training and no loss");
    int64_t context = ls_network_input(config->network)->dims[0];
    if (decoding->positions < 1 || decoding->positions > context)
        return ls_fail(LS_INVALID_ARGUMENT, "plan: positions %lld must be 1 to %lld", (long long)decoding->positions,
                       (long long)context);
    if (decoding->at && decoding->kept) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "plan: a decoding needs at and kept");
}

size_t ls_plan_decode_layers(const struct ls_network *network) {
    size_t layers = ls_network_layer_count(network);
    while (layers && !floats_of(ls_network_node(network, layers - 1))) layers--;
    return layers;
}

struct ls_tensor ls_plan_decode_place(const struct ls_plan_builder *builder) {
    return ls_plan_builder_given(builder, LS_GIVEN_AT, LS_INT32, &LS_SHAPE(1));
}

struct ls_tensor ls_plan_decode_kept(const struct ls_plan_builder *builder, const struct ls_node *node,
                                     const ls_shape *shape) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    struct ls_tensor kept = ls_plan_builder_given(builder, LS_GIVEN_KEPT, LS_FLOAT32, shape);
    kept.within = (size_t)config->rows * floats_before(config->network, node->index) * sizeof(float);
    return kept;
}
