/* Values that backward needs are kept, or made again, singly or by blocks: the same bits, other memory. On the device
 * that LOCKSTEP_TEST_DEVICE names, or a CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "strategy/workers.h"

#define TEXT "/usr/share/common-licenses/GPL-3"

static const char *device(void) {
    const char *named = getenv("LOCKSTEP_TEST_DEVICE");
    return named ? named : "1";
}

static const ls_layer convolutions[] = {ls_conv2d(8, 3, 2),
                                        ls_batch_normalization(),
                                        ls_relu(),
                                        ls_depthwise_conv2d(3),
                                        ls_batch_normalization(),
                                        ls_relu(),
                                        ls_depthwise_conv2d(3),
                                        ls_batch_normalization(),
                                        ls_relu(),
                                        ls_depthwise_conv2d(3),
                                        ls_batch_normalization(),
                                        ls_relu6(),
                                        ls_conv2d(8, 1),
                                        ls_batch_normalization(),
                                        ls_flatten(),
                                        ls_dense(10)};
/* Values that are made again, of others that are; and one that is not, for the slope of tanh needs it. */
static const ls_layer positions[] = {ls_conv2d(8, 3, 2, .activation = LS_GELU),
                                     ls_layer_normalization(),
                                     ls_depthwise_conv2d(3, .activation = LS_SILU),
                                     ls_activation(LS_GELU_TANH),
                                     ls_rms_normalization(),
                                     ls_layer_normalization(.frozen = true),
                                     ls_conv2d(8, 1, .activation = LS_TANH),
                                     ls_activation(LS_SILU, .name = "gate"),
                                     ls_conv2d(8, 1, .frozen = true, .activation = LS_GELU),
                                     ls_multiply("gate"),
                                     ls_dense(64, LS_GELU),
                                     ls_dense(64, LS_SILU),
                                     ls_dense(10)};
static const struct network {
    const ls_layer *layers;
    size_t count;
} networks[] = {{convolutions, sizeof(convolutions) / sizeof(convolutions[0])},
                {positions, sizeof(positions) / sizeof(positions[0])}};
#define NETWORKS ((int)(sizeof(networks) / sizeof(networks[0])))

static ls_status fit_network(ls_strategy *strategy, const struct network *network, ls_recompute recompute,
                             ls_result *result, char sha256[65]) {
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    assert_ok(ls_dataset_digits(LS_DATASET(.batch_size = 64, .limit = 150), &data)); /* the last batch is shorter */
    ls_status st = ls_model_new(strategy, network->layers, network->count, &model);
    if (!st)
        st = ls_model_compile_with(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                   LS_COMPILE(.recompute = recompute));
    if (!st) st = ls_model_fit(model, data, LS_FIT(.verbose = -1), result);
    if (!st) st = ls_model_weights_sha256(model, sha256);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static ls_result trained_so(int network, ls_recompute recompute, char sha256[65]) {
    ls_strategy *strategy = NULL;
    ls_result result;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = device()), &strategy));
    assert_ok(fit_network(strategy, &networks[network], recompute, &result, sha256));
    ls_strategy_free(strategy);
    return result;
}

TEST_EACH(the_bits_are_the_same, NETWORKS) {
    char never[65], always[65];
    ls_result kept = trained_so(_i, LS_RECOMPUTE_NONE, never), made = trained_so(_i, LS_RECOMPUTE_ACTIVATIONS, always);
    ck_assert_str_eq(never, always);
    ck_assert_int_gt(kept.arena_bytes, made.arena_bytes);
}

/* A CPU makes them again; a GPU keeps them while that takes at most half of what it has left. */
TEST_EACH(auto_looks_at_the_memory, NETWORKS) {
    char sha256[65], text[32];
    int64_t kept = trained_so(_i, LS_RECOMPUTE_NONE, sha256).arena_bytes;
    ls_result made = trained_so(_i, LS_RECOMPUTE_ACTIVATIONS, sha256);
    bool gpu = getenv("LOCKSTEP_TEST_DEVICE");
    ck_assert_int_eq(trained_so(_i, LS_RECOMPUTE_AUTO, sha256).arena_bytes, gpu ? kept : made.arena_bytes);
    if (!gpu || !strstr(getenv("LOCKSTEP_PLUGIN"), "emulated")) return;
    /* what the others take, and an arena that is made and then made larger; half of it is less than kept */
    int64_t most = made.planned_bytes + made.arena_bytes + (1 << 16);
    (void)snprintf(text, sizeof(text), "%lld", (long long)most);
    ck_assert_int_eq(setenv("LOCKSTEP_EMULATED_MEMORY", text, 1), 0);
    ck_assert_int_eq(trained_so(_i, LS_RECOMPUTE_AUTO, sha256).arena_bytes, made.arena_bytes);
    ck_assert_int_eq(unsetenv("LOCKSTEP_EMULATED_MEMORY"), 0); /* the next one may be of this process */
}

