/* Text from a model: a table whose rows say which token comes next, and the choice among logits. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "train/model.h"
#include "train/sampling.h"

enum { TOKENS = 5, CONTEXT = 4, DRAWS = 20000 };

/* After token i comes i + 1, and after the last one the first. */
static void count_up(const ls_model *model) {
    float *table = model->built.replicas[0].parameters;
    memset(table, 0, TOKENS * TOKENS * sizeof(*table));
    for (int i = 0; i < TOKENS; i++) table[i * TOKENS + (i + 1) % TOKENS] = 3;
}

static ls_model *new_model(ls_strategy **strategy, const ls_layer *layers, size_t count) {
    const int32_t ids[CONTEXT] = {0};
    float *outputs = NULL;
    ls_shape shape;
    ls_model *model = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.tf_config = "{}"), strategy));
    assert_ok(ls_model_new(*strategy, layers, count, &model));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(ls_model_predict_on_batch(model, LS_ARRAYS(.ids = ids, .shape = LS_SHAPE(CONTEXT), .count = 1), &outputs,
                                        &shape));
    ls_memory_free(outputs);
    return model;
}

static void free_model(ls_strategy *strategy, ls_model *model) {
    ls_model_free(model);
    assert_ok(ls_strategy_close(strategy, LS_OK));
}

struct heard {
    int32_t tokens[16];
    int count, most;
};

static ls_status hear(void *user, int32_t token) {
    struct heard *heard = user;
    heard->tokens[heard->count++] = token;
    return heard->count == heard->most ? LS_CANCELLED : LS_OK;
}

TEST(tokens_follow_the_prompt_past_the_context) {
    const int32_t prompt[] = {1, 2}, stop = 0;
    const int32_t wanted[] = {3, 4, 0, 1, 2, 3, 4, 0};
    struct heard heard = {.most = 100}, cut = {.most = 3};
    int32_t *tokens = NULL;
    size_t count = 0;
    ls_strategy *strategy = NULL;
    ls_model *model = new_model(&strategy, LS_LAYERS(ls_embedding(TOKENS, TOKENS)));
    count_up(model);
    assert_ok(ls_generate(
        model,
        LS_GENERATE(.prompt = prompt, .prompt_count = 2, .count = 8, .greedy = true, .on_token = hear, .user = &heard),
        &tokens, &count));
    ck_assert_uint_eq(count, 8);
    ck_assert_mem_eq(tokens, wanted, sizeof(wanted));
    ck_assert_mem_eq(heard.tokens, wanted, sizeof(wanted));
    ls_memory_free(tokens);
    assert_ok(ls_generate(
        model, LS_GENERATE(.prompt = prompt, .prompt_count = 2, .count = 8, .greedy = true, .stop_token = &stop),
        &tokens, &count));
    ck_assert_uint_eq(count, 2);
    ck_assert_mem_eq(tokens, wanted, 2 * sizeof(*wanted));
    ls_memory_free(tokens);
    ck_assert_int_eq(
        ls_generate(model,
                    LS_GENERATE(.prompt = prompt, .prompt_count = 2, .greedy = true, .on_token = hear, .user = &cut),
                    &tokens, &count),
        LS_CANCELLED);
    ck_assert_int_eq(cut.count, 3);
    free_model(strategy, model);
}

TEST(a_seed_fixes_the_text) {
    const int32_t prompt[] = {1};
    int32_t *texts[3] = {NULL};
    size_t count = 0;
    ls_strategy *strategy = NULL;
    ls_model *model = new_model(&strategy, LS_LAYERS(ls_embedding(TOKENS, TOKENS)));
    for (int i = 0; i < 3; i++)
        assert_ok(ls_generate(model,
                              LS_GENERATE(.prompt = prompt, .prompt_count = 1, .count = 40, .seed = (uint64_t)(i / 2)),
                              &texts[i], &count));
    ck_assert_mem_eq(texts[0], texts[1], 40 * sizeof(int32_t));
    ck_assert_int_ne(memcmp(texts[0], texts[2], 40 * sizeof(int32_t)), 0);
    for (int i = 0; i < 3; i++) ls_memory_free(texts[i]);
    free_model(strategy, model);
}

