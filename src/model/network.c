/* A network: layers in sequence with names, shapes and variables. Immutable once made, so that all replica threads may
 * read it. Mirrors tf.keras.Sequential. */
#include "model/network.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/initializer.h"
#include "model/layer.h"
#include "model/layer_name.h"

#define BLOB_STEP  16 /* floats: variables begin on cache lines */
#define MAX_LAYERS 10000
#define MAX_FLOATS (INT64_C(1) << 40)

struct ls_network {
    struct ls_node *nodes;
    size_t node_count;
    struct ls_network_variable *variables;
    int variable_count, variable_capacity;
    size_t blob_count;
    ls_shape input;
    int outputs;
};

static const struct ls_layer_type *const types[] = {&ls_dense_type, &ls_flatten_type, &ls_activation_type};

static const struct ls_layer_type *find_type(ls_layer_kind kind) {
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i]->kind == kind) return types[i];
    return NULL;
}

void ls_network_free(struct ls_network *network) {
    if (!network) return;
    ls_free(network->nodes);
    ls_free(network->variables);
    ls_free(network);
}

static void free_network(struct ls_network **network) {
    ls_network_free(*network);
}

static ls_status grow_variables(struct ls_network *network) {
    if (network->variable_count < network->variable_capacity) return LS_OK;
    int capacity = network->variable_capacity ? 2 * network->variable_capacity : 16;
    struct ls_network_variable *grown = ls_alloc_array((size_t)capacity, sizeof(*grown));
    if (!grown) return ls_fail_memory("the table of variables", (size_t)capacity * sizeof(*grown));
    if (network->variable_count) memcpy(grown, network->variables, (size_t)network->variable_count * sizeof(*grown));
    ls_free(network->variables);
    network->variables = grown;
    network->variable_capacity = capacity;
    return LS_OK;
}

ls_status ls_network_add_variable(struct ls_network *network, struct ls_node *node,
                                  const struct ls_variable_spec *spec) {
    int64_t count = ls_shape_count(&spec->shape);
    if (count < 1 || count > MAX_FLOATS - (int64_t)network->blob_count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer '%s': its %s and the variables before it hold more than %lld numbers", node->name,
                       spec->name, (long long)MAX_FLOATS);
    ls_status status = grow_variables(network);
    if (status) return status;
    struct ls_network_variable *variable = &network->variables[network->variable_count++];
    (void)snprintf(variable->name, sizeof(variable->name), "%s/%s", node->name, spec->name);
    variable->shape = spec->shape;
    variable->offset = network->blob_count;
    variable->count = (size_t)count;
    variable->initializer = spec->initializer;
    variable->fan_in = spec->fan_in;
    variable->fan_out = spec->fan_out;
    network->blob_count += (variable->count + BLOB_STEP - 1) / BLOB_STEP * BLOB_STEP;
    node->variable_count++;
    return LS_OK;
}

static ls_status check_input(const ls_shape *input) {
    char text[96];
    int64_t count = ls_shape_count(input);
    if (count > 0 && input->rank < LS_MAX_RANK && count <= MAX_FLOATS) return LS_OK;
    if (input->rank < 0 || input->rank >= LS_MAX_RANK)
        return ls_fail(LS_INVALID_ARGUMENT, "the input of a network has rank %d, but must have 0 to %d axes",
                       input->rank, LS_MAX_RANK - 1);
    ls_shape_text(input, text, sizeof(text));
    return ls_fail(LS_INVALID_ARGUMENT, "the input of a network has shape %s; every extent must be 1 or more", text);
}

static ls_status check_arguments(const ls_layer *layers, size_t count, const ls_shape *input) {
    if (!layers || !count)
        return ls_fail(LS_INVALID_ARGUMENT, "the network has no layers; give at least one, such as ls_dense(10)");
    if (count > MAX_LAYERS)
        return ls_fail(LS_INVALID_ARGUMENT, "the network has %zu layers; at most %d are possible", count, MAX_LAYERS);
    if (!input) return ls_fail(LS_INVALID_ARGUMENT, "the shape of the network's input is missing");
    return check_input(input);
}

