/* Mixed precision in training, on the device that LOCKSTEP_TEST_DEVICE names, or on devices that round where there is
 * no GPU: near float32, the same on all replicas; what an overflow does and does not change; the loss scale in
 * checkpoints; what is refused. */
#include <stdio.h>
#include <unistd.h>

#include "base/options.h"
#include "harness.h"
#include "model/rounding_device.h"
#include "strategy/strategy.h"
#include "train/model.h"
#include "strategy/workers.h"

#define EXAMPLES 40
#define WIDTH    6
#define REPLICAS 2

struct toy {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
};

/* A strategy whose devices round, and a model with data for it. */
struct subject {
    struct toy toy;
    struct rounding devices[REPLICAS];
    ls_strategy *strategy;
    ls_dataset *data;
    ls_model *model;
};

static void fill_toy(struct toy *toy) {
    for (int i = 0; i < EXAMPLES; i++) {
        toy->labels[i] = i % 3;
        for (int j = 0; j < WIDTH; j++)
            toy->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F + (j == i % 3 ? 1.0F : 0);
    }
}

static void open_data(struct subject *subject) {
    fill_toy(&subject->toy);
    assert_ok(ls_dataset_arrays(&subject->toy.features[0][0], LS_SHAPE(WIDTH), subject->toy.labels, EXAMPLES, 3,
                                LS_DATASET(.batch_size = 8, .seed = 3), &subject->data));
}

/* With statistics and random numbers. */
static void make_model(struct subject *subject, ls_optimizer optimizer, ls_precision precision) {
    assert_ok(ls_model_new(subject->strategy,
                           LS_LAYERS(ls_dense(8, LS_RELU), ls_batch_normalization(), ls_dropout(0.2F), ls_dense(3)),
                           &subject->model));
    assert_ok(ls_model_compile_with(subject->model, optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                    LS_COMPILE(.precision = precision)));
}

static const char *gpus(void) {
    return getenv("LOCKSTEP_TEST_DEVICE");
}

static void open_strategy(struct subject *subject) {
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = gpus() ? gpus() : "2"), &subject->strategy));
    if (gpus()) return;
    ls_replicas_stop(subject->strategy);
    for (int i = 0; i < REPLICAS; i++) {
        ls_replica *replica = &subject->strategy->replicas[i];
        rounding_open(replica->device, true, &subject->devices[i]);
        replica->device = &subject->devices[i].device;
    }
    assert_ok(ls_replicas_start(subject->strategy));
}

static void open_subject(struct subject *subject, ls_optimizer optimizer, ls_precision precision) {
    open_strategy(subject);
    open_data(subject);
    make_model(subject, optimizer, precision);
}

static void close_subject(struct subject *subject) {
    ls_model_free(subject->model);
    ls_dataset_free(subject->data);
    ls_strategy_free(subject->strategy);
}

static ls_result fit(struct subject *subject, int64_t steps) {
    ls_result result;
    assert_ok(ls_model_fit(subject->model, subject->data, LS_FIT(.steps_per_epoch = steps, .verbose = -1), &result));
    return result;
}

/* The loss of a smooth model, in which roundings do not grow. */
static ls_result trained_with(const ls_compile_options *options, char sha256[65]) {
    struct subject subject;
    open_subject(&subject, ls_sgd(0.2F), options->precision);
    ls_result result;
    ls_model_free(subject.model);
    assert_ok(ls_model_new(subject.strategy, LS_LAYERS(ls_dense(8, LS_TANH), ls_dense(3)), &subject.model));
    assert_ok(ls_model_compile_with(subject.model, ls_sgd(0.2F), LS_SPARSE_CATEGORICAL_CROSSENTROPY, options));
    assert_ok(ls_model_fit(subject.model, subject.data, LS_FIT(.epochs = 12, .verbose = -1), &result));
    assert_ok(ls_model_weights_sha256(subject.model, sha256));
    assert_ok(ls_model_evaluate(subject.model, subject.data, &result));
    close_subject(&subject);
    return result;
}

static ls_result trained(ls_precision precision, char sha256[65]) {
    return trained_with(LS_COMPILE(.precision = precision), sha256);
}

TEST_EACH(sixteen_bits_are_near_float32, 2) {
    char wide[65], half[65], again[65];
    ls_precision precision = _i ? LS_MIXED_FLOAT16 : LS_MIXED_BFLOAT16;
    ls_result right = trained(LS_PRECISION_FLOAT32, wide), result = trained(precision, half);
    ck_assert_double_lt(right.loss, 0.5);
    ck_assert_double_eq_tol(result.loss, right.loss, _i ? 0.0005 : 0.004);
    ck_assert_str_ne(wide, half);
    (void)trained(precision, again);
    ck_assert_str_eq(half, again);
}

