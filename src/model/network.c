/* A network: layers with names, inputs, shapes and variables. Immutable once made, so that all replica threads may read
 * it. Mirrors tf.keras.Sequential and Model. */
#include "model/network.h"

#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/shape.h"
#include "device/labels.h"
#include "model/layer.h"
#include "model/layer_fields.h"

#define MOST_FLOAT_IDS (1 << 24) /* up to which float32 is exact */
#define KERNEL         "kernel"  /* what regularisers are for */
#define BLOB_STEP      16        /* floats: variables begin on cache lines */
#define MAX_LAYERS     10000
#define MAX_FLOATS     (INT64_C(1) << 40)

enum { TRAINED = 0, MOVED, FROZEN, GROUPS }; /* in the blob's order */

struct table {
    struct ls_network_variable *rows;
    int count, capacity;
    size_t floats; /* in the blob, gaps included */
};
struct ls_network {
    struct ls_node *nodes;
    size_t node_count;
    struct table made;      /* the variables in the layers' order; offsets are those of no blob */
    int counts[GROUPS];     /* of made */
    struct table variables; /* in the blob's order */
    int *places;            /* [made.count] there */
    size_t ends[GROUPS];    /* in the blob, of the trained, the moved and the frozen */
    struct table tables;    /* the sparse ones */
    ls_shape input;
    bool integers; /* as of ls_network_take_integers */
    int outputs;
};

#define POINT(name) &ls_##name##_type,
static const struct ls_layer_type *const types[] = {LS_LAYER_TYPES(POINT)};

static const struct ls_layer_type *find_type(ls_layer_kind kind) {
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i]->kind == kind) return types[i];
    return NULL;
}

void ls_network_free(struct ls_network *network) {
    if (!network) return;
    ls_free(network->nodes);
    ls_free(network->made.rows);
    ls_free(network->variables.rows);
    ls_free(network->places);
    ls_free(network->tables.rows);
    ls_free(network);
}

LS_CLEANER(free_network, struct ls_network *, ls_network_free);

/* Offset and name are set; the table is the one after which it lies. A variable begins at a multiple of 16 floats, a
 * cache line. The gap behind it stays zero in every blob: gradients are zero there, and no rule changes a parameter
 * whose gradient and moments are zero. */
static ls_status add_row(struct table *table, const struct ls_network_variable *variable) {
    ls_status status = LS_GROW(table->rows, table->capacity, table->count + 1, 16, "the table of variables");
    if (status) return status;
    struct ls_network_variable *row = &table->rows[table->count++];
    *row = *variable;
    row->offset = table->floats;
    table->floats += (variable->count + BLOB_STEP - 1) / BLOB_STEP * BLOB_STEP;
    return LS_OK;
}

static int group_of(const struct ls_network_variable *variable) {
    return variable->trained ? TRAINED : variable->moved ? MOVED : FROZEN;
}

ls_status ls_network_add_variable(struct ls_network *network, struct ls_node *node,
                                  const struct ls_variable_spec *spec) {
    int64_t count = ls_shape_count(&spec->shape);
    if (count < 1 || count > MAX_FLOATS - (int64_t)network->made.floats)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer '%s': its %s and the variables before it hold more than %lld numbers", node->name,
                       spec->name, (long long)MAX_FLOATS);
    struct ls_network_variable variable = {.shape = spec->shape,
                                           .count = (size_t)count,
                                           .initializer = spec->initializer,
                                           .fan_in = spec->fan_in,
                                           .fan_out = spec->fan_out,
                                           .stddev = node->layer.stddev,
                                           .ones = {spec->ones[0], spec->ones[1]},
                                           .trained = !spec->moved && !node->layer.frozen,
                                           .moved = spec->moved && !node->layer.frozen,
                                           .rate = node->layer.rate_multiplier > 0 ? node->layer.rate_multiplier : 1,
                                           .momentum = spec->momentum,
                                           .before = network->counts[TRAINED]};
    if (!strcmp(spec->name, KERNEL)) variable.l1 = node->layer.kernel_l1, variable.l2 = node->layer.kernel_l2;
    (void)snprintf(variable.name, sizeof(variable.name), "%s/%s", node->name, spec->name);
    ls_status status = add_row(spec->sparse ? &network->tables : &network->made, &variable);
    if (status) return status;
    ++*(spec->sparse ? &node->table_count : &node->variable_count);
    if (!spec->sparse) network->counts[group_of(&variable)]++;
    return LS_OK;
}