/* Kinds and names, before any shape is known. */
static ls_status take_layers(struct ls_network *network, const ls_layer *layers, size_t count) {
    network->nodes = ls_alloc_array(count, sizeof(*network->nodes));
    if (!network->nodes) return ls_fail_memory("the layers", count * sizeof(*network->nodes));
    network->node_count = count;
    for (size_t i = 0; i < count; i++) {
        network->nodes[i].layer = layers[i];
        network->nodes[i].type = find_type(layers[i].kind);
        if (!network->nodes[i].type)
            return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: kind %d is no ls_layer_kind", i, (int)layers[i].kind);
    }
    return ls_layer_names(network->nodes, count);
}

static ls_status infer(struct ls_network *network, const ls_shape *input) {
    ls_shape shape = *input;
    for (size_t i = 0; i < network->node_count; i++) {
        struct ls_node *node = &network->nodes[i];
        node->input = shape;
        node->first_variable = network->variable_count;
        ls_status status = node->type->infer(network, node, i);
        if (status) return status;
        shape = node->output;
    }
    return LS_OK;
}

static ls_status check_outputs(struct ls_network *network) {
    const struct ls_node *last = &network->nodes[network->node_count - 1];
    char text[96];
    ls_shape_text(&last->output, text, sizeof(text));
    if (last->output.rank != 1)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the last layer, '%s', has outputs of shape %s, but a loss needs one axis: end with ls_dense",
                       last->name, text);
    if (last->output.dims[0] > INT_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "the last layer, '%s', has too many outputs: %s", last->name, text);
    if (!network->variable_count)
        return ls_fail(LS_INVALID_ARGUMENT, "the network has nothing to train: none of its layers has variables");
    network->outputs = (int)last->output.dims[0];
    return LS_OK;
}

ls_status ls_network_new(const ls_layer *layers, size_t count, const ls_shape *input, struct ls_network **network) {
    ls_status status = check_arguments(layers, count, input);
    if (status) return status;
    LS_CLEANUP(free_network) struct ls_network *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a network", sizeof(*made));
    made->input = *input;
    status = take_layers(made, layers, count);
    if (!status) status = infer(made, input);
    if (!status) status = check_outputs(made);
    if (!status) *network = ls_steal(made);
    return status;
}

size_t ls_network_blob_count(const struct ls_network *network) {
    return network->blob_count;
}

int ls_network_variable_count(const struct ls_network *network) {
    return network->variable_count;
}

const struct ls_network_variable *ls_network_variable(const struct ls_network *network, int index) {
    return index >= 0 && index < network->variable_count ? &network->variables[index] : NULL;
}

int ls_network_outputs(const struct ls_network *network) {
    return network->outputs;
}

size_t ls_network_layer_count(const struct ls_network *network) {
    return network->node_count;
}

const struct ls_node *ls_network_node(const struct ls_network *network, size_t index) {
    return &network->nodes[index];
}

void ls_network_initialize(const struct ls_network *network, uint64_t seed, float *blob) {
    memset(blob, 0, network->blob_count * sizeof(float));
    for (int i = 0; i < network->variable_count; i++)
        ls_variable_initialize(&network->variables[i], seed, blob + network->variables[i].offset);
}

/* Text that grows. */
struct text {
    char *at;
    size_t used, size;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at + text->used, text->size - text->used, format, arguments);
    va_end(arguments);
    if (length > 0) text->used += (size_t)length;
}

static void add_node(struct text *text, const struct ls_network *network, const struct ls_node *node) {
    char shape[192]; /* all eight extents fit */
    ls_shape_text(&node->output, shape, sizeof(shape));
    add(text, "; %s %s(%s) -> %s", node->name, node->type->base_name(&node->layer),
        ls_activation_name(node->layer.activation), shape);
    for (int i = node->first_variable; i < node->first_variable + node->variable_count; i++) {
        const struct ls_network_variable *variable = &network->variables[i];
        ls_shape_text(&variable->shape, shape, sizeof(shape));
        add(text, "; %s float32 %s %s", variable->name, shape, ls_initializer_name(variable->initializer));
    }
}

ls_status ls_network_describe(const struct ls_network *network, char **text) {
    char shape[192];
    size_t size = 128 + network->node_count * 320 + (size_t)network->variable_count * 320; /* a piece is at most 280 */
    struct text made = {ls_alloc(size), 0, size};
    if (!made.at) return ls_fail_memory("the description of a network", size);
    ls_shape_text(&network->input, shape, sizeof(shape));
    add(&made, "input %s", shape);
    for (size_t i = 0; i < network->node_count; i++) add_node(&made, network, &network->nodes[i]);
    *text = made.at;
    return LS_OK;
}
