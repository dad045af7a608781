/* One table a kind of model: its fields, which a new one needs alone. */
#include "weights/huggingface_config.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "device/rope.h"
#include "weights/huggingface_json.h"

#define AT(field) offsetof(struct ls_huggingface_config, field)
#define IDLE(field)                                                                                                    \
    { field, LS_JSON_IDLE }
#define MUST(field, value)                                                                                             \
    { field, LS_JSON_MUST, .must = value }
#define COUNT(field, member, ...)                                                                                      \
    { field, LS_JSON_COUNT, AT(member), __VA_ARGS__ }

static const struct ls_json_word activations[] = {{"gelu_new", LS_GELU_TANH},
                                                  {"gelu_pytorch_tanh", LS_GELU_TANH},
                                                  {"gelu", LS_GELU},
                                                  {"silu", LS_SILU},
                                                  {"swish", LS_SILU},
                                                  {"relu", LS_RELU},
                                                  {0}};

/* Dropout of attention's own probabilities is not computed; it counts in training alone. */
#define COMMON                                                                                                         \
    IDLE("model_type"), IDLE("architectures"), IDLE("torch_dtype"), IDLE("dtype"), IDLE("transformers_version"),       \
        IDLE("bos_token_id"), IDLE("eos_token_id"), IDLE("pad_token_id"), IDLE("initializer_range"),                   \
        IDLE("use_cache"), IDLE("task_specific_params"), IDLE("id2label"), IDLE("label2id"), IDLE("problem_type"),     \
        IDLE("return_dict"), IDLE("gradient_checkpointing"), IDLE("chunk_size_feed_forward"),                          \
        COUNT("vocab_size", layers.classes, .needed = true), {                                                         \
        "tie_word_embeddings", LS_JSON_FLAG, AT(layers.tied)                                                           \
    }

static const struct ls_json_field gpt2_fields[] = {
    COMMON,
    COUNT("n_positions", positions),
    COUNT("n_embd", layers.width, .needed = true),
    COUNT("n_layer", layers.layers, .needed = true),
    COUNT("n_head", layers.heads, .needed = true),
    COUNT("n_inner", layers.inner),
    {"activation_function", LS_JSON_WORD, AT(layers.activation), .words = activations},
    {"layer_norm_epsilon", LS_JSON_REAL, AT(layers.epsilon)},
    {"embd_pdrop", LS_JSON_RATE, AT(layers.embedding_dropout)},
    {"resid_pdrop", LS_JSON_RATE, AT(layers.dropout)},
    MUST("scale_attn_weights", "true"),
    MUST("scale_attn_by_inverse_layer_idx", "false"),
    MUST("add_cross_attention", "false"),
    IDLE("attn_pdrop"),
    IDLE("n_ctx"),
    IDLE("reorder_and_upcast_attn"),
    IDLE("summary_activation"),
    IDLE("summary_first_dropout"),
    IDLE("summary_proj_to_labels"),
    IDLE("summary_type"),
    IDLE("summary_use_proj"),
    {0}};

static const struct ls_json_field rope_fields[] = {{"rope_theta", LS_JSON_REAL, AT(layers.rope_theta)},
                                                   MUST("rope_type", "\"default\""),
                                                   MUST("type", "\"default\""),
                                                   MUST("partial_rotary_factor", "1"),
                                                   {0}};

#define LLAMA                                                                                                          \
    COMMON, COUNT("hidden_size", layers.width, .needed = true),                                                        \
        COUNT("intermediate_size", layers.inner, .needed = true),                                                      \
        COUNT("num_hidden_layers", layers.layers, .needed = true),                                                     \
        COUNT("num_attention_heads", layers.heads, .needed = true), COUNT("head_dim", layers.head_width),              \
        COUNT("max_position_embeddings", positions),                                                                   \
        {"hidden_act", LS_JSON_WORD, AT(layers.activation), .words = activations},                                     \
        {"rms_norm_eps", LS_JSON_REAL, AT(layers.epsilon)}, {"rope_theta", LS_JSON_REAL, AT(layers.rope_theta)},       \
        {"rope_parameters", LS_JSON_FIELDS, .fields = rope_fields},                                                    \
        {"rope_scaling", LS_JSON_FIELDS, .fields = rope_fields}, IDLE("attention_dropout"), IDLE("pretraining_tp"),    \
        MUST("mlp_bias", "false")

