/* fit and its promises: a step is a transaction, differences between workers are one named error, bad calls too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "collective/bucket.h"
#include "base/memory.h"
#include "strategy/workers.h"
#include "train/toy.h"

static ls_status open_toy(struct toy *toy, int64_t batch, ls_dataset **data) {
    return ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, EXAMPLES, 3,
                             LS_DATASET(.batch_size = batch, .shuffle = LS_SHUFFLE_NEVER), data);
}

static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    ls_status st = ls_model_new(strategy, LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(3)), model);
    return st ? st : ls_model_compile(*model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* Steps 1 to 4 are good; in step 5 one replica meets a label that is no class. The variables, moments and counter must
 * be those of step 4: after the label is mended, training goes on as if nothing had been. */
static void check_transaction(const char *devices) {
    struct toy toy, broken;
    char before[65], after[65], undisturbed[65];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL, *bad = NULL;
    ls_model *model = NULL, *other = NULL;
    ls_result result;
    fill_toy(&toy);
    fill_toy(&broken);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices), &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    assert_ok(open_toy(&broken, 8, &bad));
    assert_ok(make_model(strategy, &model));
    broken.labels[32] = 77; /* behind the back of the dataset: found by the loss in step 5 */
    assert_ok(ls_model_fit(model, data, LS_FIT(.steps_per_epoch = 4, .verbose = -1), NULL));
    assert_ok(ls_model_weights_sha256(model, before));
    ck_assert_int_eq(ls_model_fit(model, bad, LS_FIT(.steps_per_epoch = 5, .verbose = -1), NULL) ? 0 : 1, 0);
    ck_assert_msg(strstr(ls_error(), "77"), "%s", ls_error());
    ck_assert_msg(strstr(ls_error(), "step 5"), "%s", ls_error());
    assert_ok(ls_model_fit(model, data, LS_FIT(.verbose = -1), &result));
    ck_assert_int_eq(result.steps, 4 + 4 + 5);
    assert_ok(ls_model_weights_sha256(model, after));
    assert_ok(make_model(strategy, &other));
    assert_ok(ls_model_fit(other, data, LS_FIT(.steps_per_epoch = 4, .verbose = -1), NULL));
    assert_ok(ls_model_fit(other, data, LS_FIT(.steps_per_epoch = 4, .verbose = -1), NULL));
    assert_ok(ls_model_fit(other, data, LS_FIT(.verbose = -1), NULL));
    assert_ok(ls_model_weights_sha256(other, undisturbed));
    ck_assert_str_eq(after, undisturbed);
    ck_assert_str_ne(before, after);
    ls_model_free(model);
    ls_model_free(other);
    ls_dataset_free(data);
    ls_dataset_free(bad);
    ls_strategy_free(strategy);
}

TEST(a_step_is_a_transaction) {
    check_transaction("1");
    check_transaction("3");
}

TEST(bad_calls_are_named) {
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    char digest[65];
    const char *name;
    const float *values;
    ls_shape shape;
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    ck_assert_int_eq(ls_model_new(strategy, NULL, 0, &model), LS_INVALID_ARGUMENT);
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(2)), &model));
    ck_assert_int_eq(ls_model_fit(model, data, NULL, NULL), LS_FAILED_PRECONDITION);
    ck_assert_int_eq(ls_model_weights_sha256(model, digest), LS_FAILED_PRECONDITION);
    ck_assert_int_eq(ls_model_variable(model, 0, &name, &shape, &values), LS_OUT_OF_RANGE);
    assert_refused(ls_model_compile(model, ls_sgd(-1.0F), LS_SPARSE_CATEGORICAL_CROSSENTROPY), "learning_rate");
    ck_assert_int_eq(ls_model_compile(model, ls_sgd(0.1F), (ls_loss)9), LS_INVALID_ARGUMENT);
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_CATEGORICAL_CROSSENTROPY));
    ck_assert_int_eq(ls_model_fit(model, data, LS_FIT(.epochs = -1), NULL), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_model_fit(model, data, LS_FIT(.verbose = 7), NULL), LS_INVALID_ARGUMENT);
    const ls_fit_options *endless = LS_FIT(.epochs = 3, .steps_per_epoch = INT64_MAX / 2, .verbose = -1);
    assert_refused(ls_model_fit(model, data, endless, NULL), "epochs 3 of steps_per_epoch 4611686018427387903");
    ck_assert_int_eq(ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL), LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ls_error(), "3 classes"), "%s", ls_error()); /* the model has two outputs */
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* ---- The learning rate between steps ---- */

struct pace {
    ls_model *model;
    float factor;
};

