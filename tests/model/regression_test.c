/* Losses and metrics of targets that are numbers, of any shape, with weights and without: what Keras computes
 * (tests/golden/record_regression.py). */
#include <stdio.h>

#include "golden/golden.h"
#include "harness.h"
#include "model/model_fixture.h"
#include "model/objective.h"

static const struct {
    const char *name;
    ls_loss loss;
    float delta;
} losses[] = {
    {"mean_squared_error", LS_MEAN_SQUARED_ERROR, 0},
    {"mean_absolute_error", LS_MEAN_ABSOLUTE_ERROR, 0},
    {"huber", LS_HUBER, 0},
    {"huber_quarter", LS_HUBER, 0.25F},
    {"binary_crossentropy", LS_BINARY_CROSSENTROPY, 0},
    {"categorical_crossentropy", LS_CATEGORICAL_CROSSENTROPY, 0},
};
static const char *const shapes[] = {"flat", "single", "image"};

/* A recorded case, as an op has it: (rows, numbers of a row). */
struct sample {
    const struct golden *golden;
    const struct golden_tensor *outputs, *targets, *weights;
    bool weighted;
    int64_t rows;
    ls_shape shape;
};

static struct sample find_sample(const struct golden *golden, const char *key, bool weighted) {
    struct sample sample = {.golden = golden, .weighted = weighted};
    sample.outputs = golden_find(golden, "%s/outputs", key);
    sample.targets = golden_find(golden, "%s/targets", key);
    sample.weights = golden_find(golden, "%s/weights", key);
    sample.rows = sample.outputs->shape.dims[0];
    sample.shape = LS_SHAPE(sample.rows, sample.outputs->count / sample.rows);
    return sample;
}

static void point(const struct sample *sample, struct ls_op *op) {
    op->tensors[LS_ARG_LOGITS] = (struct ls_tensor){sample->outputs->values, LS_FLOAT32, sample->shape, 0};
    op->tensors[LS_ARG_LABELS] = (struct ls_tensor){sample->targets->values, LS_FLOAT32, sample->shape, 0};
    if (sample->weighted)
        op->tensors[LS_ARG_WEIGHTS] =
            (struct ls_tensor){sample->weights->values, LS_FLOAT32, LS_SHAPE(sample->rows), 0};
}

static void run(struct ls_device *device, struct ls_op *op) {
    assert_ok(device->ops->build(device, op));
    assert_ok(op->run(op));
    device->ops->discard(device, op);
}

static void check_loss(struct ls_device *device, const struct sample *sample, int index, const char *key) {
    const char *how = sample->weighted ? "weighted" : "plain";
    ls_compile_options options = {.size = sizeof(options), .huber_delta = losses[index].delta};
    struct ls_objective objective;
    struct ls_loss_sums sums = {0};
    float gradient[64], scale = 1 / (float)sample->rows, mean;
    assert_ok(ls_objective_new(losses[index].loss, &options, &objective));
    struct ls_op op = {
        .kind = ls_objective_op(&objective), .beta = objective.huber_delta, .scale = &scale, .sums = &sums};
    point(sample, &op);
    op.tensors[LS_ARG_DLOGITS] = (struct ls_tensor){gradient, LS_FLOAT32, sample->shape, 0};
    run(device, &op);
    const struct golden_tensor *wanted = golden_find(sample->golden, "%s/%s/gradient", key, how);
    mean = (float)(sums.loss / (double)sample->rows);
    assert_near("loss", &mean, golden_find(sample->golden, "%s/%s/loss", key, how)->values, 1, 2e-6);
    assert_near("gradient", gradient, wanted->values, wanted->count, 2e-6);
}

static void check_metric(struct ls_device *device, const struct sample *sample, ls_metric metric, const char *key) {
    const char *how = sample->weighted ? "weighted" : "plain";
    double sum = 0, count = 0;
    for (int64_t r = 0; r < sample->rows; r++) count += sample->weighted ? (double)sample->weights->values[r] : 1;
    struct ls_op op = {.kind = LS_OP_METRIC, .metric = metric, .value = &sum};
    point(sample, &op);
    run(device, &op);
    float mean = (float)(sum / count);
    assert_near(key, &mean, golden_find(sample->golden, "%s/%s/%s", key, how, ls_metric_name(&metric))->values, 1,
                2e-6);
}

TEST_EACH(losses_and_metrics_equal_keras, COUNT_OF(losses)) {
    struct golden *golden = golden_open("regression.txt");
    struct ls_device *device = open_cpu();
    for (int s = 0; s < (losses[_i].loss == LS_CATEGORICAL_CROSSENTROPY ? 1 : 3); s++)
        for (int weighted = 0; weighted < 2; weighted++) {
            char key[64];
            (void)snprintf(key, sizeof(key), "%s/%s", losses[_i].name, shapes[s]);
            struct sample sample = find_sample(golden, key, weighted);
            check_loss(device, &sample, _i, key);
            check_metric(device, &sample, (ls_metric)ls_mean_squared_error(), key);
            check_metric(device, &sample, (ls_metric)ls_mean_absolute_error(), key);
        }
    ls_device_close(device);
    golden_close(golden);
}

/* Keras says "weighted_" where a metric is there without weights too. */
TEST(metrics_have_the_names_of_keras) {
    struct ls_objective objective;
    assert_ok(
        ls_objective_new(LS_HUBER,
                         LS_COMPILE(.metrics = LS_METRICS(ls_mean_absolute_error()),
                                    .weighted_metrics = LS_METRICS(ls_mean_absolute_error(), ls_mean_squared_error())),
                         &objective));
    ck_assert_int_eq(objective.metric_count, 3);
    ck_assert_str_eq(ls_objective_metric_name(&objective, 0), "mean_absolute_error");
    ck_assert_str_eq(ls_objective_metric_name(&objective, 1), "weighted_mean_absolute_error");
    ck_assert_str_eq(ls_objective_metric_name(&objective, 2), "mean_squared_error");
}

TESTS("regression")