TEST(the_result_tells_of_the_scale) {
    struct subject subject;
    open_subject(&subject, ls_adam(0.05F), LS_MIXED_FLOAT16);
    ls_result result = fit(&subject, 5);
    ck_assert(result.loss_scale == 32768 && result.skipped_steps == 0 && result.steps == 5);
    ck_assert_int_eq(subject.model->progress.scaler.good_steps, 5);
    close_subject(&subject);
    open_subject(&subject, ls_adam(0.05F), LS_MIXED_BFLOAT16);
    result = fit(&subject, 5);
    ck_assert(result.loss_scale == 0 && result.skipped_steps == 0);
    close_subject(&subject);
}

/* ---- images, on a GPU ---- */

static const struct picture_model {
    const char *name;
    int64_t size;
    int steps;
    double tolerance; /* of bfloat16; float16 has three bits more. Fifty layers that normalize few values add noise */
} picture_models[] = {{"lenet", 28, 4, 2e-3}, {"mobilenet_v2", 32, 1, 0.15}};

#define PICTURES 16
static double picture_loss(const struct picture_model *choice, ls_precision precision) {
    struct subject subject;
    ls_layer *layers = NULL;
    size_t count = 0;
    const ls_shape shape = LS_SHAPE(choice->size, choice->size, 3);
    int64_t floats = ls_shape_count(&shape);
    int32_t labels[PICTURES];
    float *pixels = new_floats(PICTURES * floats);
    for (int64_t i = 0; i < PICTURES * floats; i++) pixels[i] = (float)ls_random_normal(3, 1, (uint64_t)i);
    for (int32_t i = 0; i < PICTURES; i++) labels[i] = i % 4;
    open_strategy(&subject);
    assert_ok(ls_dataset_arrays(pixels, shape, labels, PICTURES, 4, LS_DATASET(.batch_size = PICTURES), &subject.data));
    assert_ok(ls_application(choice->name, LS_APPLICATION(.classes = 4, .alpha = choice->steps > 1 ? 0 : 0.35F),
                             &layers, &count));
    assert_ok(ls_model_new(subject.strategy, layers, count, &subject.model));
    assert_ok(ls_model_compile_with(subject.model, ls_sgd(0.05F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                    LS_COMPILE(.precision = precision)));
    double loss = fit(&subject, choice->steps).loss;
    close_subject(&subject);
    ls_memory_free(layers);
    ls_free(pixels);
    return loss;
}

TEST_EACH(pictures_are_near_float32, gpus() ? (SANITIZED ? 1 : 2) : 0) {
    const struct picture_model *choice = &picture_models[_i];
    double right = picture_loss(choice, LS_PRECISION_FLOAT32), bfloat16 = picture_loss(choice, LS_MIXED_BFLOAT16);
    double float16 = picture_loss(choice, LS_MIXED_FLOAT16);
    ck_assert(bfloat16 != right && float16 != right);
    ck_assert_double_eq_tol(bfloat16 / right, 1, choice->tolerance);
    ck_assert_double_eq_tol(float16 / right, 1, choice->tolerance / 4);
}

/* ---- overflows ---- */

/* Steps with too large a scale change nothing: variables, statistics, moments, bias corrections, nor the rate. */
TEST_EACH(skipped_steps_change_nothing, 2) {
    struct subject skipping, plain;
    char before[65], after[65], right[65];
    ls_optimizer optimizer = _i ? (ls_optimizer)ls_adam(0.05F) : (ls_optimizer)ls_sgd(0.05F, .momentum = 0.9F);
    optimizer.schedule = (ls_rate_schedule){.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 2, .decay_rate = 0.5F};
    open_subject(&skipping, optimizer, LS_MIXED_FLOAT16);
    open_subject(&plain, optimizer, LS_MIXED_FLOAT16);
    skipping.model->progress.scaler.scale = 0x1p50F;
    assert_ok(ls_model_evaluate(skipping.model, skipping.data, NULL)); /* builds it */
    assert_ok(ls_model_weights_sha256(skipping.model, before));
    ls_result result = fit(&skipping, 7);
    assert_ok(ls_model_weights_sha256(skipping.model, after));
    ck_assert(result.steps == 7 && result.skipped_steps == 7 && result.loss_scale == 0x1p43);
    ck_assert_str_eq(before, after);
    float rate = 0;
    assert_ok(ls_model_learning_rate(skipping.model, &rate));
    ck_assert(rate == 0.05F);

    /* the same steps from here as from the beginning, but for what hangs on their number: dropout's random numbers */
    skipping.model->progress.scaler.scale = plain.model->progress.scaler.scale = 0x1p10F;
    plain.model->progress.step.iteration = 7;
    plain.model->progress.scaler.skipped = 7;
    (void)fit(&skipping, 6);
    (void)fit(&plain, 6);
    assert_ok(ls_model_weights_sha256(skipping.model, after));
    assert_ok(ls_model_weights_sha256(plain.model, right));
    ck_assert_str_eq(after, right);
    ck_assert_str_ne(after, before);
    close_subject(&skipping);
    close_subject(&plain);
}

TEST(the_scale_comes_down_until_it_fits) {
    struct subject subject;
    open_subject(&subject, ls_adam(0.05F), LS_MIXED_FLOAT16);
    subject.model->progress.scaler.scale = 0x1p30F;
    ls_result result;
    assert_ok(ls_model_fit(subject.model, subject.data, LS_FIT(.epochs = 10, .verbose = -1), &result));
    ck_assert_int_ge(result.skipped_steps, 5);
    ck_assert_int_le(result.skipped_steps, 25);
    ck_assert(result.loss_scale == 0x1p30 / (double)(1 << result.skipped_steps));
    ck_assert_double_lt(result.loss, 0.8);
    close_subject(&subject);
}

TEST(a_batch_of_several_that_overflows_spoils_the_step) {
    struct subject subject;
    char before[65], after[65];
    open_subject(&subject, ls_sgd(0.05F, .gradient_accumulation_steps = 2), LS_MIXED_FLOAT16);
    assert_ok(ls_model_evaluate(subject.model, subject.data, NULL));
    assert_ok(ls_model_weights_sha256(subject.model, before));
    subject.model->progress.scaler.scale = 0x1p50F;
    ls_result result = fit(&subject, 4);
    ck_assert(result.steps == 2 && result.skipped_steps == 2);
    assert_ok(ls_model_weights_sha256(subject.model, after));
    ck_assert_str_eq(before, after);
    subject.model->progress.scaler.scale = 0x1p10F;
    result = fit(&subject, 4);
    ck_assert(result.steps == 4 && result.skipped_steps == 2);
    assert_ok(ls_model_weights_sha256(subject.model, after));
    ck_assert_str_ne(before, after);
    close_subject(&subject);
}

/* ---- checkpoints ---- */

struct watch {
    struct subject *subject;
    int64_t stop_after; /* steps */
};

static ls_request request(void *context) {
    const struct watch *watch = context;
    return watch->subject->model->progress.step.iteration + 1 == watch->stop_after ? LS_STOP : LS_GO_ON;
}

/* In a folder, stopped there if it is to be; the scale is so large at first that some steps are skipped. */
static ls_status fit_in(const char *folder, int64_t stop_after, ls_precision precision, ls_result *result,
                        char sha256[65]) {
    struct subject subject;
    struct watch watch = {&subject, stop_after};
    open_subject(&subject, ls_adam(0.05F), precision);
    if (precision == LS_MIXED_FLOAT16) subject.model->progress.scaler.scale = 0x1p24F;
    ls_status status = ls_model_fit(subject.model, subject.data,
                                    LS_FIT(.epochs = 6, .verbose = -1, .request = request, .context = &watch,
                                           .checkpoint = LS_CHECKPOINT(.folder = folder)),
                                    result);
    if (!status) assert_ok(ls_model_weights_sha256(subject.model, sha256));
    close_subject(&subject);
    return status;
}

TEST(a_checkpoint_keeps_the_scale) {
    char whole[65], resumed[65], folder[] = "/tmp/lockstep-precision-XXXXXX";
    ls_result right, result = {0};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    assert_ok(fit_in(folder, 0, LS_MIXED_FLOAT16, &right, whole));
    ck_assert_int_gt(right.skipped_steps, 0);
    ck_assert_int_eq(fit_in(folder, right.skipped_steps + 3, LS_MIXED_FLOAT16, &result, resumed), LS_CANCELLED);
    assert_refused(fit_in(folder, 0, LS_MIXED_BFLOAT16, &result, resumed),
                   "precision differs: 'mixed_float16' there, 'mixed_bfloat16' here");
    assert_ok(fit_in(folder, 0, LS_MIXED_FLOAT16, &result, resumed));
    ck_assert_str_eq(whole, resumed);
    ck_assert(result.skipped_steps == right.skipped_steps && result.loss_scale == right.loss_scale);
    ck_assert(result.loss == right.loss && result.steps == right.steps);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- who can not, and who differs ---- */

TEST_EACH(a_cpu_has_no_float16, gpus() ? 0 : 1) {
    struct subject subject;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &subject.strategy));
    assert_ok(ls_model_new(subject.strategy, LS_LAYERS(ls_dense(3)), &subject.model));
    ls_status status = ls_model_compile_with(subject.model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                             LS_COMPILE(.precision = LS_MIXED_FLOAT16));
    ck_assert_int_eq(status, LS_UNIMPLEMENTED);
    ck_assert_msg(strstr(ls_error(), "precision mixed_float16: cpu:0 has no op") && strstr(ls_error(), "need a GPU"),
                  "%s", ls_error());
    ls_model_free(subject.model);
    ls_strategy_free(subject.strategy);
}