/* ---- transformers, by blocks ---- */

struct text_training {
    const char *model;
    ls_compile_options compile;
    float dropout;
    int batches; /* a step */
    char sha256[MAX_WORKERS][65];
    int64_t arena[MAX_WORKERS];
};

static ls_status fit_text(ls_strategy *strategy, struct text_training *training, int rank) {
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    ls_layer *layers = NULL;
    ls_result result = {0};
    size_t count = 0;
    ls_status st = ls_dataset_tokens(TEXT, LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = 8, .batch_size = 4), &data);
    if (!st)
        st = ls_application(
            training->model,
            LS_APPLICATION(.classes = 256, .layers = 2, .heads = 2, .width = 16, .dropout = training->dropout), &layers,
            &count);
    if (!st) st = ls_model_new(strategy, layers, count, &model);
    if (!st)
        st = ls_model_compile_with(model, ls_adam(1e-2F, .gradient_accumulation_steps = training->batches),
                                   LS_SPARSE_CATEGORICAL_CROSSENTROPY, &training->compile);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.steps_per_epoch = 3, .verbose = -1), &result);
    if (!st) st = ls_model_weights_sha256(model, training->sha256[rank]);
    training->arena[rank] = result.arena_bytes;
    ls_model_free(model);
    ls_dataset_free(data);
    ls_memory_free(layers);
    return st;
}

static ls_status work_on_text(struct worker *worker) {
    return fit_text(worker->strategy, worker->context, worker->rank);
}

/* Two replicas: of one worker, or of two. */
static void train_workers(struct text_training *training, int workers) {
    struct worker_cluster cluster = {
        .count = workers, .devices = {3 - workers, 1}, .fn = work_on_text, .context = training};
    run_workers_ok(&cluster);
    for (int w = 1; w < workers; w++) ck_assert_str_eq(training->sha256[w], training->sha256[0]);
}

static void train_device(struct text_training *training) {
    ls_strategy *strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = device()), &strategy));
    assert_ok(fit_text(strategy, training, 0));
    ls_strategy_free(strategy);
}

/* Rounds: a GPU's are of its precisions, a CPU's of numbers of workers. */
TEST_EACH(a_transformer_has_one_digest, 6) {
    static const char *const models[] = {"gpt", "gpt2", "llama"};
    uint64_t bits = ls_random_bits(first_seed(), 1, (uint64_t)_i);
    bool gpu = getenv("LOCKSTEP_TEST_DEVICE");
    if (gpu && _i % 4 != 1) return; /* the emulation takes long */
    struct text_training first = {.model = models[_i % 3], .dropout = bits % 2 ? 0.2F : 0, .batches = 1 + _i / 3};
    first.compile = (ls_compile_options){.size = sizeof(first.compile),
                                         .precision = gpu && bits / 2 % 2 ? LS_MIXED_BFLOAT16 : LS_PRECISION_FLOAT32};
    for (int r = LS_RECOMPUTE_NONE; r <= LS_RECOMPUTE_BLOCKS; r++)
        for (int workers = 1; workers <= (gpu ? 1 : 2); workers++) {
            struct text_training training = first;
            training.compile.recompute = (ls_recompute)r;
            if (gpu)
                train_device(&training);
            else
                train_workers(&training, workers);
            if (!first.arena[0]) first = training;
            ck_assert_str_eq(training.sha256[0], first.sha256[0]);
            bool smaller = training.arena[0] < first.arena[0];
            ck_assert_int_eq(smaller, r > LS_RECOMPUTE_NONE);
        }
}

TEST(another_value_is_refused) {
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    ls_status status = ls_model_compile_with(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                             LS_COMPILE(.recompute = (ls_recompute)7));
    ck_assert_int_eq(status, LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_error(), "recompute 7 is no ls_recompute");
    ls_model_free(model);
    ls_strategy_free(strategy);
}

TESTS("recompute", .seconds = 60)
