/* Gradient accumulation: several batches a step are one of all their examples, but for the statistics of batch
 * normalizations, which are those of step by step. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "train/model.h"
#include "strategy/workers.h"
#include "train/toy.h"

#define MOST     128 /* numbers of a model's variables */
#define MOMENTUM 0.9

struct outcome {
    float values[MOST]; /* of all variables */
    int count;
    ls_result result;
};

static void copy_variables(const ls_model *model, struct outcome *outcome) {
    for (int i = 0; i < ls_model_num_variables(model); i++) {
        const char *name;
        const float *values;
        ls_shape shape;
        assert_ok(ls_model_variable(model, i, &name, &shape, &values));
        int count = (int)(shape.rank == 2 ? shape.dims[0] * shape.dims[1] : shape.dims[0]);
        ck_assert_int_le(outcome->count + count, MOST);
        memcpy(outcome->values + outcome->count, values, (size_t)count * sizeof(float));
        outcome->count += count;
    }
}

/* One step of all examples in so many batches, on two replicas. */
static void train(const ls_layer *layers, size_t layer_count, ls_optimizer optimizer, int batches, int epochs,
                  struct outcome *outcome) {
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    optimizer.gradient_accumulation_steps = batches;
    memset(outcome, 0, sizeof(*outcome));
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    assert_ok(ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                LS_DATASET(.batch_size = EXAMPLES / batches, .shuffle = LS_SHUFFLE_NEVER), &data));
    assert_ok(ls_model_new(strategy, layers, layer_count, &model));
    assert_ok(ls_model_compile(model, optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = epochs, .verbose = -1), &outcome->result));
    ck_assert_int_eq(outcome->result.steps, epochs);
    copy_variables(model, outcome);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* The largest difference of two trainings. */
static double difference(const struct outcome *one, const struct outcome *other) {
    double most = 0;
    ck_assert_int_eq(one->count, other->count);
    for (int i = 0; i < one->count; i++) most = fmax(most, fabs((double)one->values[i] - (double)other->values[i]));
    return most;
}

/* Sums of 40 terms below 1, in another order: some 1e-7. */
TEST(one_step) {
    struct outcome whole, parts, start;
    const ls_optimizer rules[] = {ls_sgd(0.5F), ls_sgd(0.5F, .global_clipnorm = 0.05F),
                                  ls_rmsprop(0.01F, .epsilon = 0.1F, .weight_decay = 0.1F)};
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        train(LS_LAYERS(ls_dense(5, LS_TANH), ls_dense(3)), rules[i], 1, 1, &whole);
        for (int batches = 2; batches <= 20; batches *= batches == 2 ? 2 : 5) {
            train(LS_LAYERS(ls_dense(5, LS_TANH), ls_dense(3)), rules[i], batches, 1, &parts);
            ck_assert_double_lt(difference(&parts, &whole), 1e-6);
            ck_assert_double_eq_tol(parts.result.loss, whole.result.loss, 1e-6);
            ck_assert_double_eq(parts.result.accuracy, whole.result.accuracy);
        }
    }
    train(LS_LAYERS(ls_dense(5, LS_TANH), ls_dense(3)), (ls_optimizer)ls_sgd(1e-12F), 1, 1, &start);
    ck_assert_double_gt(difference(&start, &whole), 1e-3); /* so that equal numbers say something */
}

TEST(several_steps) {
    struct outcome whole, parts;
    const ls_optimizer rule = ls_sgd(0.5F, .momentum = 0.5F);
    train(LS_LAYERS(ls_dense(3)), rule, 1, 6, &whole);
    train(LS_LAYERS(ls_dense(3)), rule, 4, 6, &parts);
    ck_assert_double_lt(difference(&parts, &whole), 1e-5);
}

/* ---- batch normalization ---- */