/* ---- factors of bfloat16 on CPUs ---- */

/* Two replicas of so many threads. False where the processor has no such product, which is one error. */
static bool train_on_cpus(ls_precision precision, int threads, ls_result *result, char sha256[65]) {
    struct subject subject;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2", .threads_per_replica = threads), &subject.strategy));
    open_data(&subject);
    assert_ok(ls_model_new(subject.strategy, LS_LAYERS(ls_dense(40, LS_TANH), ls_dense(3)), &subject.model));
    ls_status status = ls_model_compile_with(subject.model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                             LS_COMPILE(.precision = precision));
    if (status) assert_fails(status, LS_UNIMPLEMENTED, "precision mixed_bfloat16: oneDNN has no product of bfloat16");
    if (!status) {
        assert_ok(ls_model_fit(subject.model, subject.data, LS_FIT(.epochs = 12, .verbose = -1), result));
        assert_ok(ls_model_weights_sha256(subject.model, sha256));
    }
    close_subject(&subject);
    return !status;
}

TEST_EACH(a_cpu_rounds_the_factors_of_products, gpus() ? 0 : 1) {
    char wide[65], narrow[65], threads[65];
    ls_result right, result, other;
    (void)train_on_cpus(LS_PRECISION_FLOAT32, 1, &right, wide);
    if (!train_on_cpus(LS_MIXED_BFLOAT16, 1, &result, narrow)) return;
    (void)train_on_cpus(LS_MIXED_BFLOAT16, 2, &other, threads);
    ck_assert_str_eq(narrow, threads);
    ck_assert_str_ne(narrow, wide);
    ck_assert_double_lt(right.loss, 0.5);
    ck_assert_double_eq_tol(result.loss, right.loss, 0.004);
    ck_assert(result.loss_scale == 0 && result.skipped_steps == 0);
}

