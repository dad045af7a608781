/* Every field of ls_generate's options and of a transformer's sizes: it changes the text or the layers, or is refused.
 */
#include <stdio.h>
#include <string.h>

#include "property/fields.h"

enum { TOKENS = 8, CONTEXT = 4, COUNT = 12 };

static const int32_t prompt[] = {1, 2, 3}, second[] = {1, 2, 5};

struct text {
    ls_status status;
    size_t count;
    int32_t tokens[2 * COUNT];
};

/* A table of drawn rows says what follows each token. */
static struct text text_of(const ls_generate_options *options) {
    struct text text = {0};
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    int32_t *tokens = NULL;
    float *outputs = NULL;
    ls_shape shape;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1", .tf_config = "{}"), &strategy));
    assert_ok(ls_model_new(
        strategy, LS_LAYERS(ls_embedding(TOKENS, TOKENS, .kernel_initializer = LS_RANDOM_NORMAL, .stddev = 1.5F)),
        &model));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    const int32_t zeros[CONTEXT] = {0};
    assert_ok(ls_model_predict_on_batch(model, LS_ARRAYS(.ids = zeros, .shape = {1, {CONTEXT}}, .count = 1), &outputs,
                                        &shape));
    text.status = ls_generate(model, options, &tokens, &text.count);
    if (text.status) text.count = 0;
    ck_assert_uint_le(text.count, 2 * COUNT);
    if (text.count) memcpy(text.tokens, tokens, text.count * sizeof(*tokens));
    ls_memory_free(outputs);
    ls_memory_free(tokens);
    ls_model_free(model);
    assert_ok(ls_strategy_close(strategy, LS_OK));
    return text;
}

#define BASE .size = sizeof(ls_generate_options), .prompt = prompt, .prompt_count = 3, .count = COUNT

/* The text is another one, or there is none. */
static bool changes(const ls_generate_options *options) {
    const struct text base = text_of(&(const ls_generate_options){BASE}), other = text_of(options);
    ck_assert(!base.status && base.count == COUNT);
    return memcmp(&base, &other, sizeof(base)) != 0;
}

FIELD(ls_generate_options, prompt) {
    return changes(&(const ls_generate_options){
        .size = sizeof(ls_generate_options), .prompt = second, .prompt_count = 3, .count = COUNT});
}

FIELD(ls_generate_options, prompt_count) {
    return changes(&(const ls_generate_options){
        .size = sizeof(ls_generate_options), .prompt = prompt, .prompt_count = 1, .count = COUNT});
}

FIELD(ls_generate_options, count) {
    return changes(&(const ls_generate_options){
        .size = sizeof(ls_generate_options), .prompt = prompt, .prompt_count = 3, .count = COUNT + 1});
}

FIELD(ls_generate_options, greedy) {
    return changes(&(const ls_generate_options){BASE, .greedy = true});
}

FIELD(ls_generate_options, temperature) {
    return changes(&(const ls_generate_options){BASE, .temperature = 0.01F});
}

FIELD(ls_generate_options, top_k) {
    return changes(&(const ls_generate_options){BASE, .top_k = 1});
}

FIELD(ls_generate_options, top_p) {
    return changes(&(const ls_generate_options){BASE, .top_p = 0.01F});
}

FIELD(ls_generate_options, seed) {
    return changes(&(const ls_generate_options){BASE, .seed = 7});
}

FIELD(ls_generate_options, context) {
    return changes(&(const ls_generate_options){BASE, .context = CONTEXT + 1});
}

FIELD(ls_generate_options, stop_token) {
    const struct text base = text_of(&(const ls_generate_options){BASE});
    return changes(&(const ls_generate_options){BASE, .stop_token = &base.tokens[COUNT / 2]});
}

static ls_status count_token(void *user, int32_t token) {
    ck_assert(token >= 0 && token < TOKENS);
    ++*(int *)user;
    return LS_OK;
}

static bool hears_all(void) {
    int heard = 0;
    const struct text text = text_of(&(const ls_generate_options){BASE, .on_token = count_token, .user = &heard});
    return !text.status && heard == COUNT;
}

FIELD(ls_generate_options, on_token) {
    return hears_all();
}

FIELD(ls_generate_options, user) {
    return hears_all();
}

/* ---- a transformer's sizes ---- */

/* The layers, as a summary for inputs of 6 ids tells them. */
static void summarise(const ls_application_options *options, char *text, size_t size) {
    ls_strategy *strategy = NULL;
    ls_layer *layers = NULL;
    ls_model *model = NULL;
    char *summary = NULL;
    size_t count = 0;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1", .tf_config = "{}"), &strategy));
    assert_ok(ls_application("llama", options, &layers, &count));
    assert_ok(ls_model_new(strategy, layers, count, &model));
    assert_ok(ls_model_summary(model, (ls_shape){1, {6}}, &summary));
    (void)snprintf(text, size, "%d %s", layers[3].heads, summary);
    ls_memory_free(summary);
    ls_memory_free(layers);
    ls_model_free(model);
    assert_ok(ls_strategy_close(strategy, LS_OK));
}

static bool resizes(const ls_application_options *options) {
    static char base[1 << 15], other[1 << 15];
    summarise(LS_APPLICATION(.classes = 9), base, sizeof(base));
    summarise(options, other, sizeof(other));
    return strcmp(base, other) != 0;
}

FIELD(ls_application_options, layers) {
    return resizes(LS_APPLICATION(.classes = 9, .layers = 2));
}

FIELD(ls_application_options, heads) {
    return resizes(LS_APPLICATION(.classes = 9, .heads = 2));
}

FIELD(ls_application_options, width) {
    return resizes(LS_APPLICATION(.classes = 9, .width = 64));
}

FIELD(ls_application_options, kv_heads) {
    return resizes(LS_APPLICATION(.classes = 9, .kv_heads = 2));
}

FIELD(ls_application_options, dropout) {
    return resizes(LS_APPLICATION(.classes = 9, .dropout = 0.5F));
}

TESTS("fields_generate")
