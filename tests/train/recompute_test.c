/* Outputs of normalizations and smooth activations that are kept since forward, or made again: the same bits, other
 * memory. On the device that LOCKSTEP_TEST_DEVICE names, or a CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

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