static ls_status slow_down(void *context, int epoch, const ls_result *result) {
    const struct pace *pace = context;
    float rate = 0;
    (void)epoch;
    (void)result;
    ls_status st = ls_model_learning_rate(pace->model, &rate);
    return st ? st : ls_model_set_learning_rate(pace->model, rate * pace->factor);
}

/* Two epochs of plain SGD: the second one moves half as far with half the rate, and as far as one compiled with that.
 */
TEST(the_learning_rate_can_be_set) {
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL, *other = NULL;
    char one[65], two[65];
    float rate = 0;
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &other));
    ck_assert_int_eq(ls_model_learning_rate(model, &rate), LS_FAILED_PRECONDITION);
    ck_assert_int_eq(ls_model_set_learning_rate(model, 1), LS_FAILED_PRECONDITION);
    assert_ok(ls_model_compile(model, ls_sgd(0.5F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(ls_model_compile(other, ls_sgd(0.5F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    struct pace pace = {model, 0.5F};
    assert_ok(
        ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1, .on_epoch = slow_down, .context = &pace), NULL));
    assert_ok(ls_model_learning_rate(model, &rate));
    ck_assert_float_eq(rate, 0.125F);
    assert_ok(ls_model_fit(other, data, LS_FIT(.verbose = -1), NULL));
    assert_ok(ls_model_set_learning_rate(other, 0.25F));
    assert_ok(ls_model_fit(other, data, LS_FIT(.verbose = -1), NULL));
    assert_ok(ls_model_weights_sha256(model, one));
    assert_ok(ls_model_weights_sha256(other, two));
    ck_assert_str_eq(one, two);
    ck_assert_int_eq(ls_model_set_learning_rate(other, 0), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_model_set_learning_rate(other, NAN), LS_INVALID_ARGUMENT);
    ls_model_free(model);
    ls_model_free(other);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* Each worker sets another rate after the first epoch: the next step changes nothing and says why. */
static ls_status train_unevenly(struct worker *worker) {
    struct toy *toy = worker->context;
    struct pace pace = {NULL, 0.5F + 0.25F * (float)worker->rank};
    ls_dataset *data = NULL;
    ls_status st = open_toy(toy, 8, &data);
    if (!st) st = make_model(worker->strategy, &pace.model);
    if (!st)
        st = ls_model_fit(pace.model, data, LS_FIT(.epochs = 2, .verbose = -1, .on_epoch = slow_down, .context = &pace),
                          NULL);
    ls_model_free(pace.model);
    ls_dataset_free(data);
    return st;
}

TEST(another_learning_rate_elsewhere_is_an_error) {
    struct toy toy;
    fill_toy(&toy);
    struct worker_cluster cluster = {.count = 2, .devices = {2, 1}, .fn = train_unevenly, .context = &toy};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "learning rate is 0.0"), "%s", cluster.workers[i].error);
        ck_assert_msg(strstr(cluster.workers[i].error, "epoch 2, step 1"), "%s", cluster.workers[i].error);
    }
}

/* ---- Losses and metrics ---- */

TEST(metrics_are_measured) {
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    const ls_compile_options *options =
        LS_COMPILE(.metrics = LS_METRICS(ls_categorical_accuracy(), ls_top_k(3), ls_mean_loss()));
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "3"), &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    assert_ok(ls_model_compile_with(model, ls_sgd(0.1F), LS_CATEGORICAL_CROSSENTROPY, options));
    ck_assert_str_eq(ls_model_metric_name(model, 1), "top_k_categorical_accuracy");
    ck_assert_ptr_null(ls_model_metric_name(model, 3));
    ck_assert_ptr_null(ls_model_metric_name(model, -1));
    assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 3, .verbose = -1), &result));
    ck_assert_double_eq(result.metrics[0], result.accuracy);
    ck_assert_double_eq(result.metrics[1], 1);
    ck_assert_double_eq(result.metrics[2], result.loss);
    ck_assert(isnan(result.val_metrics[0]) && result.metrics[3] == 0);
    assert_ok(ls_model_evaluate(model, data, &result));
    ck_assert_double_eq(result.metrics[0], result.accuracy);
    ck_assert_double_eq(result.metrics[2], result.loss);
    ck_assert_double_lt(result.accuracy, 1); /* so that equal numbers say something */
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* One output for two classes, by each loss that takes it; probabilities too. */
TEST(one_output_learns_two_classes) {
    const struct {
        ls_loss loss;
        ls_activation activation;
        const ls_compile_options *options;
    } cases[] = {
        {LS_BINARY_CROSSENTROPY, LS_LINEAR, LS_COMPILE(.metrics = LS_METRICS(ls_binary_accuracy()))},
        {LS_BINARY_CROSSENTROPY, LS_SIGMOID,
         LS_COMPILE(.from_probabilities = true, .label_smoothing = 0.1F, .metrics = LS_METRICS(ls_binary_accuracy()))},
        {LS_MEAN_SQUARED_ERROR, LS_LINEAR, LS_COMPILE(.metrics = LS_METRICS(ls_binary_accuracy()))},
    };
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    fill_toy(&toy);
    for (int i = 0; i < EXAMPLES; i++) toy.labels[i] = toy.labels[i] == 2;
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 2,
                                LS_DATASET(.batch_size = 8), &data));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_model *model = NULL;
        ls_result result;
        assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(1, cases[i].activation)), &model));
        assert_ok(ls_model_compile_with(model, ls_adam(0.05F), cases[i].loss, cases[i].options));
        assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 60, .verbose = -1), &result));
        ck_assert_double_gt(result.metrics[0], 0.97);
        if (cases[i].loss == LS_MEAN_SQUARED_ERROR)
            ck_assert(isnan(result.accuracy));
        else
            ck_assert_double_eq(result.accuracy, result.metrics[0]);
        ls_model_free(model);
    }
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