const ls_shape *ls_network_input_shape(const struct ls_network *network, const struct ls_node *node, int index) {
    int input = node->inputs[index];
    return input == LS_NETWORK_INPUT ? &network->input : &network->nodes[input].output;
}

/* A group lies together, in the table as in the blob. So one range of the blob is trained, compressed and clipped, the
 * next is only added up, and the last one stays. */
static ls_status arrange(struct ls_network *network) {
    const struct table *made = &network->made;
    ls_status status = LS_OK;
    network->places = ls_alloc_array((size_t)made->count + 1, sizeof(*network->places));
    if (!network->places) return ls_fail_memory("the table of variables", (size_t)made->count);
    for (int group = TRAINED; group < GROUPS; group++) {
        for (int i = 0; !status && i < made->count; i++) {
            if (group_of(&made->rows[i]) != group) continue;
            network->places[i] = network->variables.count;
            status = add_row(&network->variables, &made->rows[i]);
        }
        network->ends[group] = network->variables.floats;
    }
    return status;
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

static ls_status check_count(const ls_layer *layers, size_t count) {
    if (!layers || !count)
        return ls_fail(LS_INVALID_ARGUMENT, "the network has no layers; give at least one, such as ls_dense(10)");
    if (count > MAX_LAYERS)
        return ls_fail(LS_INVALID_ARGUMENT, "the network has %zu layers; at most %d are possible", count, MAX_LAYERS);
    return LS_OK;
}

static ls_status check_regularizer(const struct ls_node *node) {
    float l1 = node->layer.kernel_l1, l2 = node->layer.kernel_l2;
    if (!(l1 >= 0 && l2 >= 0) || isinf(l1) || isinf(l2))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): kernel_l1 %g and kernel_l2 %g must not be negative",
                       node->index, node->title.name, (double)l1, (double)l2);
    return LS_OK;
}

static ls_status check_rate(const struct ls_node *node) {
    const ls_layer *layer = &node->layer;
    if (!(layer->rate_multiplier >= 0) || isinf(layer->rate_multiplier))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): rate_multiplier %g must be above 0", node->index,
                       node->title.name, (double)layer->rate_multiplier);
    if (layer->frozen && layer->rate_multiplier > 0)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): it is frozen, so leave rate_multiplier 0, not %g",
                       node->index, node->title.name, (double)layer->rate_multiplier);
    return LS_OK;
}

static ls_status check_stddev(const struct ls_node *node) {
    const ls_layer *layer = &node->layer;
    if (!(layer->stddev >= 0) || isinf(layer->stddev))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): stddev %g must be above 0", node->index, node->title.name,
                       (double)layer->stddev);
    if (layer->stddev == 0 || layer->kernel_initializer == LS_RANDOM_NORMAL) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): stddev is for LS_RANDOM_NORMAL, and its initializer is %s",
                   node->index, node->title.name, ls_initializer_name(layer->kernel_initializer));
}

static ls_status check_node(const struct ls_node *node, size_t position) {
    ls_status status = ls_layer_fields_check(node, position);
    if (!status && node->type->check) status = node->type->check(node, position);
    if (!status) status = check_rate(node);
    if (!status) status = check_stddev(node);
    return status ? status : check_regularizer(node);
}

