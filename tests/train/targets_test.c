/* Targets that are numbers on their way: the same bits on every layout, from arrays, NumPy and TFRecord files, through
 * maps, caches and data threads; in predictions and custom loops; and what does not fit is one named error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/shape.h"
#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 61, WIDTH = 6, OUTPUTS = 3 };

static float features[EXAMPLES][WIDTH], targets[EXAMPLES][OUTPUTS], weights[EXAMPLES];

static void fill(void) {
    for (int i = 0; i < EXAMPLES; i++) {
        for (int j = 0; j < WIDTH; j++) features[i][j] = (float)((i * 7 + j * 5) % 13) / 13.0F - 0.5F;
        for (int j = 0; j < OUTPUTS; j++) targets[i][j] = 2 * features[i][j] - features[i][j + 1] + (float)j / 7;
        weights[i] = (float)(i % 5) / 2;
    }
}

static ls_status open_arrays(const ls_dataset_options *options, ls_dataset **data) {
    return ls_dataset_from_arrays(LS_ARRAYS(.count = EXAMPLES, .features = &features[0][0], .shape = LS_SHAPE(WIDTH),
                                            .targets = &targets[0][0], .target_shape = LS_SHAPE(OUTPUTS),
                                            .sample_weights = weights),
                                  options, data);
}

/* The map changes an example by its number and by the numbers drawn for it. */
static ls_status shift(void *context, const ls_map_call *call) {
    (void)context;
    if (call->label || !call->target || !call->weight) return LS_INVALID_ARGUMENT;
    for (int j = 0; j < WIDTH; j++) call->output[j] = call->input[j] + (float)(call->random[0] >> 24) / 1024;
    call->target[1] += 0.25F;
    *call->weight += 0.5F;
    return LS_OK;
}

struct job {
    ls_loss loss;
    const char *folder; /* NULL: arrays */
    bool mapped;
    int data_threads; /* -1: none */
    char digests[MAX_WORKERS][65];
};

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    const ls_dataset_options *options =
        LS_DATASET(.batch_size = 18, .seed = 4, .cache = job->mapped, .workers = job->data_threads,
                   .maps = job->mapped ? LS_MAPS(ls_map_function(shift)) : NULL);
    ls_status st = job->folder ? ls_dataset_open(job->folder, options, &data) : open_arrays(options, &data);
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(9, LS_RELU), ls_dense(OUTPUTS)), &model);
    if (!st)
        st = ls_model_compile_with(model, (ls_optimizer)ls_adam(0.01F), job->loss,
                                   LS_COMPILE(.metrics = LS_METRICS(ls_mean_squared_error())));
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 3, .validation_data = data, .verbose = -1), NULL);
    if (!st) st = ls_model_weights_sha256(model, job->digests[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static void run(struct job *job, int workers, int devices) {
    struct worker_cluster cluster = {.count = workers, .fn = train, .context = job};
    for (int i = 0; i < workers; i++) cluster.devices[i] = devices;
    run_workers_ok(&cluster);
    for (int i = 1; i < workers; i++) ck_assert_str_eq(job->digests[i], job->digests[0]);
}

TEST_EACH(every_layout_trains_to_the_same_bits, 3) {
    static const ls_loss losses[] = {LS_MEAN_SQUARED_ERROR, LS_MEAN_ABSOLUTE_ERROR, LS_HUBER};
    struct job first = {.loss = losses[_i], .mapped = true}, job = first;
    fill();
    run(&first, 1, 4);
    run(&job, 2, 2);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    job.data_threads = -1;
    run(&job, 4, 1);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    job.data_threads = 3;
    run(&job, 1, 4);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    job.mapped = false;
    run(&job, 1, 4);
    ck_assert_str_ne(job.digests[0], first.digests[0]);
}

/* Written in each format that has room for numbers, and read again. */
TEST_EACH(every_format_keeps_targets, 3) {
    static const ls_file_format formats[] = {LS_FORMAT_NPZ, LS_FORMAT_NPY, LS_FORMAT_TFRECORD};
    char folder[] = "/tmp/lockstep-targets-XXXXXX", command[128];
    struct job first = {.loss = LS_HUBER}, job = {.loss = LS_HUBER, .folder = folder};
    ls_dataset *data = NULL;
    ls_shape shape = {0};
    fill();
    ck_assert_ptr_nonnull(mkdtemp(folder));
    assert_ok(open_arrays(NULL, &data));
    ck_assert(ls_dataset_targets(data, &shape) && shape.rank == 1 && shape.dims[0] == OUTPUTS);
    ck_assert_int_eq(ls_dataset_num_classes(data), 0);
    assert_ok(ls_dataset_write(data, formats[_i], folder, LS_WRITE(.shards = 2)));
    assert_fails(ls_dataset_write(data, LS_FORMAT_PNG, folder, NULL), LS_UNIMPLEMENTED,
                 "targets that are numbers have no place in a folder each class");
    ls_dataset_free(data);
    run(&first, 1, 2);
    run(&job, 1, 2);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0); // NOLINT: a folder of this test's own
}

/* ---- predictions, custom loops ---- */

TEST(predictions_have_the_shape_of_targets) {
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    float *outputs = NULL;
    ls_shape shape;
    fill();
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "3"), &strategy));
    assert_ok(open_arrays(LS_DATASET(.batch_size = 20, .shuffle = LS_SHUFFLE_NEVER), &data));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(OUTPUTS)), &model));
    assert_ok(ls_model_compile(model, (ls_optimizer)ls_sgd(0.4F), LS_MEAN_SQUARED_ERROR));
    assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 300, .verbose = -1), NULL));
    assert_ok(ls_model_predict(model, data, &outputs, &shape));
    ck_assert(shape.rank == 2 && shape.dims[0] == EXAMPLES && shape.dims[1] == OUTPUTS);
    for (int i = 0; i < EXAMPLES; i++)
        for (int j = 0; j < OUTPUTS; j++)
            ck_assert_double_le(fabs((double)outputs[i * OUTPUTS + j] - (double)targets[i][j]), 0.02);
    ls_memory_free(outputs);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* Neither labels nor compile: the outputs are those of the same weights. A training needs both. */