static const struct ls_json_field llama_fields[] = {
    LLAMA, COUNT("num_key_value_heads", layers.kv_heads), MUST("attention_bias", "false"), {0}};
static const struct ls_json_field mistral_fields[] = {LLAMA,
                                                      COUNT("num_key_value_heads", layers.kv_heads, .needed = true),
                                                      COUNT("sliding_window", layers.window),
                                                      MUST("attention_bias", "false"),
                                                      {0}};
/* A window that is not used says nothing; all layers see all positions then. */
static const struct ls_json_field qwen2_fields[] = {LLAMA,
                                                    COUNT("num_key_value_heads", layers.kv_heads, .needed = true),
                                                    MUST("use_sliding_window", "false"),
                                                    IDLE("sliding_window"),
                                                    IDLE("max_window_layers"),
                                                    IDLE("layer_types"),
                                                    {0}};

/* The configuration is transformers' default of the class. */
static const struct kind {
    const char *name, *class;
    const struct ls_json_field *fields;
    struct ls_huggingface_config config;
} kinds[] = {
    {"gpt2",
     "GPT2LMHeadModel",
     gpt2_fields,
     {true,
      1024,
      {.activation = LS_GELU_TANH, .epsilon = 1e-5F, .tied = true, .embedding_dropout = 0.1F, .dropout = 0.1F}}},
    {"llama", "LlamaForCausalLM", llama_fields, {false, 2048, {.activation = LS_SILU, .epsilon = 1e-6F}}},
    {"mistral",
     "MistralForCausalLM",
     mistral_fields,
     {false, 131072, {.activation = LS_SILU, .epsilon = 1e-6F, .window = 4096}}},
    {"qwen2",
     "Qwen2ForCausalLM",
     qwen2_fields,
     {false, 32768, {.activation = LS_SILU, .epsilon = 1e-6F, .qkv_bias = true}}},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), GPT2 = 0, LLAMA_KIND, MISTRAL, QWEN2, WIDEST = 1 << 30 };

/* ---- from ---- */

static ls_status complete_heads(const char *path, bool gpt, struct ls_transformer *layers) {
    const char *width = gpt ? "n_embd" : "hidden_size", *heads = gpt ? "n_head" : "num_attention_heads";
    if (!layers->head_width && layers->width % layers->heads)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': field '%s' is %d, which '%s' %d does not divide", path, width,
                       layers->width, heads, layers->heads);
    if (!layers->head_width) layers->head_width = layers->width / layers->heads;
    if (!gpt && !layers->kv_heads) layers->kv_heads = layers->heads;
    int64_t parts = layers->heads + 2 * (int64_t)(layers->kv_heads ? layers->kv_heads : layers->heads);
    if (parts * layers->head_width > WIDEST)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': field '%s' is %d, of %d channels each: more than there may be", path,
                       heads, layers->heads, layers->head_width);
    return LS_OK;
}

/* Llama's table of angles is as long as wanted: its outputs are to be an int. */
static ls_status complete(const char *path, struct ls_huggingface_config *config) {
    struct ls_transformer *layers = &config->layers;
    if (layers->layers > LS_TRANSFORMER_BLOCKS)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': field '%s' is %d: at most %d are computed", path,
                       config->gpt ? "n_layer" : "num_hidden_layers", layers->layers, LS_TRANSFORMER_BLOCKS);
    if (!layers->inner) layers->inner = 4 * layers->width;
    if (!config->gpt && config->positions > INT_MAX / layers->classes) config->positions = INT_MAX / layers->classes;
    if (layers->rope_theta == LS_ROPE_THETA) layers->rope_theta = 0;
    if (layers->rope_theta > 0 && layers->rope_theta < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': field 'rope_theta' is %g: it must be 1 or more", path,
                       (double)layers->rope_theta);
    return complete_heads(path, config->gpt, layers);
}