TEST_EACH(what_gpus_choose_is_one_on_a_cpu, gpus() ? 0 : 1) {
    char plain[65], tf32[65], any_order[65];
    (void)trained(LS_PRECISION_FLOAT32, plain);
    (void)trained(LS_PRECISION_TF32, tf32);
    (void)trained_with(LS_COMPILE(.nondeterministic_ops = true), any_order);
    ck_assert_str_eq(plain, tf32);
    ck_assert_str_eq(plain, any_order);
}

/* The compile options of rank 1, and the text that the error has about them. */
static const struct choice {
    ls_compile_options options;
    const char *message;
} choices[] = {{{.precision = LS_PRECISION_TF32}, "precision differs: '(absent)' on "},
               {{.nondeterministic_ops = true}, "nondeterministic_ops differs: '(absent)' on "}};

static ls_status train_differently(struct worker *worker) {
    const struct choice *choice = worker->context;
    struct subject subject = {.strategy = worker->strategy};
    ls_compile_options options = choice->options;
    open_data(&subject);
    make_model(&subject, ls_sgd(0.1F), LS_PRECISION_FLOAT32);
    options.size = sizeof(options);
    if (worker->rank)
        assert_ok(ls_model_compile_with(subject.model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY, &options));
    ls_status status = ls_model_fit(subject.model, subject.data, LS_FIT(.verbose = -1), NULL);
    ls_model_free(subject.model);
    ls_dataset_free(subject.data);
    return status;
}

TEST_EACH(workers_compare_it, gpus() ? 0 : 2) {
    struct choice choice = choices[_i];
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = train_differently, .context = &choice};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, choice.message), "%s", cluster.workers[i].error);
    }
}

TESTS("precision", .seconds = 240)
