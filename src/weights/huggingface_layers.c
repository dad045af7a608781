/* Such a model's layers as what a file of Lockstep says of them, and back. The way back takes the numbers from layers
 * of known names, and compares all layers with those that the numbers give. */
#include "weights/huggingface_layers.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/plain.h"
#include "base/shape.h"
#include "base/status.h"
#include "base/text.h"
#include "model/layer_fields.h"
#include "model/layer_json.h"
#include "model/network.h"
#include "weights/huggingface_json.h"

static ls_status make_layers(const struct ls_huggingface_config *config, struct ls_layer_list *list) {
    ls_status status = ls_layer_list_new((size_t)(config->layers.layers + 1) * LS_TRANSFORMER_BLOCK, list);
    if (!status) (config->gpt ? ls_transformers_add_gpt : ls_transformers_add_llama)(list, &config->layers);
    return status;
}

/* ---- to ---- */

static void put_about(FILE *out, const struct ls_huggingface_config *config, const struct ls_network *network) {
    ls_json_print(out, "{'input': [%d], 'integers': true, 'outputs': %d, 'loss': 'sparse_categorical_crossentropy'",
                  config->positions, ls_network_outputs(network));
    if (config->gpt) ls_json_print(out, ", 'tokenizer': 'gpt2'");
    ls_json_print(out, ", '" LS_LAYERS_MEMBER "': ");
    ls_layer_json_write(network, out);
    (void)fputc('}', out);
}

ls_status ls_huggingface_layers_to_about(const char *path, const struct ls_huggingface_config *config, char **about) {
    struct ls_layer_list list;
    struct ls_network *network = NULL;
    ls_status status = make_layers(config, &list);
    if (status) return status;
    status = ls_network_new(list.layers, list.count, &LS_SHAPE(config->positions), &network);
    if (!status) status = ls_network_take_integers(network, true);
    if (!status) status = LS_TEXT(out, put_about(out, config, network), "a description of the model", about);
    ls_network_free(network);
    ls_free(list.layers);
    return status ? ls_fail_context(status, "'%s'", path) : LS_OK;
}

/* ---- from ---- */

struct said {
    const char *path;
    ls_layer *layers; /* owns */
    size_t count;
};

static const ls_layer *find_layer(const struct said *said, const char *name) {
    for (size_t i = 0; i < said->count; i++)
        if (!strcmp(said->layers[i].name, name)) return &said->layers[i];
    return NULL;
}

/* *layer, which no numbers are without, is that of this name and kind. */
static ls_status take_layer(const struct said *said, const char *name, ls_layer_kind kind, const ls_layer **layer) {
    *layer = find_layer(said, name);
    if (*layer && (*layer)->kind == kind) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "'%s' is of no gpt, gpt2 or llama, which transformers has: its layer '%s' is %s", said->path, name,
                   *layer ? "of another kind" : "missing");
}

static int said_blocks(const struct said *said) {
    char name[64];
    int blocks = 0;
    while (blocks < LS_TRANSFORMER_BLOCKS) {
        (void)ls_plain_text(name, sizeof(name), "block_%d_attention", blocks);
        if (!find_layer(said, name)) break;
        blocks++;
    }
    return blocks;
}

static float rate_of(const struct said *said, const char *name) {
    const ls_layer *layer = find_layer(said, name);
    return layer ? layer->rate : 0;
}