static const int32_t one[] = {1}, wild[] = {TOKENS};
#define PROMPT .size = sizeof(ls_generate_options), .prompt = one, .prompt_count = 1
static const struct {
    ls_generate_options options;
    const char *text;
} refusals[] = {
    {{.size = sizeof(ls_generate_options)}, "the prompt has no tokens"},
    {{PROMPT, .count = -1}, "count -1 must be 1 or more"},
    {{PROMPT, .temperature = -1}, "temperature -1 must be above 0"},
    {{PROMPT, .temperature = NAN}, "must be above 0"},
    {{PROMPT, .top_k = -1}, "top_k -1 must not be negative"},
    {{PROMPT, .top_p = 1.5F}, "top_p 1.5 must be above 0 and at most 1"},
    {{PROMPT, .context = 7}, "context 7, and the model takes 4 tokens"},
    {{.size = sizeof(ls_generate_options), .prompt = wild, .prompt_count = 1}, "layer 'embedding': row 0 has id 5"},
};

TEST_EACH(what_cannot_be_is_refused, COUNT_OF(refusals)) {
    int32_t *tokens = NULL;
    size_t count = 0;
    ls_strategy *strategy = NULL;
    ls_model *model = new_model(&strategy, LS_LAYERS(ls_embedding(TOKENS, TOKENS)));
    assert_refused(ls_generate(model, &refusals[_i].options, &tokens, &count), refusals[_i].text);
    ck_assert_ptr_null(tokens);
    free_model(strategy, model);
}

TEST(a_model_of_classes_makes_no_text) {
    int32_t *tokens = NULL;
    size_t count = 0;
    ls_strategy *strategy = NULL;
    ls_model *model =
        new_model(&strategy, LS_LAYERS(ls_embedding(TOKENS, 3), ls_global_average_pooling1d(), ls_dense(TOKENS)));
    assert_refused(ls_generate(model, LS_GENERATE(.prompt = one, .prompt_count = 1), &tokens, &count),
                   "the model's outputs are not (4, vocabulary)");
    free_model(strategy, model);
}

/* ---- the choice ---- */

static const float logits[] = {1, 0, 3, NAN, 2, -INFINITY};

static void draw_all(const ls_generate_options *options, int *counts) {
    struct ls_sampler sampler;
    memset(counts, 0, COUNT_OF(logits) * sizeof(*counts));
    assert_ok(ls_sampling_begin(&sampler, options, COUNT_OF(logits)));
    for (int64_t i = 0; i < DRAWS; i++) {
        int32_t token;
        assert_ok(ls_sampling_choose(&sampler, logits, i, &token));
        ck_assert(token >= 0 && token < (int32_t)COUNT_OF(logits));
        counts[token]++;
    }
    ls_sampling_end(&sampler);
}

/* The probabilities of the logits that stay: each count is within five deviations. */
static const struct {
    ls_generate_options options;
    bool stays[COUNT_OF(logits)];
} choices[] = {
    {{.greedy = true}, {false, false, true}},
    {{.temperature = 1, .top_p = 1}, {true, true, true, false, true}},
    {{.temperature = 0.5F, .top_p = 1}, {true, true, true, false, true}},
    {{.temperature = 1, .top_p = 1, .top_k = 2}, {false, false, true, false, true}},
    {{.temperature = 1, .top_p = 1, .top_k = 1}, {false, false, true}},
    {{.temperature = 1, .top_p = 0.6F}, {false, false, true}},
    {{.temperature = 1, .top_p = 0.7F}, {false, false, true, false, true}},
    {{.temperature = 1, .top_p = 0.7F, .top_k = 3}, {false, false, true, false, true}},
};

TEST_EACH(tokens_come_as_often_as_they_are_likely, COUNT_OF(choices)) {
    int counts[COUNT_OF(logits)];
    double sum = 0, temperature = choices[_i].options.greedy ? 1 : (double)choices[_i].options.temperature;
    draw_all(&choices[_i].options, counts);
    for (size_t i = 0; i < COUNT_OF(logits); i++)
        if (choices[_i].stays[i]) sum += exp((double)logits[i] / temperature);
    for (size_t i = 0; i < COUNT_OF(logits); i++) {
        double wanted = choices[_i].stays[i] ? DRAWS * exp((double)logits[i] / temperature) / sum : 0;
        ck_assert_msg(fabs(counts[i] - wanted) <= 5 * sqrt(wanted * (1 - wanted / DRAWS)) + 1e-9,
                      "token %zu came %d times of %d, and %g are wanted", i, counts[i], DRAWS, wanted);
    }
}

TEST(logits_that_are_no_numbers_are_an_error) {
    const float none[] = {NAN, NAN};
    const ls_generate_options greedy = {.greedy = true};
    struct ls_sampler sampler;
    int32_t token;
    assert_ok(ls_sampling_begin(&sampler, &greedy, 2));
    ck_assert_int_eq(ls_sampling_choose(&sampler, none, 7, &token), LS_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(ls_error(), "no logit of the token at position 7 is a number"));
    ls_sampling_end(&sampler);
}

TESTS("generate")
