/* Transformers that predict the next token, for inputs of T ids: gpt, as nanoGPT's model and Hugging Face's GPT2LMHead,
 * and llama, as Hugging Face's LlamaForCausalLM. Norms come before attention and before the two dense layers of a block
 * (Radford et al. 2019; Touvron et al. 2023). Logits are (T, classes). */
#include "model/transformers.h"

#include <math.h>

#define NORM_EPSILON 1e-5F
#define STDDEV       0.02F /* of GPT-2's initial values */
#define NORMAL       .kernel_initializer = LS_RANDOM_NORMAL, .stddev = STDDEV
#define PARTS        256 /* of llama's inner width */

/* A layer whose output goes into the residual stream. GPT-2 divides the deviation by the root of their number. */
static ls_layer projection(const struct ls_transformer *t, bool no_bias) {
    return (ls_layer)ls_dense(t->width, .per_position = true, .no_bias = no_bias,
                              .kernel_initializer = LS_RANDOM_NORMAL, .stddev = STDDEV / sqrtf(2 * (float)t->layers));
}

static void add_dropout(struct ls_layer_list *list, const struct ls_transformer *t, const char *name, int block) {
    if (t->dropout > 0)
        (void)ls_layer_list_add(list, (ls_layer)ls_dropout(t->dropout), "block_%d_%s_dropout", block, name);
}

/* Queries of all heads, then keys and values. */
static ls_layer packed(const struct ls_transformer *t, bool no_bias) {
    int kv_heads = t->kv_heads ? t->kv_heads : t->heads;
    return (ls_layer)ls_dense(t->head_width * (t->heads + 2 * kv_heads), .per_position = true, .no_bias = no_bias,
                              NORMAL);
}

/* The logits, of the embedding's rows where it is tied. */
static void add_predictions(struct ls_layer_list *list, const struct ls_transformer *t) {
    if (t->tied)
        (void)ls_layer_list_add(list, ls_tied_dense("token_embedding"), "predictions");
    else
        (void)ls_layer_list_add(list, ls_dense(t->classes, .per_position = true, .no_bias = true, NORMAL),
                                "predictions");
}

static void gpt_block(struct ls_layer_list *list, const struct ls_transformer *t, int block) {
    const char *input = ls_layer_list_last(list);
    (void)ls_layer_list_add(list, ls_layer_normalization(.epsilon = t->epsilon), "block_%d_norm_1", block);
    (void)ls_layer_list_add(list, packed(t, false), "block_%d_qkv", block);
    (void)ls_layer_list_add(list, ls_attention(t->heads), "block_%d_attention", block);
    (void)ls_layer_list_add(list, projection(t, false), "block_%d_projection", block);
    add_dropout(list, t, "projection", block);
    input = ls_layer_list_add(list, ls_add(input), "block_%d_add_1", block);
    (void)ls_layer_list_add(list, ls_layer_normalization(.epsilon = t->epsilon), "block_%d_norm_2", block);
    (void)ls_layer_list_add(list, ls_dense(t->inner, .per_position = true, NORMAL), "block_%d_expand", block);
    (void)ls_layer_list_add(list, ls_activation(t->activation), "block_%d_gelu", block);
    (void)ls_layer_list_add(list, projection(t, false), "block_%d_contract", block);
    add_dropout(list, t, "contract", block);
    (void)ls_layer_list_add(list, ls_add(input), "block_%d_add_2", block);
}

void ls_transformers_add_gpt(struct ls_layer_list *list, const struct ls_transformer *t) {
    (void)ls_layer_list_add(list, ls_embedding(t->classes, t->width, NORMAL), "token_embedding");
    (void)ls_layer_list_add(list, ls_position_embedding(NORMAL), "position_embedding");
    if (t->embedding_dropout > 0) (void)ls_layer_list_add(list, ls_dropout(t->embedding_dropout), "embedding_dropout");
    for (int block = 0; block < t->layers; block++) gpt_block(list, t, block);
    (void)ls_layer_list_add(list, ls_layer_normalization(.epsilon = t->epsilon), "final_norm");
    add_predictions(list, t);
}