/* Kinds, fields and names. */
static ls_status take_layers(struct ls_network *network, const ls_layer *layers, size_t count) {
    network->nodes = ls_alloc_array(count, sizeof(*network->nodes));
    if (!network->nodes) return ls_fail_memory("the layers", count * sizeof(*network->nodes));
    network->node_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct ls_layer_type *type = find_type(layers[i].kind);
        if (!type)
            return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: kind %d is no ls_layer_kind", i, (int)layers[i].kind);
        network->nodes[i] = (struct ls_node){.layer = layers[i],
                                             .type = type,
                                             .title = type->title_of ? type->title_of(&layers[i]) : type->title,
                                             .index = i};
        ls_status status = check_node(&network->nodes[i], i);
        if (status) return status;
    }
    return ls_layer_names(network->nodes, count);
}

/* The node of that name before position; "input" is the network's own unless a layer is called so. */
static int find_input(const struct ls_network *network, const char *name, size_t position) {
    for (size_t i = 0; i < position; i++)
        if (!strcmp(network->nodes[i].name, name)) return (int)i;
    return strcmp(name, "input") ? LS_NO_NODE : LS_NETWORK_INPUT;
}

static ls_status add_input(const struct ls_network *network, struct ls_node *node, const char *name) {
    int input = name ? find_input(network, name, node->index) : (int)node->index - 1;
    if (input == LS_NO_NODE)
        return ls_fail(LS_INVALID_ARGUMENT, "layer '%s': its input '%.80s' is no layer before it", node->name, name);
    node->inputs[node->input_count++] = input;
    return LS_OK;
}

static ls_status resolve_tied(const struct ls_network *network, struct ls_node *node) {
    const char *name = node->layer.tied;
    node->tied = name ? find_input(network, name, node->index) : LS_NO_NODE;
    if (!name) return LS_OK;
    if (node->tied < 0 || network->nodes[node->tied].layer.kind != LS_LAYER_EMBEDDING)
        return ls_fail(LS_INVALID_ARGUMENT, "layer '%s': tied '%.80s' is no embedding layer before it", node->name,
                       name);
    if (network->nodes[node->tied].is_tied)
        return ls_fail(LS_INVALID_ARGUMENT, "layer '%s': another layer is tied to '%.80s' already", node->name, name);
    network->nodes[node->tied].is_tied = true;
    return LS_OK;
}

static ls_status resolve_inputs(const struct ls_network *network, struct ls_node *node) {
    ls_layer *layer = &node->layer;
    ls_status status = add_input(network, node, layer->input);
    for (int i = 0; !status && i < LS_MAX_OTHER_INPUTS && layer->others[i]; i++)
        status = add_input(network, node, layer->others[i]);
    if (!status) status = resolve_tied(network, node);
    layer->input = layer->tied = NULL; /* the user's memory */
    memset(layer->others, 0, sizeof(layer->others));
    return status;
}

static ls_status infer(struct ls_network *network) {
    for (size_t i = 0; i < network->node_count; i++) {
        struct ls_node *node = &network->nodes[i];
        node->last = node->owner = (int)i;
        node->residual = node->folded = LS_NO_NODE;
        node->first_variable = network->made.count;
        node->first_table = network->tables.count;
        node->input = *ls_network_input_shape(network, node, 0);
        ls_status status = node->type->infer(network, node, i);
        if (status) return status;
    }
    return arrange(network);
}

/* Every output but the last layer's is some layer's input: what nobody takes has no gradient. */
static ls_status check_consumers(const struct ls_network *network) {
    LS_CLEANUP(ls_free_pointer) bool *taken = ls_alloc_array(network->node_count, sizeof(*taken));
    if (!taken) return ls_fail_memory("a network", network->node_count);
    for (size_t i = 0; i < network->node_count; i++)
        for (int k = 0; k < network->nodes[i].input_count; k++)
            if (network->nodes[i].inputs[k] >= 0) taken[network->nodes[i].inputs[k]] = true;
    for (size_t i = 0; i + 1 < network->node_count; i++)
        if (!taken[i])
            return ls_fail(LS_INVALID_ARGUMENT, "layer '%s': no layer takes its output, and it is not the last",
                           network->nodes[i].name);
    return LS_OK;
}

