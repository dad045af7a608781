/* The cache of a text: the same logits and the same text as whole windows give, on LOCKSTEP_TEST_DEVICE where that is
 * set; and when there is none. */
#include "train/generate_cache.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "harness.h"

enum { TOKENS = 13, CONTEXT = 20, COUNT = 28 };

static const struct {
    const char *name;
    ls_application_options options;
} models[] = {
    {"gpt", {.layers = 2, .width = 24, .heads = 2}},
    {"gpt", {.layers = 1, .width = 8, .heads = 4, .dropout = 0.3F}},
    {"gpt2", {.layers = 2, .width = 16, .heads = 1}},
    {"llama", {.layers = 2, .width = 32, .heads = 4, .kv_heads = 2}},
    {"llama", {.layers = 3, .width = 16, .heads = 4, .kv_heads = 1}},
    {"llama", {.layers = 1, .width = 24, .heads = 2}},
};

struct subject {
    ls_strategy *strategy;
    ls_model *model;
};

/* NULL: the CPU. An emulated GPU is slow: it has a share of what the CPU has. */
static const char *far_device(void) {
    return getenv("LOCKSTEP_TEST_DEVICE");
}

/* ls_generate builds it. */
static struct subject open_subject(const ls_layer *layers, size_t count, ls_precision precision) {
    struct subject s = {NULL, NULL};
    const char *device = far_device();
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.tf_config = "{}", .devices = device ? device : "1"), &s.strategy));
    assert_ok(ls_model_new(s.strategy, layers, count, &s.model));
    assert_ok(ls_model_compile_with(s.model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                    LS_COMPILE(.precision = precision)));
    return s;
}