static void count_softmax(void *context, ls_log_level level, const char *line) {
    if (level == LS_LOG_WARNING && (strstr(line, "is a softmax, and") || strstr(line, "is a sigmoid, and")))
        ++*(int *)context;
}

/* A loss of logits behind probabilities is warned of. */
TEST(two_softmaxes_are_warned_of) {
    const struct {
        ls_loss loss;
        ls_activation activation;
        bool probabilities;
        int warnings;
    } cases[] = {{LS_SPARSE_CATEGORICAL_CROSSENTROPY, LS_SOFTMAX, false, 1},
                 {LS_SPARSE_CATEGORICAL_CROSSENTROPY, LS_SOFTMAX, true, 0},
                 {LS_SPARSE_CATEGORICAL_CROSSENTROPY, LS_SIGMOID, false, 0},
                 {LS_BINARY_CROSSENTROPY, LS_SIGMOID, false, 1},
                 {LS_BINARY_CROSSENTROPY, LS_SOFTMAX, false, 0},
                 {LS_MEAN_SQUARED_ERROR, LS_SOFTMAX, false, 0}};
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    int warnings = 0;
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.log = count_softmax, .log_context = &warnings), &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_model *model = NULL;
        warnings = 0;
        assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3, cases[i].activation)), &model));
        assert_ok(ls_model_compile_with(model, ls_sgd(0.1F), cases[i].loss,
                                        LS_COMPILE(.from_probabilities = cases[i].probabilities)));
        assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 1, .verbose = -1), NULL));
        ck_assert_int_eq(warnings, cases[i].warnings);
        ls_model_free(model);
    }
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* Sparse and one-hot labels are the same loss. */
TEST(one_hot_is_sparse) {
    struct toy toy;
    char digests[2][65];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    for (int i = 0; i < 2; i++) {
        ls_model *model = NULL;
        ls_result result;
        assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(8), ls_relu(), ls_dense(3)), &model));
        assert_ok(ls_model_compile(model, ls_sgd(0.5F),
                                   i ? LS_CATEGORICAL_CROSSENTROPY : LS_SPARSE_CATEGORICAL_CROSSENTROPY));
        assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 60, .verbose = -1), &result));
        ck_assert_double_gt(result.accuracy, 0.99);
        assert_ok(ls_model_evaluate(model, data, &result));
        ck_assert_double_gt(result.accuracy, 0.99);
        assert_ok(ls_model_weights_sha256(model, digests[i]));
        ls_model_free(model);
    }
    ck_assert_str_eq(digests[0], digests[1]);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* ---- several workers ---- */

enum difference { RATE, BATCH, MODEL, EPOCHS, DIFFERENCES };
static const char *const words[DIFFERENCES] = {"optimizer", "batch_size", "model", "epochs"};

