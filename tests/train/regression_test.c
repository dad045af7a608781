/* Trainings on targets that are numbers, with sample and class weights, follow Keras' (tests/golden/
 * record_regression.py): loss, metrics, validation and variables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/npy.h"
#include "data/zip.h"
#include "golden/golden.h"
#include "harness.h"

#define EXAMPLES  24
#define WIDTH     4
#define EPOCHS    3
#define TOLERANCE 3e-6

static const char *const names[] = {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"};
enum { VARIABLES = sizeof(names) / sizeof(names[0]) };

static const struct job {
    const char *name, *metric;
    ls_loss loss;
    float delta;
    bool labels, weighted, by_class;
} jobs[] = {
    {"train_mse", "mean_absolute_error", LS_MEAN_SQUARED_ERROR, 0, false, false, false},
    {"train_mae", "mean_absolute_error", LS_MEAN_ABSOLUTE_ERROR, 0, false, false, false},
    {"train_huber", "mean_absolute_error", LS_HUBER, 0.5F, false, false, false},
    {"train_mse_weighted", "mean_absolute_error", LS_MEAN_SQUARED_ERROR, 0, false, true, false},
    {"train_labels_weighted", "sparse_categorical_accuracy", LS_SPARSE_CATEGORICAL_CROSSENTROPY, 0, true, true, false},
    {"train_class_weight", "sparse_categorical_accuracy", LS_SPARSE_CATEGORICAL_CROSSENTROPY, 0, true, false, true},
};

struct training {
    const struct job *job;
    struct golden *golden;
    int32_t labels[EXAMPLES];
};

static void near(const struct training *training, const char *what, int epoch, double value) {
    double wanted = (double)golden_find(training->golden, "%s/%s", training->job->name, what)->values[epoch];
    ck_assert_msg(fabs(value - wanted) <= TOLERANCE * (1 + fabs(wanted)), "%s, %s, epoch %d: %.9g, Keras has %.9g",
                  training->job->name, what, epoch, value, wanted);
}

static ls_status compare(void *context, int epoch, const ls_result *result) {
    const struct training *training = context;
    char name[64];
    near(training, "loss", epoch, result->loss);
    near(training, "val_loss", epoch, result->val_loss);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof(name), "%s%s", i ? "weighted_" : "", training->job->metric);
        near(training, name, epoch, result->metrics[i]);
        (void)snprintf(name, sizeof(name), "val_%s%s", i ? "weighted_" : "", training->job->metric);
        near(training, name, epoch, result->val_metrics[i]);
    }
    ck_assert(training->job->labels || isnan(result->accuracy));
    return LS_OK;
}

/* Keras' weights before the training, as a file. */
static void write_weights(const struct training *training, const char *path) {
    char headers[VARIABLES][LS_NPY_HEADER], members[VARIABLES][64];
    struct ls_zip_file files[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        const struct golden_tensor *tensor =
            golden_find(training->golden, "%s/before/%s", training->job->name, names[i]);
        ls_npy_header("<f4", &tensor->shape, headers[i]);
        (void)snprintf(members[i], sizeof(members[i]), "%s.npy", names[i]);
        files[i] = (struct ls_zip_file){
            members[i], {headers[i], tensor->values}, {LS_NPY_HEADER, (size_t)tensor->count * sizeof(float)}};
    }
    assert_ok(ls_zip_write(path, files, VARIABLES));
}

static ls_dataset *open_data(struct training *training) {
    const struct golden *golden = training->golden;
    const struct job *job = training->job;
    const struct golden_tensor *given = golden_find(golden, "labels");
    ls_dataset *data = NULL;
    for (int i = 0; i < EXAMPLES; i++) training->labels[i] = (int32_t)given->values[i];
    assert_ok(ls_dataset_from_arrays(
        LS_ARRAYS(.count = EXAMPLES, .features = golden_find(golden, "x")->values, .shape = LS_SHAPE(WIDTH),
                  .labels = job->labels ? training->labels : NULL, .classes = job->labels ? 3 : 0,
                  .targets = job->labels ? NULL : golden_find(golden, "y")->values,
                  .target_shape = job->labels ? (ls_shape){0} : LS_SHAPE(2),
                  .sample_weights = job->weighted ? golden_find(golden, "weights")->values : NULL),
        LS_DATASET(.batch_size = 8, .shuffle = LS_SHUFFLE_NEVER), &data));
    return data;
}

static ls_model *open_model(ls_strategy *strategy, const struct training *training) {
    const struct job *job = training->job;
    char path[] = "/tmp/lockstep-regression-XXXXXX.npz";
    int file = mkstemps(path, 4);
    ls_model *model = NULL;
    const ls_metric metric =
        job->labels ? (ls_metric)ls_sparse_categorical_accuracy() : (ls_metric)ls_mean_absolute_error();
    ck_assert_int_ge(file, 0);
    (void)close(file);
    write_weights(training, path);
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(job->labels ? 3 : 2)), &model));
    assert_ok(ls_model_load_weights(model, path, NULL));
    assert_ok(ls_model_compile_with(
        model, (ls_optimizer)ls_sgd(0.05F), job->loss,
        LS_COMPILE(.huber_delta = job->delta, .metrics = LS_METRICS(metric), .weighted_metrics = LS_METRICS(metric))));
    (void)unlink(path);
    return model;
}

static void compare_variables(const ls_model *model, const struct training *training) {
    for (int i = 0; i < VARIABLES; i++) {
        const struct golden_tensor *wanted =
            golden_find(training->golden, "%s/after/%s", training->job->name, names[i]);
        const char *name;
        const float *values;
        ls_shape shape;
        assert_ok(ls_model_variable(model, i, &name, &shape, &values));
        ck_assert_str_eq(name, names[i]);
        for (int64_t k = 0; k < wanted->count; k++)
            ck_assert_msg(fabs((double)values[k] - (double)wanted->values[k]) <= TOLERANCE,
                          "%s, %s[%d]: %.9g, Keras has %.9g", training->job->name, name, (int)k, (double)values[k],
                          (double)wanted->values[k]);
    }
}

/* On one replica, and on three, of which each has another number of rows. */
TEST_EACH(training_follows_keras, 2 * COUNT_OF(jobs)) {
    const struct job *job = &jobs[_i / 2];
    struct training training = {.job = job, .golden = golden_open("regression.txt")};
    ls_strategy *strategy = NULL;
    ls_result evaluated;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = _i % 2 ? "3" : "1"), &strategy));
    ls_dataset *data = open_data(&training);
    ls_model *model = open_model(strategy, &training);
    assert_ok(ls_model_fit(model, data,
                           LS_FIT(.epochs = EPOCHS, .verbose = -1, .validation_data = data, .on_epoch = compare,
                                  .context = &training,
                                  .class_weight = job->by_class ? LS_CLASS_WEIGHT({0, 0.5F}, {2, 4}) : NULL),
                           NULL));
    compare_variables(model, &training);
    assert_ok(ls_model_evaluate(model, data, &evaluated));
    near(&training, "val_loss", EPOCHS - 1, evaluated.loss);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    golden_close(training.golden);
}

TESTS("regression", .seconds = 60)