/* SwiGLU (Shazeer 2020): silu(x gate) * (x up), then down. */
static void llama_mlp(struct ls_layer_list *list, const struct ls_transformer *t, int block) {
    const char *input = ls_layer_list_last(list), *gate;
    (void)ls_layer_list_add(list, ls_dense(t->inner, .per_position = true, .no_bias = true, NORMAL), "block_%d_gate",
                            block);
    gate = ls_layer_list_add(list, ls_activation(t->activation), "block_%d_silu", block);
    (void)ls_layer_list_add(list, ls_dense(t->inner, .per_position = true, .no_bias = true, NORMAL, .input = input),
                            "block_%d_up", block);
    (void)ls_layer_list_add(list, ls_multiply(gate), "block_%d_multiply", block);
    (void)ls_layer_list_add(list, projection(t, true), "block_%d_down", block);
}

static void llama_block(struct ls_layer_list *list, const struct ls_transformer *t, int block) {
    const char *input = ls_layer_list_last(list);
    (void)ls_layer_list_add(list, ls_rms_normalization(.epsilon = t->epsilon), "block_%d_norm_1", block);
    (void)ls_layer_list_add(list, packed(t, !t->qkv_bias), "block_%d_qkv", block);
    (void)ls_layer_list_add(
        list,
        ls_attention(t->heads, .kv_heads = t->kv_heads, .window = t->window, .rope = true, .rope_theta = t->rope_theta),
        "block_%d_attention", block);
    (void)ls_layer_list_add(list, projection(t, true), "block_%d_projection", block);
    add_dropout(list, t, "projection", block);
    input = ls_layer_list_add(list, ls_add(input), "block_%d_add_1", block);
    (void)ls_layer_list_add(list, ls_rms_normalization(.epsilon = t->epsilon), "block_%d_norm_2", block);
    llama_mlp(list, t, block);
    add_dropout(list, t, "down", block);
    (void)ls_layer_list_add(list, ls_add(input), "block_%d_add_2", block);
}

void ls_transformers_add_llama(struct ls_layer_list *list, const struct ls_transformer *t) {
    (void)ls_layer_list_add(list, ls_embedding(t->classes, t->width, NORMAL), "token_embedding");
    for (int block = 0; block < t->layers; block++) llama_block(list, t, block);
    (void)ls_layer_list_add(list, ls_rms_normalization(.epsilon = t->epsilon), "final_norm");
    add_predictions(list, t);
}

/* ---- the applications ---- */

static struct ls_transformer sizes_of(const ls_application_options *options) {
    return (struct ls_transformer){.classes = options->classes,
                                   .layers = options->layers,
                                   .heads = options->heads,
                                   .width = options->width,
                                   .head_width = options->width / options->heads,
                                   .epsilon = NORM_EPSILON,
                                   .embedding_dropout = options->dropout,
                                   .dropout = options->dropout};
}

static void build_gpt(struct ls_layer_list *list, const ls_application_options *options, ls_activation gelu) {
    struct ls_transformer t = sizes_of(options);
    t.inner = 4 * t.width;
    t.activation = gelu;
    t.tied = true;
    ls_transformers_add_gpt(list, &t);
}

/* nanoGPT's model has the error function, OpenAI's the approximation by tanh. */
void ls_transformers_gpt(struct ls_layer_list *list, const ls_application_options *options) {
    build_gpt(list, options, LS_GELU);
}

void ls_transformers_gpt2(struct ls_layer_list *list, const ls_application_options *options) {
    build_gpt(list, options, LS_GELU_TANH);
}

/* Two thirds of four times the width, rounded up to whole parts, as Llama's. */
static int inner_width(const ls_application_options *options) {
    int wanted = (int)((int64_t)options->width * 8 / 3);
    return (wanted + PARTS - 1) / PARTS * PARTS;
}

void ls_transformers_llama(struct ls_layer_list *list, const ls_application_options *options) {
    struct ls_transformer t = sizes_of(options);
    t.kv_heads = options->kv_heads ? options->kv_heads : options->heads;
    t.inner = inner_width(options);
    t.activation = LS_SILU;
    ls_transformers_add_llama(list, &t);
}