static ls_status check_outputs(struct ls_network *network) {
    const struct ls_node *last = &network->nodes[network->node_count - 1];
    char text[96];
    ls_shape_text(&last->output, text, sizeof(text));
    int64_t outputs = ls_shape_count(&last->output);
    if (outputs < 1 || outputs > INT_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "the last layer, '%s', has too many outputs: %s", last->name, text);
    if (!network->ends[TRAINED])
        return ls_fail(LS_INVALID_ARGUMENT, "the network has nothing to train%s: none of its layers has variables%s",
                       network->tables.count ? " beside sparse tables" : "",
                       network->made.count ? " that are not frozen" : "");
    network->outputs = (int)outputs;
    return LS_OK;
}

/* All that needs no shape. */
static ls_status new_nodes(const ls_layer *layers, size_t count, struct ls_network **network) {
    ls_status status = check_count(layers, count);
    if (status) return status;
    LS_CLEANUP(free_network) LS_NEW(struct ls_network, made, "a network");
    status = take_layers(made, layers, count);
    for (size_t i = 0; !status && i < count; i++) status = resolve_inputs(made, &made->nodes[i]);
    if (!status) status = check_consumers(made);
    if (!status) *network = ls_steal(made);
    return status;
}

ls_status ls_network_check(const ls_layer *layers, size_t count) {
    LS_CLEANUP(free_network) struct ls_network *made = NULL;
    return new_nodes(layers, count, &made);
}

static ls_status find_layers(const struct ls_network *network, const char *pattern, bool *found) {
    bool any = false;
    for (size_t i = 0; i < network->node_count; i++) {
        const struct ls_node *node = &network->nodes[i];
        if (!node->type->takes.frozen || fnmatch(pattern, node->name, 0)) continue;
        found[i] = any = true;
    }
    if (any) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "'%.80s' matches the name of no layer with variables; the model's summary has the names", pattern);
}

ls_status ls_network_find(const ls_layer *layers, size_t count, const char *names, bool *found) {
    LS_CLEANUP(free_network) struct ls_network *named = NULL;
    LS_CLEANUP(ls_free_pointer) char *copy = ls_strdup(names);
    if (!copy) return ls_fail_memory("names of layers", strlen(names));
    ls_status status = new_nodes(layers, count, &named);
    char *list = copy;
    for (char *name; !status && (name = strsep(&list, ","));) status = find_layers(named, name, found);
    return status;
}

ls_status ls_network_new(const ls_layer *layers, size_t count, const ls_shape *input, struct ls_network **network) {
    LS_CLEANUP(free_network) struct ls_network *made = NULL;
    if (!input) return ls_fail(LS_INVALID_ARGUMENT, "the shape of the network's input is missing");
    ls_status status = new_nodes(layers, count, &made);
    if (!status) status = check_input(input);
    if (status) return status;
    made->input = *input;
    status = infer(made);
    if (!status) status = check_outputs(made);
    if (!status) ls_fuse_nodes(made->nodes, count);
    if (!status) ls_blocks_mark(made->nodes, count);
    if (!status) *network = ls_steal(made);
    return status;
}

size_t ls_network_blob_count(const struct ls_network *network) {
    return network->ends[FROZEN];
}

size_t ls_network_trainable_count(const struct ls_network *network) {
    return network->ends[TRAINED];
}

size_t ls_network_summed_count(const struct ls_network *network) {
    return network->ends[MOVED];
}

int ls_network_variable_count(const struct ls_network *network) {
    return network->variables.count;
}

int ls_network_summed_variables(const struct ls_network *network) {
    return network->counts[TRAINED] + network->counts[MOVED];
}