ls_status ls_huggingface_config_read(const char *path, const char *text, struct ls_huggingface_config *config) {
    char type[64];
    ls_status status = ls_huggingface_json_word(path, text, "model_type", type);
    if (status) return status;
    for (size_t k = 0; k < KINDS; k++) {
        if (strcmp(kinds[k].name, type) != 0) continue;
        *config = kinds[k].config;
        status = ls_huggingface_json_read(path, text, kinds[k].fields, config);
        return status ? status : complete(path, config);
    }
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': field 'model_type' is \"%s\": gpt2, llama, mistral and qwen2 are read",
                   path, type);
}

/* ---- to ---- */

static const char *word_of(int activation) {
    const struct ls_json_word *row = activations;
    while (row->word && row->value != activation) row++;
    return row->word;
}

/* The number of fewest digits that is this float. */
static double shortest(float value) {
    for (int digits = 1; digits < 9; digits++)
        if ((float)ls_json_rounded((double)value, digits) == value) return ls_json_rounded((double)value, digits);
    return (double)value;
}

static const struct kind *kind_of(const struct ls_huggingface_config *config) {
    return &kinds[config->gpt ? GPT2 : config->layers.qkv_bias ? QWEN2 : config->layers.window ? MISTRAL : LLAMA_KIND];
}

static void put_gpt2(FILE *out, const struct ls_huggingface_config *config) {
    const struct ls_transformer *l = &config->layers;
    ls_json_print(out,
                  "  'n_positions': %d,\n  'n_embd': %d,\n  'n_layer': %d,\n  'n_head': %d,\n  'n_inner': %d,\n"
                  "  'activation_function': %s,\n  'layer_norm_epsilon': %.9g,\n  'embd_pdrop': %.9g,\n"
                  "  'resid_pdrop': %.9g,\n  'attn_pdrop': 0.0,\n",
                  config->positions, l->width, l->layers, l->heads, l->inner, word_of((int)l->activation),
                  shortest(l->epsilon), shortest(l->embedding_dropout), shortest(l->dropout));
}

static void put_llama(FILE *out, const struct ls_huggingface_config *config) {
    const struct ls_transformer *l = &config->layers;
    ls_json_print(out,
                  "  'max_position_embeddings': %d,\n  'hidden_size': %d,\n  'intermediate_size': %d,\n"
                  "  'num_hidden_layers': %d,\n  'num_attention_heads': %d,\n  'num_key_value_heads': %d,\n"
                  "  'head_dim': %d,\n  'hidden_act': %s,\n  'rms_norm_eps': %.9g,\n  'rope_theta': %.9g,\n"
                  "  'rope_scaling': null,\n  'mlp_bias': false,\n",
                  config->positions, l->width, l->inner, l->layers, l->heads, l->kv_heads, l->head_width,
                  word_of((int)l->activation), shortest(l->epsilon),
                  l->rope_theta > 0 ? shortest(l->rope_theta) : (double)LS_ROPE_THETA);
    if (l->window) ls_json_print(out, "  'sliding_window': %d,\n", l->window);
    if (l->qkv_bias) ls_json_print(out, "  'use_sliding_window': false,\n");
}

static void put_config(FILE *out, const struct ls_huggingface_config *config) {
    const struct kind *kind = kind_of(config);
    ls_json_print(out, "{\n  'architectures': [%s],\n  'model_type': %s,\n  'vocab_size': %d,\n", kind->class,
                  kind->name, config->layers.classes);
    (config->gpt ? put_gpt2 : put_llama)(out, config);
    ls_json_print(out,
                  "  'tie_word_embeddings': %i,\n  'bos_token_id': null,\n  'eos_token_id': null,\n"
                  "  'torch_dtype': 'float32'\n}\n",
                  config->layers.tied);
}

ls_status ls_huggingface_config_write(const char *path, const struct ls_huggingface_config *config, char **text) {
    if (!word_of((int)config->layers.activation))
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': its activation has no name in a config.json", path);
    if (config->layers.qkv_bias && config->layers.window)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': no config.json has a window %d in all layers beside biases of qkv",
                       path, config->layers.window);
    return LS_TEXT(out, put_config(out, config), "a config.json", text);
}
