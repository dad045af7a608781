/* A step on one device without host memory (tests/far), alone: how it is queued, and what it takes of the memory. */
#include <dlfcn.h>
#include <stdlib.h>

#include "far/far.h"
#include "harness.h"

/* The plugin's own. */
static const struct far_counts *counts(void) {
    void *plugin = dlopen(getenv("LOCKSTEP_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
    const struct far_counts *found = plugin ? dlsym(plugin, "far_counts") : NULL;
    ck_assert_ptr_nonnull(found);
    (void)dlclose(plugin);
    return found;
}

static ls_status fit_on_one(ls_strategy *strategy, int epochs, ls_optimizer optimizer, ls_result *result) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status st = ls_dataset_digits(LS_DATASET(.batch_size = 32, .limit = 128), &data);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(17, LS_RELU, .kernel_l2 = 0.01F), ls_dense(10)), &model);
    if (!st) st = ls_model_compile(model, optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = epochs, .verbose = -1), result);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

/* The planned memory is there, and little beside. */
TEST(memory_is_told) {
    ls_strategy *strategy = NULL;
    ls_result result = {0};
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "gpu:0"), &strategy));
    assert_ok(fit_on_one(strategy, 1, (ls_optimizer)ls_adam(0.001F), &result));
    size_t pixels = 32 * 28 * 28, inputs = 2 * (pixels + 32 * sizeof(float)); /* bytes up to the plan's first op */
    size_t weights = (784 * 17 + 17 + 17 * 10 + 10) * sizeof(float);
    ck_assert_int_gt(result.arena_bytes, (int64_t)(pixels + 32 * (17 + 10)) * (int64_t)sizeof(float));
    ck_assert_int_ge(result.planned_bytes, result.arena_bytes + (int64_t)(4 * weights + inputs));
    ck_assert_int_ge(result.peak_bytes, result.planned_bytes);
    ck_assert_int_le(result.peak_bytes, result.planned_bytes + (1 << 16));
    ck_assert_int_lt(result.planned_bytes, result.arena_bytes + (int64_t)(4 * weights + inputs + (1 << 15)));
    ls_strategy_free(strategy);
}

/* The number of ops that a training queues one by one. */
static int queued_in(int epochs, ls_optimizer optimizer) {
    ls_strategy *strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "gpu:0"), &strategy));
    int before = counts()->ops;
    assert_ok(fit_on_one(strategy, epochs, optimizer, NULL));
    ls_strategy_free(strategy);
    return counts()->ops - before;
}

/* A step that nobody else has a part in is one list of ops, with its update, whatever the learning rate is. */
TEST_EACH(a_step_is_one_graph, 2) {
    const ls_optimizer rules[] = {
        ls_sgd(0.1F, .schedule = {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 3, .decay_rate = 0.5F}),
        ls_adam(0.001F, .weight_decay = 0.01F)};
    int few = queued_in(2, rules[_i]), replays = counts()->replays, more = queued_in(5, rules[_i]);
    ck_assert_int_eq(few, more);
    ck_assert_int_ge(counts()->replays - replays, 5 * 4 - 2 * 2);
}

static ls_status fit_on_two(ls_strategy *strategy, int epochs) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status st = ls_dataset_digits(LS_DATASET(.batch_size = 32, .limit = 128), &data);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(31, LS_RELU), ls_dense(29, LS_RELU), ls_dense(10)), &model);
    if (!st) st = ls_model_compile(model, (ls_optimizer)ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = epochs, .verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

/* Tells what so many epochs queue: replays, and ops by themselves. */
static void count_on_two(const ls_strategy_options *options, int epochs, int *replays, int *ops) {
    ls_strategy *strategy = NULL;
    int replayed = counts()->replays, queued = counts()->ops;
    assert_ok(ls_mirrored_strategy_new(options, &strategy));
    assert_ok(fit_on_two(strategy, epochs));
    ls_strategy_free(strategy);
    *replays = counts()->replays - replayed;
    *ops = counts()->ops - queued;
}

/* A step whose gradients others wait for is a graph a bucket, and what stands between: the report and the update. */
TEST_EACH(a_bucket_ends_a_graph, 2) {
    enum { STEPS = 4, MORE = 3 * STEPS * 2 /* devices */ };
    static const size_t packs[] = {1000, 0};
    int replays[2], ops[2];
    const ls_strategy_options *options =
        LS_STRATEGY(.devices = "gpu:0,gpu:1", .bytes_per_pack = packs[_i], .cross_device_ops = LS_HIERARCHICAL_COPY);
    for (int i = 0; i < 2; i++) count_on_two(options, i ? 5 : 2, &replays[i], &ops[i]);
    int graphs = (replays[1] - replays[0]) / MORE;
    ck_assert_int_eq(replays[1] - replays[0], graphs * MORE);
    if (packs[_i])
        ck_assert_int_ge(graphs, 3); /* kernels of 784 x 31, 31 x 29 and 29 x 10 */
    else
        ck_assert_int_ge(graphs, 1);
    ck_assert_int_le(ops[1] - ops[0], 3 * MORE);
}

/* Its ops are queued one by one then, to the same bits. */
TEST(a_device_that_captures_nothing_trains_alike) {
    void *plugin = dlopen(getenv("LOCKSTEP_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
    _Atomic bool *refuses = plugin ? dlsym(plugin, "far_refuses_graphs") : NULL;
    ls_result results[2];
    ck_assert_ptr_nonnull(refuses);
    for (int i = 0; i < 2; i++) {
        ls_strategy *strategy = NULL;
        int before = counts()->replays;
        *refuses = i;
        assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "gpu:0"), &strategy));
        assert_ok(fit_on_one(strategy, 3, (ls_optimizer)ls_adam(0.001F), &results[i]));
        ck_assert_int_eq(counts()->replays > before, !i);
        ls_strategy_free(strategy);
    }
    ck_assert(results[0].loss == results[1].loss && results[0].accuracy == results[1].accuracy);
    *refuses = false;
    (void)dlclose(plugin);
}

/* Batches that lie in memory are copied while ops of the step before are still to be done: 8 steps, of which each but
 * the first finds its features and labels under way. */
TEST(batches_in_memory_come_ahead) {
    ls_strategy *strategy = NULL;
    int before = counts()->early;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "gpu:0"), &strategy));
    assert_ok(fit_on_one(strategy, 2, (ls_optimizer)ls_sgd(0.1F), NULL));
    ck_assert_int_ge(counts()->early - before, 2 * (8 - 1));
    ls_strategy_free(strategy);
}

TESTS("far step", .seconds = 60)