const struct ls_network_variable *ls_network_variable(const struct ls_network *network, int index) {
    return index >= 0 && index < network->variables.count ? &network->variables.rows[index] : NULL;
}

const struct ls_network_variable *ls_network_variable_of(const struct ls_network *network, const struct ls_node *node,
                                                         int index) {
    return &network->variables.rows[network->places[node->first_variable + index]];
}

int ls_network_table_count(const struct ls_network *network) {
    return network->tables.count;
}

const struct ls_network_variable *ls_network_table(const struct ls_network *network, int index) {
    return &network->tables.rows[index];
}

int ls_network_outputs(const struct ls_network *network) {
    return network->outputs;
}

const ls_shape *ls_network_output_shape(const struct ls_network *network) {
    return &network->nodes[network->node_count - 1].output;
}

const ls_shape *ls_network_input(const struct ls_network *network) {
    return &network->input;
}

size_t ls_network_layer_count(const struct ls_network *network) {
    return network->node_count;
}

const struct ls_node *ls_network_node(const struct ls_network *network, size_t index) {
    return &network->nodes[index];
}

ls_status ls_network_take_integers(struct ls_network *network, bool integers) {
    network->integers = integers;
    for (size_t i = 0; i < network->node_count; i++) {
        const struct ls_node *node = &network->nodes[i];
        bool embeds = node->layer.kind == LS_LAYER_EMBEDDING;
        if (embeds && !integers && node->layer.input_dim > MOST_FLOAT_IDS)
            return ls_fail(
                LS_INVALID_ARGUMENT,
                "layer '%s': input_dim %d is more than %d, up to which ids in float32 are exact: give integers "
                "(ls_arrays.ids, ls_dataset_options.ids)",
                node->name, node->layer.input_dim, MOST_FLOAT_IDS);
        for (int k = 0; integers && !embeds && k < node->input_count; k++)
            if (node->inputs[k] == LS_NETWORK_INPUT)
                return ls_fail(
                    LS_INVALID_ARGUMENT,
                    "layer '%s' takes the model's input, which is integers: embedding layers alone take those",
                    node->name);
    }
    return LS_OK;
}

bool ls_network_takes_integers(const struct ls_network *network) {
    return network->integers;
}

struct ls_tensor ls_network_ids(const struct ls_network *network, const void *features, int64_t rows) {
    return (struct ls_tensor){(void *)(uintptr_t)features, network->integers ? LS_INT32 : LS_FLOAT32,
                              LS_SHAPE(rows, ls_shape_count(&network->input)), 0};
}

ls_status ls_network_check_bytes(const struct ls_network *network) {
    for (size_t i = 0; i < network->node_count; i++)
        if (network->nodes[i].layer.kind == LS_LAYER_EMBEDDING)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "layer '%s' takes ids, and the dataset's bytes are read as x / 255: open it with ids "
                           "(ls_dataset_options.ids)",
                           network->nodes[i].name);
    return LS_OK;
}

ls_status ls_network_check_ids(const struct ls_network *network, const void *features, int64_t rows) {
    const struct ls_tensor ids = ls_network_ids(network, features, rows);
    ls_status status = LS_OK;
    for (size_t i = 0; i < network->node_count && !status; i++) {
        const struct ls_node *node = &network->nodes[i];
        if (node->layer.kind != LS_LAYER_EMBEDDING) continue;
        status = ls_ids_check(&ids, node->layer.input_dim);
        if (status) return ls_fail_context(status, "layer '%s'", node->name);
    }
    return status;
}

void ls_network_initialize(const struct ls_network *network, uint64_t seed, float *blob) {
    memset(blob, 0, network->variables.floats * sizeof(float));
    for (int i = 0; i < network->variables.count; i++)
        ls_initializer_apply(&network->variables.rows[i], seed, blob + network->variables.rows[i].offset);
}