/* Larger than the initial ones, so that logits are far from each other. */
static void draw_variables(const struct subject *s, uint64_t seed) {
    const struct ls_model_replica *replica = &s->model->built.replicas[0];
    const struct ls_network *network = s->model->built.network;
    size_t size = ls_network_blob_count(network) * sizeof(float);
    float *blob = ls_alloc(size);
    ck_assert_ptr_nonnull(blob);
    for (int v = 0; v < ls_network_variable_count(network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(network, v);
        float scale = variable->shape.rank > 1 ? 2 / sqrtf((float)variable->shape.dims[0]) : 1;
        for (size_t i = 0; i < variable->count; i++)
            blob[variable->offset + i] = scale * (float)ls_random_normal(seed, (uint64_t)v, i);
    }
    assert_ok(replica->device->ops->copy_in(replica->device, replica->parameters, blob, size));
    ls_free(blob);
}

static float *logits_of_windows(const struct subject *s, const int32_t *tokens) {
    float *logits = NULL;
    ls_shape shape;
    assert_ok(ls_model_predict_on_batch(s->model, LS_ARRAYS(.ids = tokens, .shape = LS_SHAPE(CONTEXT), .count = 1),
                                        &logits, &shape));
    return logits;
}

static struct subject open_application(int number, ls_precision precision) {
    ls_layer *layers = NULL;
    size_t count = 0;
    const int32_t zeros[CONTEXT] = {0};
    ls_application_options options = models[number].options;
    options.size = sizeof(options), options.classes = TOKENS;
    assert_ok(ls_application(models[number].name, &options, &layers, &count));
    struct subject s = open_subject(layers, count, precision);
    ls_memory_free(layers);
    ls_memory_free(logits_of_windows(&s, zeros));
    draw_variables(&s, (uint64_t)number + 20);
    return s;
}

static void close_subject(struct subject *s) {
    ls_model_free(s->model);
    assert_ok(ls_strategy_close(s->strategy, LS_OK));
}

static void draw_tokens(uint64_t stream, int32_t *tokens, int count) {
    for (int i = 0; i < count; i++) tokens[i] = (int32_t)(ls_random_bits(9, stream, (uint64_t)i) % TOKENS);
}

/* ---- logits ---- */

static double largest_of(const float *values, int count) {
    double largest = 0;
    for (int i = 0; i < count; i++) largest = fmax(largest, fabs((double)values[i]));
    return largest;
}

/* A prompt of so many, then one token at a time. */
static void check_logits(const struct subject *s, int prompt, double tolerance) {
    struct ls_generate_cache *cache = NULL;
    int32_t tokens[CONTEXT];
    float logits[TOKENS];
    draw_tokens((uint64_t)prompt, tokens, CONTEXT);
    float *wanted = logits_of_windows(s, tokens);
    double limit = tolerance * largest_of(wanted, CONTEXT * TOKENS);
    ck_assert(ls_generate_cache_fits(s->model));
    assert_ok(ls_generate_cache_new(s->model, &cache));
    for (int count = prompt; count <= CONTEXT; count++) {
        assert_ok(ls_generate_cache_logits(cache, tokens, count, logits));
        for (int i = 0; i < TOKENS; i++) {
            double must = (double)wanted[(count - 1) * TOKENS + i];
            ck_assert_msg(fabs((double)logits[i] - must) <= limit,
                          "behind %d tokens logit %d is %.9g, but must be %.9g", count, i, (double)logits[i], must);
        }
    }
    ls_generate_cache_free(cache);
    ls_memory_free(wanted);
}

TEST_EACH(logits_are_those_of_windows, (int)COUNT_OF(models)) {
    static const int prompts[] = {7, 1, 2, CONTEXT - 1, CONTEXT};
    struct subject s = open_application(_i, LS_PRECISION_FLOAT32);
    for (size_t i = 0; i < (far_device() ? 1 : COUNT_OF(prompts)); i++) check_logits(&s, prompts[i], 1e-5);
    close_subject(&s);
}

/* A number near the middle between two of 8 bits goes the one way or the other. */
TEST_EACH(logits_of_16_bits_are_near_those_of_windows, (int)COUNT_OF(models)) {
    struct subject s = open_application(_i, LS_MIXED_BFLOAT16);
    check_logits(&s, 5, 0.05);
    close_subject(&s);
}

/* ---- texts ---- */

struct text {
    int32_t *tokens;
    size_t count;
    uint64_t windows; /* forward passes of whole windows */
};

static struct text text_of(const struct subject *s, ls_generate_options options, bool no_cache) {
    struct text text = {NULL, 0, 0};
    bool built = s->model->built.replicas != NULL;
    uint64_t before = built ? s->model->built.replicas[0].clock : 0;
    options.size = sizeof(options), options.no_cache = no_cache;
    if (!options.count) options.count = COUNT;
    assert_ok(ls_generate(s->model, &options, &text.tokens, &text.count));
    text.windows = s->model->built.replicas[0].clock - before;
    return text;
}

/* Of tokens that fit into the context only those with cache false run a window. */
static void check_text(const struct subject *s, const ls_generate_options *options) {
    struct text without = text_of(s, *options, true), with = text_of(s, *options, false);
    ck_assert_uint_eq(with.count, without.count);
    ck_assert_mem_eq(with.tokens, without.tokens, with.count * sizeof(int32_t));
    uint64_t made = without.windows, fits = options->prompt_count <= CONTEXT ? CONTEXT + 1 - options->prompt_count : 0;
    ck_assert_uint_ge(made, with.count);
    ck_assert_uint_eq(with.windows, made > fits ? made - fits : 0);
    ls_memory_free(with.tokens), ls_memory_free(without.tokens);
}

static const ls_generate_options choices[] = {
    {.greedy = true},
    {.greedy = true, .count = 3},
    {.temperature = 1, .seed = 1},
    {.temperature = 0.7F, .top_k = 5, .seed = 2},
    {.temperature = 1.5F, .top_p = 0.9F, .seed = 3},
};

/* Prompts within the context, as long as it, and longer: texts go beyond it. Some stop. */
TEST_EACH(texts_are_those_of_windows, (int)(COUNT_OF(models) * COUNT_OF(choices))) {
    static const size_t prompts[] = {2, CONTEXT - 1, 9, CONTEXT, 1, CONTEXT + 5};
    int32_t prompt[CONTEXT + 5], stop = 3;
    int number = _i / (int)COUNT_OF(choices), choice = _i % (int)COUNT_OF(choices);
    if (far_device() && number % (int)COUNT_OF(choices) != choice) return;
    struct subject s = open_application(number, LS_PRECISION_FLOAT32);
    ls_generate_options options = choices[choice];
    draw_tokens((uint64_t)_i, prompt, COUNT_OF(prompt));
    options.prompt = prompt;
    options.stop_token = _i % 3 ? NULL : &stop;
    for (int i = 0; i < (far_device() ? 1 : 3); i++) {
        options.prompt_count = prompts[(_i + i) % (int)COUNT_OF(prompts)];
        check_text(&s, &options);
    }
    close_subject(&s);
}

/* The first token runs a window, which builds the model. */
TEST(a_model_that_is_not_built_yet_is_built_by_a_window) {
    const int32_t prompt[] = {1, 2, 3};
    const ls_generate_options options = {
        .prompt = prompt, .prompt_count = 3, .greedy = true, .context = CONTEXT, .count = CONTEXT - 3};
    const ls_layer layers[] = {ls_embedding(TOKENS, 12, .kernel_initializer = LS_RANDOM_NORMAL),
                               ls_attention(2, .rope = true), ls_dense(TOKENS, .per_position = true)};
    struct subject s = open_subject(layers, COUNT_OF(layers), LS_PRECISION_FLOAT32);
    struct text with = text_of(&s, options, false), without = text_of(&s, options, true);
    ck_assert_mem_eq(with.tokens, without.tokens, with.count * sizeof(int32_t));
    ck_assert_uint_eq(with.windows, 1);
    ls_memory_free(with.tokens), ls_memory_free(without.tokens);
    close_subject(&s);
}

static const struct {
    ls_layer layers[3];
    size_t count;
} uncached[] = {
    {{ls_embedding(TOKENS, 8), ls_lstm(8, .return_sequences = true), ls_dense(TOKENS, .per_position = true)}, 3},
    {{ls_embedding(TOKENS, 8), ls_conv1d(TOKENS, 3, .padding = LS_CAUSAL)}, 2},
    {{ls_embedding(TOKENS, 12), ls_attention(2, .no_causal_mask = true), ls_dense(TOKENS, .per_position = true)}, 3},
};

TEST_EACH(layers_that_need_all_positions_run_windows, COUNT_OF(uncached)) {
    const int32_t prompt[] = {1, 2, 3}, zeros[CONTEXT] = {0};
    const ls_generate_options options = {.prompt = prompt, .prompt_count = 3, .greedy = true, .count = 10};
    struct subject s = open_subject(uncached[_i].layers, uncached[_i].count, LS_PRECISION_FLOAT32);
    ls_memory_free(logits_of_windows(&s, zeros));
    ck_assert(!ls_generate_cache_fits(s.model));
    struct text with = text_of(&s, options, false), without = text_of(&s, options, true);
    ck_assert_mem_eq(with.tokens, without.tokens, with.count * sizeof(int32_t));
    ck_assert_uint_eq(with.windows, without.windows);
    ls_memory_free(with.tokens), ls_memory_free(without.tokens);
    close_subject(&s);
}

/* The same message with and without a cache, and a model that is as good as before. */
TEST(a_token_that_is_no_id_is_refused) {
    const int32_t prompt[] = {1, TOKENS, 2}, good[] = {1};
    struct subject s = open_application(3, LS_PRECISION_FLOAT32);
    for (int no_cache = 0; no_cache < 2; no_cache++) {
        int32_t *tokens = NULL;
        size_t count = 0;
        assert_refused(ls_generate(s.model, LS_GENERATE(.prompt = prompt, .prompt_count = 3, .no_cache = no_cache),
                                   &tokens, &count),
                       "layer 'token_embedding': row 0 has id 13");
    }
    check_text(&s, &(const ls_generate_options){.prompt = good, .prompt_count = 1, .greedy = true});
    close_subject(&s);
}

/* Texts and predictions by turns: plans of both lie in one arena. */
static ls_status predict_too(void *user, int32_t token) {
    const struct subject *s = user;
    int32_t tokens[CONTEXT] = {token};
    ls_memory_free(logits_of_windows(s, tokens));
    return LS_OK;
}

TEST(a_callback_may_predict) {
    const int32_t prompt[] = {4, 5};
    struct subject s = open_application(0, LS_PRECISION_FLOAT32);
    const ls_generate_options quiet = {.prompt = prompt, .prompt_count = 2, .greedy = true};
    ls_generate_options busy = quiet;
    busy.on_token = predict_too, busy.user = &s;
    struct text one = text_of(&s, quiet, false), other = text_of(&s, busy, false);
    ck_assert_mem_eq(one.tokens, other.tokens, one.count * sizeof(int32_t));
    ls_memory_free(one.tokens), ls_memory_free(other.tokens);
    close_subject(&s);
}

/* ---- memory ---- */

static atomic_long countdown; /* allocations that still work; 0: none limited */

static bool denied(void) {
    return countdown > 0 && --countdown == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return denied() ? NULL : __real_calloc(count, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return denied() ? NULL : __real_aligned_alloc(alignment, size);
}

/* The k-th allocation fails, for every k: a named error, nothing leaked, and a model that is as good as before. */
TEST(without_memory_there_is_one_error) {
    const int32_t prompt[] = {4, 5, 6};
    const ls_generate_options options = {
        .size = sizeof(options), .prompt = prompt, .prompt_count = 3, .greedy = true, .count = 4};
    struct subject s = open_application(3, LS_PRECISION_FLOAT32);
    struct text wanted = text_of(&s, options, false);
    int64_t failed = 0;
    for (bool enough = false; !enough && !far_device(); failed += !enough) {
        int32_t *tokens = NULL;
        size_t count = 0;
        countdown = failed + 1;
        ls_status status = ls_generate(s.model, &options, &tokens, &count);
        enough = countdown > 0;
        countdown = 0;
        ck_assert_msg(enough ? !status : status == LS_RESOURCE_EXHAUSTED, "allocation %lld: %s", (long long)failed,
                      ls_error());
        if (enough) ck_assert_mem_eq(tokens, wanted.tokens, wanted.count * sizeof(int32_t));
        ls_memory_free(tokens);
    }
    ck_assert(far_device() || failed > 20);
    ls_memory_free(wanted.tokens);
    close_subject(&s);
}

TESTS("generate_cache", .seconds = 60)