/* All blocks are as the first. */
static ls_status take_numbers(const struct said *said, struct ls_huggingface_config *config) {
    const ls_layer *table, *qkv, *attention, *inner, *activation, *norm;
    bool gpt = find_layer(said, "position_embedding") != NULL;
    const struct {
        const char *name;
        ls_layer_kind kind;
        const ls_layer **layer;
    } rows[] = {{"token_embedding", LS_LAYER_EMBEDDING, &table},
                {"block_0_qkv", LS_LAYER_DENSE, &qkv},
                {"block_0_attention", LS_LAYER_ATTENTION, &attention},
                {gpt ? "block_0_expand" : "block_0_gate", LS_LAYER_DENSE, &inner},
                {gpt ? "block_0_gelu" : "block_0_silu", LS_LAYER_ACTIVATION, &activation},
                {"block_0_norm_1", gpt ? LS_LAYER_LAYER_NORMALIZATION : LS_LAYER_RMS_NORMALIZATION, &norm}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ls_status status = take_layer(said, rows[i].name, rows[i].kind, rows[i].layer);
        if (status) return status;
    }
    const ls_layer *head = find_layer(said, "predictions");
    int64_t parts = attention->heads + 2 * (int64_t)(attention->kv_heads ? attention->kv_heads : attention->heads);
    if (attention->heads < 1 || attention->kv_heads < 0 || parts > qkv->units)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': layer 'block_0_attention' has %d heads, for %d channels", said->path,
                       attention->heads, qkv->units);
    *config = (struct ls_huggingface_config){
        .gpt = gpt,
        .layers = {.classes = table->input_dim,
                   .width = table->units,
                   .layers = said_blocks(said),
                   .heads = attention->heads,
                   .kv_heads = attention->kv_heads || gpt ? attention->kv_heads : attention->heads,
                   .head_width = (int)(qkv->units / parts),
                   .inner = inner->units,
                   .activation = activation->activation,
                   .epsilon = norm->epsilon,
                   .tied = head && head->kind == LS_LAYER_TIED_DENSE,
                   .qkv_bias = !gpt && !qkv->no_bias,
                   .window = attention->window,
                   .rope_theta = attention->rope_theta,
                   .embedding_dropout = rate_of(said, "embedding_dropout"),
                   .dropout = rate_of(said, "block_0_projection_dropout")}};
    return LS_OK;
}

/* The field counts in the logits, and not in a training alone. */
static bool counts(const char *name) {
    static const char *const idle[] = {"kernel_initializer", "stddev",          "frozen", "kernel_l1",
                                       "kernel_l2",          "rate_multiplier", "sparse"};
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        if (!strcmp(idle[i], name)) return false;
    return true;
}

static bool same_name(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

/* The name of what the two have differently; NULL: nothing. */
static const char *compare(const ls_layer *a, const ls_layer *b) {
    if (!same_name(a->name, b->name)) return "name";
    if (a->kind != b->kind) return "kind";
    if (!same_name(a->input, b->input)) return "input";
    if (!same_name(a->tied, b->tied)) return "tied";
    for (int i = 0; i < LS_MAX_OTHER_INPUTS; i++)
        if (!same_name(a->others[i], b->others[i])) return "others";
    for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++) {
        if (field->type == LS_FIELD_LAYERS || !counts(field->name)) continue;
        double x = ls_layer_fields_value(field, a), y = ls_layer_fields_value(field, b);
        if (x < y || x > y) return field->name;
    }
    return NULL;
}

static ls_status compare_all(const struct said *said, const struct ls_layer_list *list) {
    size_t count = said->count < list->count ? said->count : list->count;
    for (size_t i = 0; i < count; i++) {
        const char *field = compare(&said->layers[i], &list->layers[i]);
        if (field)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "'%s': layer '%s' has another %s than layer '%s' of such a model of transformers",
                           said->path, said->layers[i].name, field, list->layers[i].name);
    }
    if (said->count == list->count) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' has %zu layers, and such a model of transformers %zu", said->path,
                   said->count, list->count);
}

static ls_status read_said(const struct said *said, struct ls_huggingface_config *config) {
    struct ls_layer_list list;
    ls_status status = take_numbers(said, config);
    if (!status) status = make_layers(config, &list);
    if (status) return status;
    status = compare_all(said, &list);
    ls_free(list.layers);
    return status;
}

ls_status ls_huggingface_layers_from_about(const char *path, const char *about, struct ls_huggingface_config *config) {
    struct said said = {.path = path};
    ls_status status = about
                           ? ls_layer_json_read(about, &said.layers, &said.count)
                           : ls_fail(LS_INVALID_ARGUMENT, "it holds weights, and does not say the layers of its model");
    if (status) return ls_fail_context(status, "'%s'", path);
    status = read_said(&said, config);
    ls_free(said.layers);
    if (status) return status;
    config->positions = ls_huggingface_json_positions(about);
    return config->positions ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "'%s' does not say its positions", path);
}