TEST(a_prediction_needs_no_more_than_features) {
    ls_strategy *strategy = NULL;
    ls_dataset *bare = NULL, *whole = NULL;
    ls_model *models[2] = {NULL};
    float *outputs[2];
    ls_shape shapes[2];
    fill();
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    assert_ok(open_arrays(LS_DATASET(.batch_size = 20, .shuffle = LS_SHUFFLE_NEVER), &whole));
    assert_ok(ls_dataset_from_arrays(
        LS_ARRAYS(.count = EXAMPLES, .features = &features[0][0], .shape = ls_dataset_shape(whole)),
        LS_DATASET(.batch_size = 20, .shuffle = LS_SHUFFLE_NEVER), &bare));
    for (int i = 0; i < 2; i++) assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(OUTPUTS)), &models[i]));
    assert_ok(ls_model_compile(models[1], (ls_optimizer)ls_sgd(0.4F), LS_MEAN_SQUARED_ERROR));
    for (int i = 0; i < 2; i++) assert_ok(ls_model_predict(models[i], i ? whole : bare, &outputs[i], &shapes[i]));
    ck_assert(ls_shape_equal(&shapes[0], &shapes[1]) && shapes[0].dims[0] == EXAMPLES);
    ck_assert_mem_eq(outputs[0], outputs[1], sizeof(float) * EXAMPLES * OUTPUTS);
    assert_fails(ls_model_fit(models[0], whole, NULL, NULL), LS_FAILED_PRECONDITION,
                 "was not compiled before its first predict");
    assert_refused(ls_model_evaluate(models[1], bare, NULL), "has no labels");
    ck_assert_int_eq(ls_model_fit(models[1], whole, LS_FIT(.validation_data = bare), NULL), LS_INVALID_ARGUMENT);
    assert_ok(ls_model_fit(models[1], whole, LS_FIT(.verbose = -1), NULL));
    for (int i = 0; i < 2; i++) ls_memory_free(outputs[i]);
    for (int i = 0; i < 2; i++) ls_model_free(models[i]);
    ls_dataset_free(bare);
    ls_dataset_free(whole);
    ls_strategy_free(strategy);
}

struct sums {
    ls_iterator *iterator;
    double targets[2], weights[2]; /* of each local replica */
};

static ls_status add_batch(ls_replica *replica, void *context) {
    struct sums *sums = context;
    int local = ls_replica_local_id(replica);
    ls_batch batch;
    ls_status status = ls_iterator_batch(sums->iterator, replica, &batch);
    if (status || batch.labels) return status ? status : LS_INTERNAL;
    for (int64_t i = 0; i < batch.rows; i++) {
        for (int j = 0; j < OUTPUTS; j++) sums->targets[local] += (double)batch.targets[i * OUTPUTS + j];
        sums->weights[local] += (double)batch.weights[i];
    }
    return LS_OK;
}