/* Mean and variance of a column over rows of the toy. */
static void measure(const struct toy *toy, int first, int rows, int column, double *mean, double *variance) {
    double sum = 0, squares = 0;
    for (int i = first; i < first + rows; i++) sum += (double)toy->features[i][column];
    *mean = sum / rows;
    for (int i = first; i < first + rows; i++) squares += pow((double)toy->features[i][column] - *mean, 2);
    *variance = squares / rows;
}

/* The moving statistics step by step. Each batch's are those of its two replicas on average. */
static void expect_moving(int batches, double mean[WIDTH], double variance[WIDTH]) {
    struct toy toy;
    int rows = EXAMPLES / batches / 2;
    fill_toy(&toy);
    for (int j = 0; j < WIDTH; j++) {
        mean[j] = 0;
        variance[j] = 1;
        for (int batch = 0; batch < batches; batch++) {
            double own[2], others[2];
            measure(&toy, 2 * batch * rows, rows, j, &own[0], &others[0]);
            measure(&toy, (2 * batch + 1) * rows, rows, j, &own[1], &others[1]);
            mean[j] = MOMENTUM * mean[j] + (1 - MOMENTUM) * (own[0] + own[1]) / 2;
            variance[j] = MOMENTUM * variance[j] + (1 - MOMENTUM) * (others[0] + others[1]) / 2;
        }
    }
}

TEST(statistics_are_those_of_step_by_step) {
    for (int batches = 1; batches <= 4; batches *= 2) {
        struct outcome outcome;
        double mean[WIDTH], variance[WIDTH];
        train(LS_LAYERS(ls_batch_normalization(.momentum = (float)MOMENTUM), ls_dense(3)), (ls_optimizer)ls_sgd(0.1F),
              batches, 1, &outcome);
        expect_moving(batches, mean, variance);
        const float *moving = outcome.values + outcome.count - 2 * WIDTH; /* the last variables */
        for (int j = 0; j < WIDTH; j++) {
            ck_assert_double_eq_tol((double)moving[j], mean[j], 1e-6);
            ck_assert_double_eq_tol((double)moving[WIDTH + j], variance[j], 1e-6);
        }
    }
}

/* In how many pieces a replica merges what it has gathered; -1 after an error. */
static int merges_of(const ls_layer *layers, size_t layer_count, ls_strategy *strategy) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    ls_status st = ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                     LS_DATASET(.batch_size = 10), &data);
    if (!st) st = ls_model_new(strategy, layers, layer_count, &model);
    if (!st)
        st =
            ls_model_compile(model, ls_sgd(0.1F, .gradient_accumulation_steps = 2), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    int count = st ? -1 : model->built.replicas[0].merge_count;
    ls_model_free(model);
    ls_dataset_free(data);
    return count;
}

/* All that is trained at once, and statistics that move alike. */
TEST(a_blob_is_merged_at_once) {
    ls_strategy *strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    ck_assert_int_eq(merges_of(LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(3)), strategy), 1);
    ck_assert_int_eq(
        merges_of(LS_LAYERS(ls_dense(5), ls_batch_normalization(), ls_dense(4), ls_batch_normalization(), ls_dense(3)),
                  strategy),
        2);
    ck_assert_int_eq(merges_of(LS_LAYERS(ls_dense(5), ls_batch_normalization(), ls_dense(4),
                                         ls_batch_normalization(.momentum = 0.5F), ls_dense(3)),
                               strategy),
                     3);
    ls_strategy_free(strategy);
}

static ls_status count_merges(struct worker *worker) {
    int *counts = worker->context;
    counts[worker->rank] = merges_of(LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(4), ls_dense(3)), worker->strategy);
    return LS_OK;
}

/* Cut before each variable with which there are 32 floats or more; the last one has what a step tells, too. */
TEST(buckets_are_merged_as_they_go) {
    int counts[2] = {0};
    struct worker_cluster cluster = {.count = 2,
                                     .devices = {1, 1},
                                     .fn = count_merges,
                                     .context = counts,
                                     .options.bytes_per_pack = 32 * sizeof(float) - 1};
    run_workers_ok(&cluster);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(counts[i], 4);
}

TESTS("accumulate", .seconds = 60)
