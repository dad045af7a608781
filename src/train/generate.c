/* Text from a model that predicts the next token: the last tokens that fit into its context go in, the logits behind
 * the last of them choose one more. A whole window has zeros behind it, which a causal model does not look at. While
 * the text fits into the context, and the model's layers go on position by position, a cache has what they keep of the
 * tokens before; behind that every token has another position than before. Mirrors keras_hub.models.CausalLM.generate.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "train/generate_cache.h"
#include "train/model.h"
#include "train/sampling.h"

enum { COUNT = 100 };

struct text {
    ls_model *model;
    ls_generate_options options; /* complete */
    int32_t *tokens;             /* owns [room]: the prompt, and what is made */
    int64_t count;
    int32_t *window;                 /* owns [context] */
    struct ls_generate_cache *cache; /* owns: NULL before its first token */
    struct ls_sampler sampler;       /* made for the first token */
};

static ls_status check_generation(const ls_generate_options *options) {
    if (!options->prompt || !options->prompt_count)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: the prompt has no tokens; give one at least");
    if (options->count < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: count %lld must be 1 or more", (long long)options->count);
    if (!(options->temperature > 0) || isinf(options->temperature))
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: temperature %g must be above 0 (or set greedy)",
                       (double)options->temperature);
    if (options->top_k < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: top_k %d must not be negative", options->top_k);
    if (!(options->top_p > 0 && options->top_p <= 1))
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: top_p %g must be above 0 and at most 1",
                       (double)options->top_p);
    return LS_OK;
}

/* The model's own context counts where it is built. */
static ls_status find_context(const ls_model *model, ls_generate_options *options) {
    const ls_shape *input = &model->built.input;
    bool built = model->built.network != NULL;
    if (built && input->rank != 1)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: the model's input has %d axes, and must be tokens",
                       input->rank);
    if (built && options->context && options->context != input->dims[0])
        return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: context %lld, and the model takes %lld tokens",
                       (long long)options->context, (long long)input->dims[0]);
    if (built) options->context = input->dims[0];
    if (options->context > 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: context %lld must be 1 or more where the model is not built yet",
                   (long long)options->context);
}

static ls_status read_options(const ls_model *model, const ls_generate_options *given, ls_generate_options *options) {
    ls_status status = ls_options_copy("ls_generate_options", options, sizeof(*options), given);
    if (status) return status;
    if (!options->count) options->count = COUNT;
    if (options->temperature == 0) options->temperature = 1;
    if (options->top_p == 0) options->top_p = 1;
    status = check_generation(options);
    return status ? status : find_context(model, options);
}

/* The last tokens that fit; returns how many. */
static int64_t fill_window(struct text *text) {
    int64_t context = text->options.context, used = text->count < context ? text->count : context;
    memset(text->window, 0, (size_t)context * sizeof(*text->window));
    memcpy(text->window, text->tokens + text->count - used, (size_t)used * sizeof(*text->window));
    return used;
}

/* The logits of each place of the window: (context, *vocabulary). */
static ls_status run_model(struct text *text, float **logits, int *vocabulary) {
    ls_shape shape;
    const ls_arrays window = {
        .size = sizeof(window), .ids = text->window, .shape = {1, {text->options.context}}, .count = 1};
    ls_status status = ls_model_predict_on_batch(text->model, &window, logits, &shape);
    if (status) return status;
    const ls_shape *output = ls_network_output_shape(text->model->built.network);
    *vocabulary = (int)output->dims[output->rank - 1];
    if (output->rank == 2 && output->dims[0] == text->options.context) return LS_OK;
    ls_memory_free(ls_steal(*logits));
    return ls_fail(LS_INVALID_ARGUMENT, "ls_generate: the model's outputs are not (%lld, vocabulary)",
                   (long long)text->options.context);
}

static ls_status choose_token(struct text *text, const float *logits, int vocabulary, int32_t *token) {
    struct ls_sampler *sampler = &text->sampler;
    ls_status status = sampler->candidates ? LS_OK : ls_sampling_begin(sampler, &text->options, vocabulary);
    return status ? status : ls_sampling_choose(sampler, logits, text->count, token);
}

static ls_status make_from_window(struct text *text, int32_t *token) {
    float *logits = NULL;
    int vocabulary = 0;
    int64_t used = fill_window(text);
    ls_status status = run_model(text, &logits, &vocabulary);
    if (!status) status = choose_token(text, logits + (used - 1) * vocabulary, vocabulary, token);
    ls_memory_free(logits);
    return status;
}

static ls_status make_from_cache(struct text *text, int32_t *token) {
    int vocabulary = (int)ls_network_output_shape(text->model->built.network)->dims[1];
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(float, logits, (size_t)vocabulary, "logits");
    ls_status status = text->cache ? LS_OK : ls_generate_cache_new(text->model, &text->cache);
    if (!status) status = ls_generate_cache_logits(text->cache, text->tokens, text->count, logits);
    return status ? status : choose_token(text, logits, vocabulary, token);
}

static ls_status make_token(struct text *text, int32_t *token) {
    bool caches = !text->options.no_cache && text->count <= text->options.context;
    return (caches && ls_generate_cache_fits(text->model) ? make_from_cache : make_from_window)(text, token);
}

static ls_status make_tokens(struct text *text) {
    ls_status status = LS_OK;
    for (int64_t i = 0; !status && i < text->options.count; i++) {
        int32_t token;
        status = make_token(text, &token);
        if (!status && text->options.stop_token && token == *text->options.stop_token) return LS_OK;
        if (!status) text->tokens[text->count++] = token;
        if (!status && text->options.on_token) status = text->options.on_token(text->options.user, token);
    }
    return status;
}

static ls_status reserve_text(struct text *text) {
    size_t count = text->options.prompt_count, room = count + (size_t)text->options.count;
    text->tokens = ls_alloc_array(room, sizeof(*text->tokens));
    text->window = ls_alloc_array((size_t)text->options.context, sizeof(*text->window));
    if (!text->tokens || !text->window) return ls_fail_memory("tokens", room * sizeof(*text->tokens));
    memcpy(text->tokens, text->options.prompt, count * sizeof(*text->tokens));
    text->count = (int64_t)count;
    return LS_OK;
}

ls_status ls_generate(ls_model *model, const ls_generate_options *options, int32_t **tokens, size_t *count) {
    LS_NEED(model, tokens, count);
    struct text text = {.model = model};
    ls_status status = read_options(model, options, &text.options);
    if (!status) status = reserve_text(&text);
    if (!status) status = make_tokens(&text);
    if (!status) {
        *count = (size_t)text.count - text.options.prompt_count;
        memmove(text.tokens, text.tokens + text.options.prompt_count, *count * sizeof(*text.tokens));
        *tokens = ls_steal(text.tokens);
    }
    ls_sampling_end(&text.sampler);
    ls_generate_cache_free(text.cache);
    ls_free(text.tokens);
    ls_free(text.window);
    return status;
}