TEST(a_custom_loop_reads_targets) {
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    struct sums sums = {NULL};
    double wanted[2] = {0}, got[2] = {0};
    bool end = false;
    fill();
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    assert_ok(open_arrays(LS_DATASET(.batch_size = 8), &data));
    assert_ok(ls_iterator_new(strategy, data, &sums.iterator));
    while (ls_iterator_next(sums.iterator, &end) == LS_OK && !end)
        assert_ok(ls_strategy_run(strategy, add_batch, &sums));
    for (int i = 0; i < EXAMPLES; i++) {
        for (int j = 0; j < OUTPUTS; j++) wanted[0] += (double)targets[i][j];
        wanted[1] += (double)weights[i];
    }
    for (int i = 0; i < 2; i++) got[0] += sums.targets[i], got[1] += sums.weights[i];
    ck_assert_double_le(fabs(got[0] - wanted[0]) + fabs(got[1] - wanted[1]), 1e-9);
    ls_iterator_free(sums.iterator);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* ---- shapes, errors ---- */

/* The answer of fit to targets of one shape and outputs of another. */
static ls_status try_fit(ls_shape target, const ls_layer *layers, size_t count, ls_loss loss) {
    static float x[8 * 4 * 4 * 2], y[8 * 4 * 4 * 2];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    for (size_t i = 0; i < sizeof(x) / sizeof(*x); i++) x[i] = (float)(i % 11) / 11, y[i] = (float)(i % 7) / 7;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    assert_ok(ls_dataset_from_arrays(
        LS_ARRAYS(.count = 8, .features = x, .shape = LS_SHAPE(4, 4, 2), .targets = y, .target_shape = target),
        LS_DATASET(.batch_size = 4), &data));
    assert_ok(ls_model_new(strategy, layers, count, &model));
    assert_ok(ls_model_compile(model, (ls_optimizer)ls_sgd(0.1F), loss));
    ls_status status = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return status;
}

TEST(a_shape_that_does_not_fit_is_named) {
    const ls_layer one[] = {ls_dense(1)}, five[] = {ls_dense(5)}, image[] = {ls_conv2d(2, 3, 1, LS_SAME)},
                   grey[] = {ls_conv2d(1, 3, 1, LS_SAME)};
    assert_ok(try_fit((ls_shape){0}, one, 1, LS_MEAN_ABSOLUTE_ERROR));
    assert_ok(try_fit(LS_SHAPE(1), one, 1, LS_HUBER));
    assert_ok(try_fit(LS_SHAPE(5), five, 1, LS_BINARY_CROSSENTROPY));
    assert_ok(try_fit(LS_SHAPE(5), five, 1, LS_CATEGORICAL_CROSSENTROPY));
    assert_ok(try_fit(LS_SHAPE(4, 4, 2), image, 1, LS_MEAN_SQUARED_ERROR));
    assert_ok(try_fit(LS_SHAPE(4, 4), grey, 1, LS_MEAN_SQUARED_ERROR));
    assert_refused(try_fit(LS_SHAPE(4), five, 1, LS_HUBER), "targets have shape (4), the model's outputs (5)");
    assert_refused(try_fit(LS_SHAPE(4, 4), image, 1, LS_HUBER),
                   "targets have shape (4, 4), the model's outputs (4, 4, 2)");
    assert_refused(try_fit((ls_shape){0}, five, 1, LS_HUBER), "targets have shape (), the model's outputs (5)");
    assert_refused(try_fit(LS_SHAPE(5), five, 1, LS_SPARSE_CATEGORICAL_CROSSENTROPY),
                   "sparse_categorical_crossentropy needs class numbers");
    assert_ok(try_fit(LS_SHAPE(4, 4, 2), image, 1, LS_CATEGORICAL_CROSSENTROPY));
    assert_refused(try_fit(LS_SHAPE(4, 4), image, 1, LS_SPARSE_CATEGORICAL_CROSSENTROPY),
                   "targets are numbers of shape (4, 4)");
}

/* Without targets, whatever their shape says, the outputs have the same bits. */
static void predict_without_targets(ls_model *model, ls_dataset *data, ls_arrays arrays) {
    ls_dataset *bare = NULL;
    ls_shape shapes[3];
    float *outputs[3] = {0};
    arrays.targets = NULL;
    assert_ok(ls_dataset_from_arrays(&arrays, LS_DATASET(.batch_size = 5, .shuffle = LS_SHUFFLE_NEVER), &bare));
    assert_ok(ls_model_predict(model, data, &outputs[0], &shapes[0]));
    assert_ok(ls_model_predict(model, bare, &outputs[1], &shapes[1]));
    assert_ok(ls_model_predict_on_batch(model, &arrays, &outputs[2], &shapes[2]));
    for (int i = 1; i < 3; i++) {
        ck_assert(ls_shape_equal(&shapes[i], &shapes[0]));
        ck_assert_mem_eq(outputs[i], outputs[0], (size_t)ls_shape_count(&shapes[0]) * sizeof(float));
    }
    for (int i = 0; i < 3; i++) ls_memory_free(outputs[i]);
    ls_dataset_free(bare);
}

/* Trains on 12 sequences of 4 positions, or on their positions as 48 examples; the loss of an evaluation before and of
 * the training. */
static void fit_positions(bool flat, bool one_hot, double losses[2]) {
    enum { SEQUENCES = 12, POSITIONS = 4, CLASSES = 3 };
    const ls_shape shapes[] = {LS_SHAPE(POSITIONS, 2), LS_SHAPE(2), LS_SHAPE(POSITIONS), {0}};
    float x[SEQUENCES * POSITIONS * 2], y[SEQUENCES * POSITIONS * CLASSES] = {0};
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    int count = flat ? SEQUENCES * POSITIONS : SEQUENCES;
    for (int i = 0; i < SEQUENCES * POSITIONS; i++) {
        x[2 * i] = (float)(i % 7) / 7, x[2 * i + 1] = (float)(i % 5) / 5;
        y[one_hot ? i * CLASSES + i % CLASSES : i] = one_hot ? 1 : (float)(i % CLASSES);
    }
    ls_shape target = shapes[2 + flat];
    if (one_hot) target.dims[target.rank++] = CLASSES;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    const ls_arrays *arrays =
        LS_ARRAYS(.count = count, .features = x, .shape = shapes[flat], .targets = y, .target_shape = target);
    assert_ok(ls_dataset_from_arrays(arrays, LS_DATASET(.batch_size = count / 2, .shuffle = LS_SHUFFLE_NEVER), &data));
    assert_ok(ls_model_new(
        strategy, LS_LAYERS(ls_dense(8, LS_TANH, .per_position = true), ls_dense(CLASSES, .per_position = true)),
        &model));
    assert_ok(ls_model_compile(model, (ls_optimizer)ls_sgd(0.5F),
                               one_hot ? LS_CATEGORICAL_CROSSENTROPY : LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(ls_model_evaluate(model, data, &result));
    losses[0] = result.loss;
    assert_ok(ls_model_fit(model, data, LS_FIT(.verbose = -1, .epochs = 3), &result));
    losses[1] = result.loss;
    ck_assert(result.accuracy > 0 && result.accuracy <= 1);
    predict_without_targets(model, data, *arrays);
    if (!flat)
        assert_refused(ls_model_fit(model, data, LS_FIT(.verbose = -1, .class_weight = LS_CLASS_WEIGHT({0, 2})), NULL),
                       "a class for each position");
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* Classes for each position of an example, as numbers or as rows with a 1. */
TEST_EACH(positions_train_as_examples_do, 2) {
    double whole[2], flat[2];
    fit_positions(false, _i, whole);
    fit_positions(true, _i, flat);
    for (int i = 0; i < 2; i++) ck_assert_double_le(fabs(whole[i] - flat[i]), 1e-5 * flat[i]);
    ck_assert(whole[1] < whole[0]);
}

static ls_status fit_digits(const ls_layer *layers, size_t count, const ls_class_weight *weight) {
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    assert_ok(ls_dataset_digits(LS_DATASET(.limit = 8), &data));
    assert_ok(ls_model_new(strategy, layers, count, &model));
    assert_ok(ls_model_compile(model, (ls_optimizer)ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    ls_status status = ls_model_fit(model, data, LS_FIT(.verbose = -1, .class_weight = weight), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return status;
}

TEST(class_weights_need_classes) {
    const ls_layer image[] = {ls_conv2d(2, 3)}, ten[] = {ls_dense(10)};
    assert_refused(fit_digits(image, 1, NULL), "the dataset has one class an example, which needs one axis");
    assert_ok(fit_digits(ten, 1, LS_CLASS_WEIGHT({9, 0})));
    assert_refused(fit_digits(ten, 1, LS_CLASS_WEIGHT({10, 1})), "class 10 is none of the dataset's 10");
    assert_refused(fit_digits(ten, 1, LS_CLASS_WEIGHT({1, 1}, {2, -1})), "the weight -1 of class 2");
    assert_refused(fit_digits(ten, 1, LS_CLASS_WEIGHT({1, 1}, {1, 2})), "class 1 is there twice");
}

/* Rank 1 brings labels, or other weights. */
static ls_status differ(struct worker *worker) {
    static const int32_t labels[EXAMPLES] = {0};
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    bool classes = *(const int *)worker->context == 0 && worker->rank;
    ls_status st =
        classes ? ls_dataset_arrays(&features[0][0], LS_SHAPE(WIDTH), labels, EXAMPLES, 1, NULL, &data)
                : ls_dataset_from_arrays(
                      LS_ARRAYS(.count = EXAMPLES, .features = &features[0][0], .shape = LS_SHAPE(WIDTH),
                                .targets = &targets[0][0], .target_shape = (ls_shape){0},
                                .sample_weights = worker->rank && *(const int *)worker->context == 1 ? weights : NULL),
                      NULL, &data);
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(1)), &model);
    if (!st) st = ls_model_compile(model, (ls_optimizer)ls_sgd(0.1F), LS_MEAN_SQUARED_ERROR);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

/* Classes as integers, as floats, and as floats of an axis of 1. */
struct form {
    int axes; /* of floats; -1: integers */
    bool weighted;
    char digests[MAX_WORKERS][65];
    double correct;
};
static float classes[EXAMPLES];
static int32_t labels[EXAMPLES];

static ls_status open_classes(const struct form *form, ls_dataset **data) {
    ls_arrays given = {.size = sizeof(given), .count = EXAMPLES, .features = &features[0][0], .shape = LS_SHAPE(WIDTH)};
    if (form->axes < 0) {
        given.labels = labels;
        given.classes = OUTPUTS;
    } else {
        given.targets = classes;
        given.target_shape = (ls_shape){form->axes, {1}};
    }
    return ls_dataset_from_arrays(&given, LS_DATASET(.batch_size = 18, .seed = 4), data);
}

static ls_status train_classes(struct worker *worker) {
    struct form *form = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result = {0};
    ls_status st = open_classes(form, &data);
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(9, LS_RELU), ls_dense(OUTPUTS)), &model);
    if (!st) st = ls_model_compile(model, (ls_optimizer)ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st)
        st = ls_model_fit(model, data,
                          LS_FIT(.epochs = 3, .validation_data = data, .verbose = -1,
                                 .class_weight = form->weighted ? LS_CLASS_WEIGHT({1, 2.5F}) : NULL),
                          &result);
    if (!st) st = ls_model_weights_sha256(model, form->digests[worker->rank]);
    if (!worker->rank) form->correct = result.accuracy;
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static void fill_classes(void) {
    fill();
    for (int i = 0; i < EXAMPLES; i++) {
        labels[i] = i * 7 % OUTPUTS;
        classes[i] = (float)labels[i];
    }
}

TEST_EACH(whole_floats_are_classes, 2) {
    struct form wanted = {.axes = -1, .weighted = _i};
    struct worker_cluster cluster = {.count = 2, .devices = {2, 1}, .fn = train_classes, .context = &wanted};
    fill_classes();
    run_workers_ok(&cluster);
    for (int axes = 0; axes < 2; axes++) {
        struct form form = {.axes = axes, .weighted = _i};
        cluster.context = &form;
        run_workers_ok(&cluster);
        ck_assert_str_eq(form.digests[0], wanted.digests[0]);
        ck_assert_str_eq(form.digests[1], wanted.digests[0]);
        ck_assert(form.correct == wanted.correct);
    }
}

/* The first of them is named. */
TEST(floats_that_are_no_classes_are_named) {
    static const float others[] = {0.5F, -1, NAN, INFINITY, 1e9F, 2.0000002F};
    for (int i = 0; i < 6; i++) {
        struct form form = {0};
        struct worker_cluster cluster = {.count = 1, .devices = {1}, .fn = train_classes, .context = &form};
        char place[64];
        fill_classes();
        classes[7 * (i + 1)] = others[i];
        classes[EXAMPLES - 1] = 0.75F;
        run_workers(&cluster);
        (void)snprintf(place, sizeof(place), "whole and from 0: example %d has %g", 7 * (i + 1), (double)others[i]);
        ck_assert_int_eq(cluster.workers[0].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[0].error, place), "'%s' does not say '%s'", cluster.workers[0].error,
                      place);
    }
}

TEST_EACH(workers_with_different_targets_are_refused, 2) {
    int what = _i;
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = differ, .context = &what};
    fill();
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error,
                             _i ? "data classes differs: 'numbers ()' on worker:0 (rank 0), 'numbers (), weighted' on"
                                : "data classes differs: 'numbers ()' on worker:0 (rank 0), '1' on"),
                      "'%s'", cluster.workers[i].error);
    }
}

TESTS("targets", .seconds = 120)
