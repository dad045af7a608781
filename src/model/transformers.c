/* Transformers that predict the next token, for inputs of T ids: gpt, as nanoGPT's model and Hugging Face's GPT2LMHead,
 * and llama, as Hugging Face's LlamaForCausalLM. Norms come before attention and before the two dense layers of a block
 * (Radford et al. 2019; Touvron et al. 2023). Logits are (T, classes). */
#include <math.h>

#include "model/layer_list.h"

#define NORM_EPSILON 1e-5F
#define STDDEV       0.02F /* of GPT-2's initial values */
#define NORMAL       .kernel_initializer = LS_RANDOM_NORMAL, .stddev = STDDEV
#define GPT_NORM     ls_layer_normalization(.epsilon = NORM_EPSILON)
#define LLAMA_NORM   ls_rms_normalization(.epsilon = NORM_EPSILON)
#define PARTS        256 /* of llama's inner width */

/* A layer whose output goes into the residual stream. GPT-2 divides the deviation by the root of their number. */
static ls_layer projection(const ls_application_options *options, bool no_bias) {
    return (ls_layer)ls_dense(options->width, .per_position = true, .no_bias = no_bias,
                              .kernel_initializer = LS_RANDOM_NORMAL,
                              .stddev = STDDEV / sqrtf(2 * (float)options->layers));
}

static void add_dropout(struct ls_layer_list *list, const ls_application_options *options, const char *name,
                        int block) {
    if (options->dropout > 0)
        (void)ls_layer_list_add(list, (ls_layer)ls_dropout(options->dropout), "block_%d_%s_dropout", block, name);
}

static void gpt_block(struct ls_layer_list *list, const ls_application_options *options, ls_activation gelu,
                      int block) {
    const char *input = ls_layer_list_last(list);
    (void)ls_layer_list_add(list, GPT_NORM, "block_%d_norm_1", block);
    (void)ls_layer_list_add(list, ls_dense(3 * options->width, .per_position = true, NORMAL), "block_%d_qkv", block);
    (void)ls_layer_list_add(list, ls_attention(options->heads), "block_%d_attention", block);
    (void)ls_layer_list_add(list, projection(options, false), "block_%d_projection", block);
    add_dropout(list, options, "projection", block);
    input = ls_layer_list_add(list, ls_add(input), "block_%d_add_1", block);
    (void)ls_layer_list_add(list, GPT_NORM, "block_%d_norm_2", block);
    (void)ls_layer_list_add(list, ls_dense(4 * options->width, .per_position = true, NORMAL), "block_%d_expand", block);
    (void)ls_layer_list_add(list, ls_activation(gelu), "block_%d_gelu", block);
    (void)ls_layer_list_add(list, projection(options, false), "block_%d_contract", block);
    add_dropout(list, options, "contract", block);
    (void)ls_layer_list_add(list, ls_add(input), "block_%d_add_2", block);
}

static void build_gpt(struct ls_layer_list *list, const ls_application_options *options, ls_activation gelu) {
    (void)ls_layer_list_add(list, ls_embedding(options->classes, options->width, NORMAL), "token_embedding");
    (void)ls_layer_list_add(list, ls_position_embedding(NORMAL), "position_embedding");
    if (options->dropout > 0) (void)ls_layer_list_add(list, ls_dropout(options->dropout), "embedding_dropout");
    for (int block = 0; block < options->layers; block++) gpt_block(list, options, gelu, block);
    (void)ls_layer_list_add(list, GPT_NORM, "final_norm");
    (void)ls_layer_list_add(list, ls_tied_dense("token_embedding"), "predictions");
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

/* SwiGLU (Shazeer 2020): silu(x gate) * (x up), then down. */
static void llama_mlp(struct ls_layer_list *list, const ls_application_options *options, int block) {
    const char *input = ls_layer_list_last(list), *gate;
    int inner = inner_width(options);
    (void)ls_layer_list_add(list, ls_dense(inner, .per_position = true, .no_bias = true, NORMAL), "block_%d_gate",
                            block);
    gate = ls_layer_list_add(list, ls_activation(LS_SILU), "block_%d_silu", block);
    (void)ls_layer_list_add(list, ls_dense(inner, .per_position = true, .no_bias = true, NORMAL, .input = input),
                            "block_%d_up", block);
    (void)ls_layer_list_add(list, ls_multiply(gate), "block_%d_multiply", block);
    (void)ls_layer_list_add(list, projection(options, true), "block_%d_down", block);
}

static void llama_block(struct ls_layer_list *list, const ls_application_options *options, int block) {
    const char *input = ls_layer_list_last(list);
    int kv_heads = options->kv_heads ? options->kv_heads : options->heads;
    int packed = options->width / options->heads * (options->heads + 2 * kv_heads);
    (void)ls_layer_list_add(list, LLAMA_NORM, "block_%d_norm_1", block);
    (void)ls_layer_list_add(list, ls_dense(packed, .per_position = true, .no_bias = true, NORMAL), "block_%d_qkv",
                            block);
    (void)ls_layer_list_add(list, ls_attention(options->heads, .kv_heads = kv_heads, .rope = true),
                            "block_%d_attention", block);
    (void)ls_layer_list_add(list, projection(options, true), "block_%d_projection", block);
    add_dropout(list, options, "projection", block);
    input = ls_layer_list_add(list, ls_add(input), "block_%d_add_1", block);
    (void)ls_layer_list_add(list, LLAMA_NORM, "block_%d_norm_2", block);
    llama_mlp(list, options, block);
    add_dropout(list, options, "down", block);
    (void)ls_layer_list_add(list, ls_add(input), "block_%d_add_2", block);
}

void ls_transformers_llama(struct ls_layer_list *list, const ls_application_options *options) {
    (void)ls_layer_list_add(list, ls_embedding(options->classes, options->width, NORMAL), "token_embedding");
    for (int block = 0; block < options->layers; block++) llama_block(list, options, block);
    (void)ls_layer_list_add(list, LLAMA_NORM, "final_norm");
    (void)ls_layer_list_add(list, ls_dense(options->classes, .per_position = true, .no_bias = true, NORMAL),
                            "predictions");
}