static ls_status train_differently(struct worker *worker) {
    enum difference difference = *(enum difference *)worker->context;
    bool odd = worker->rank == 1;
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    ls_status st = open_toy(&toy, odd && difference == BATCH ? 9 : 8, &data);
    if (!st)
        st = ls_model_new(worker->strategy,
                          LS_LAYERS(ls_dense(odd && difference == MODEL ? 6 : 5, LS_RELU), ls_dense(3)), &model);
    if (!st)
        st = ls_model_compile(model, ls_sgd(odd && difference == RATE ? 0.2F : 0.1F),
                              LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = odd && difference == EPOCHS ? 3 : 2, .verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

TEST(differences_are_one_error_on_all) {
    for (int difference = 0; difference < DIFFERENCES; difference++) {
        struct worker_cluster cluster = {
            .count = 3, .devices = {1, 1, 1}, .fn = train_differently, .context = &difference};
        run_workers(&cluster);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
            ck_assert_msg(strstr(cluster.workers[i].error, words[difference]), "%s", cluster.workers[i].error);
            ck_assert_str_eq(cluster.workers[i].error, cluster.workers[0].error);
        }
    }
}

static ls_status evaluate_differently(struct worker *worker) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    ls_status st = open_toy(&toy, 8 + worker->rank, &data);
    if (!st) st = make_model(worker->strategy, &model);
    if (!st) st = ls_model_evaluate(model, data, NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

TEST(evaluation_compares_its_data) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = evaluate_differently};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "batch_size"), "%s", cluster.workers[i].error);
    }
}

static ls_status stop_training(void *context, int epoch, const ls_result *result) {
    (void)result;
    return epoch == *(int *)context ? LS_CANCELLED : LS_OK;
}

TEST(the_epochs_function_ends_the_training) {
    struct toy toy;
    int last = 1;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(open_toy(&toy, 8, &data));
    assert_ok(make_model(strategy, &model));
    const ls_fit_options *options = LS_FIT(.epochs = 5, .verbose = -1, .on_epoch = stop_training, .context = &last);
    assert_fails(ls_model_fit(model, data, options, NULL), LS_CANCELLED, "on_epoch after epoch 2");
    assert_ok(ls_model_evaluate(model, data, NULL));
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* A replica that fails in the middle ends the step on every worker, with its cause. */
static ls_status fail_in_the_middle(struct worker *worker) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    ls_status st = open_toy(&toy, 8, &data);
    toy.labels[22] = 55; /* in replica 1's share of step 3 (examples 16 to 23) */
    if (!st) st = make_model(worker->strategy, &model);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

TEST(a_failing_worker_ends_all_with_its_cause) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = fail_in_the_middle};
    run_workers(&cluster);
    ck_assert_msg(strstr(cluster.workers[1].error, "55"), "%s", cluster.workers[1].error);
    ck_assert_int_ne(cluster.workers[0].status, LS_OK);
    ck_assert_msg(strstr(cluster.workers[0].error, "55"), "rank 0 does not know the cause: %s",
                  cluster.workers[0].error);
}

/* ---- buckets ---- */

static void check_buckets(struct ls_bucket_rule rule, const struct ls_bucket *want, size_t count) {
    static const size_t offsets[] = {0, 100, 116, 300}; /* and 16 extras behind 310 */
    struct ls_bucket *buckets;
    size_t made;
    rule.total = 326;
    rule.offsets = offsets;
    rule.count = 4;
    assert_ok(ls_buckets_cut(&rule, &buckets, &made));
    ck_assert_uint_eq(made, count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(buckets[i].begin, want[i].begin);
        ck_assert_uint_eq(buckets[i].end, want[i].end);
    }
    ls_free(buckets);
}

TEST(buckets_are_cut_from_the_tail) {
    check_buckets((struct ls_bucket_rule){0, 1 << 20, 1 << 20}, (struct ls_bucket[]){{0, 326}}, 1);
    check_buckets((struct ls_bucket_rule){0, 4, 4}, (struct ls_bucket[]){{300, 326}, {116, 300}, {100, 116}, {0, 100}},
                  4);
    /* 1304 bytes in all: a sixteenth is 81, which the 64 of a variable do not fill; never less than the first */
    check_buckets((struct ls_bucket_rule){0, 4, 1 << 20}, (struct ls_bucket[]){{300, 326}, {116, 300}, {0, 116}}, 3);
    check_buckets((struct ls_bucket_rule){0, 4, 64}, (struct ls_bucket[]){{300, 326}, {116, 300}, {100, 116}, {0, 100}},
                  4);
    check_buckets((struct ls_bucket_rule){0, 800, 4}, (struct ls_bucket[]){{116, 326}, {0, 116}}, 2);
    /* TensorFlow: full when strictly more than bytes_per_pack is in it */
    check_buckets((struct ls_bucket_rule){26 * 4, 0, 0}, (struct ls_bucket[]){{116, 326}, {0, 116}}, 2);
    check_buckets((struct ls_bucket_rule){26 * 4 - 1, 0, 0}, (struct ls_bucket[]){{300, 326}, {116, 300}, {0, 116}}, 3);
}

TESTS("fit", .seconds = 120)
