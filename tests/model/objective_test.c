/* Losses and metrics: what Keras computes, defaults, errors, descriptions, and the edges of probabilities. */
#include "golden/golden.h"
#include "harness.h"
#include "model/model_fixture.h"
#include "model/objective.h"

#define SCALE 0.25F

/* Outputs and labels of a recorded case. */
struct outputs {
    struct ls_device *device;
    struct golden *golden;
    const struct golden_tensor *values;
    int32_t labels[16];
    float gradient[64];
    struct ls_loss_sums sums;
    float scale;
};

static struct outputs open_outputs(const char *values, const char *labels) {
    struct outputs outputs = {.device = open_cpu(), .golden = golden_open("losses.txt"), .scale = SCALE};
    outputs.values = golden_find(outputs.golden, "%s", values);
    const struct golden_tensor *given = golden_find(outputs.golden, "%s", labels);
    for (int64_t i = 0; i < given->count; i++) outputs.labels[i] = (int32_t)given->values[i];
    return outputs;
}

static void close_outputs(struct outputs *outputs) {
    golden_close(outputs->golden);
    ls_device_close(outputs->device);
}

static void run(struct outputs *outputs, struct ls_op *op) {
    ls_shape shape = outputs->values->shape;
    op->sums = &outputs->sums;
    op->scale = &outputs->scale;
    op->tensors[LS_ARG_LOGITS] = (struct ls_tensor){outputs->values->values, LS_FLOAT32, shape, 0};
    op->tensors[LS_ARG_LABELS] = (struct ls_tensor){outputs->labels, LS_INT32, LS_SHAPE(shape.dims[0]), 0};
    if (op->kind != LS_OP_METRIC)
        op->tensors[LS_ARG_DLOGITS] = (struct ls_tensor){outputs->gradient, LS_FLOAT32, shape, 0};
    assert_ok(outputs->device->ops->build(outputs->device, op));
    assert_ok(op->run(op));
    outputs->device->ops->discard(outputs->device, op);
}

/* ---- against Keras ---- */

static const struct {
    const char *name, *outputs, *labels;
    ls_loss loss;
    ls_compile_options options;
    float factor; /* of the outputs */
} losses[] = {
    {"sparse", "logits", "labels", LS_SPARSE_CATEGORICAL_CROSSENTROPY, {0}, 1},
    {"sparse_probabilities", "shares", "labels", LS_SPARSE_CATEGORICAL_CROSSENTROPY, {.from_probabilities = true}, 1},
    {"categorical", "logits", "labels", LS_CATEGORICAL_CROSSENTROPY, {0}, 1},
    {"categorical_smooth", "logits", "labels", LS_CATEGORICAL_CROSSENTROPY, {.label_smoothing = 0.1F}, 1},
    {"categorical_probabilities",
     "shares",
     "labels",
     LS_CATEGORICAL_CROSSENTROPY,
     {.from_probabilities = true, .label_smoothing = 0.1F},
     2},
    {"binary", "single", "ones", LS_BINARY_CROSSENTROPY, {0}, 1},
    {"binary_several", "logits", "labels", LS_BINARY_CROSSENTROPY, {.label_smoothing = 0.2F}, 1},
    {"binary_probabilities",
     "chance",
     "ones",
     LS_BINARY_CROSSENTROPY,
     {.from_probabilities = true, .label_smoothing = 0.2F},
     1},
    {"squares", "logits", "labels", LS_MEAN_SQUARED_ERROR, {0}, 1},
    {"squares_single", "single", "ones", LS_MEAN_SQUARED_ERROR, {0}, 1},
};

TEST_EACH(loss_and_gradient_equal_keras, COUNT_OF(losses)) {
    struct outputs outputs = open_outputs(losses[_i].outputs, losses[_i].labels);
    const struct golden_tensor *loss = golden_find(outputs.golden, "%s/loss", losses[_i].name);
    const struct golden_tensor *gradient = golden_find(outputs.golden, "%s/gradient", losses[_i].name);
    ls_compile_options options = losses[_i].options;
    struct ls_objective objective;
    options.size = sizeof(options);
    assert_ok(ls_objective_new(losses[_i].loss, &options, &objective));
    for (int64_t i = 0; i < outputs.values->count; i++) outputs.values->values[i] *= losses[_i].factor;
    int64_t rows = outputs.values->shape.dims[0];
    outputs.scale = 1 / (float)rows; /* Keras' mean over the batch */
    struct ls_op op = {.kind = ls_objective_op(&objective), .alpha = objective.label_smoothing};
    run(&outputs, &op);
    float mean = (float)(outputs.sums.loss / (double)rows);
    assert_near("loss", &mean, loss->values, 1, 2e-6);
    assert_near("gradient", outputs.gradient, gradient->values, gradient->count, 2e-6);
    ck_assert_int_eq(outputs.sums.rows, rows);
    close_outputs(&outputs);
}

static const struct {
    const char *name, *outputs, *labels;
    ls_metric metric;
} metrics[] = {
    {"sparse_categorical_accuracy", "logits", "labels", {.kind = LS_METRIC_SPARSE_CATEGORICAL_ACCURACY}},
    {"categorical_accuracy", "logits", "labels", {.kind = LS_METRIC_CATEGORICAL_ACCURACY}},
    {"top_2", "logits", "labels", {.kind = LS_METRIC_TOP_K, .k = 2}},
    {"top_3", "logits", "labels", {.kind = LS_METRIC_TOP_K, .k = 3}},
    {"binary_accuracy", "chance", "ones", {.kind = LS_METRIC_BINARY_ACCURACY, .threshold = 0.5F}},
    {"binary_accuracy_logits", "single", "ones", {.kind = LS_METRIC_BINARY_ACCURACY}},
    {"binary_accuracy_several", "logits", "labels", {.kind = LS_METRIC_BINARY_ACCURACY}},
};

TEST_EACH(metric_equals_keras, COUNT_OF(metrics)) {
    struct outputs outputs = open_outputs(metrics[_i].outputs, metrics[_i].labels);
    double value = -1;
    struct ls_op op = {.kind = LS_OP_METRIC, .metric = metrics[_i].metric, .value = &value};
    run(&outputs, &op);
    float mean = (float)(value / (double)outputs.values->shape.dims[0]);
    assert_near(metrics[_i].name, &mean, golden_find(outputs.golden, "metric/%s", metrics[_i].name)->values, 1, 1e-6);
    close_outputs(&outputs);
}

/* ---- edges ---- */

/* Certain and wrong: the loss and its slope stay finite. */
TEST(certain_and_wrong_outputs_stay_finite) {
    static const enum ls_op_kind kinds[] = {LS_OP_CROSSENTROPY, LS_OP_BINARY_CROSSENTROPY};
    struct outputs outputs = open_outputs("shares", "labels");
    for (int i = 0; i < 2; i++) {
        struct ls_op op = {.kind = kinds[i]};
        for (int64_t r = 0; r < 6; r++)
            for (int64_t c = 0; c < 5; c++)
                outputs.values->values[r * 5 + c] = c == (outputs.labels[r] + 1) % 5 ? 1.0F : 0;
        run(&outputs, &op);
        double each = i ? 2.0 / 5 : 1; /* two outputs of five are wrong */
        ck_assert_double_le(fabs(outputs.sums.loss - 6 * each * -log(1e-7)), 1e-4);
        for (int g = 0; g < 30; g++) ck_assert(isfinite(outputs.gradient[g]));
    }
    close_outputs(&outputs);
}

TEST(a_bad_label_is_named_with_its_row) {
    struct outputs outputs = open_outputs("single", "ones");
    struct ls_op op = {.kind = LS_OP_SIGMOID_CROSSENTROPY};
    run(&outputs, &op);
    assert_ok(outputs.device->ops->build(outputs.device, &op));
    outputs.labels[2] = 2;
    assert_refused(op.run(&op), "row 2 has label 2, but the model has 2 classes");
    op.kind = LS_OP_SQUARED_ERROR;
    run(&outputs, &op); /* a number like others */
    op.alpha = 1;
    assert_refused(outputs.device->ops->build(outputs.device, &op), "label smoothing 1");
    op = (struct ls_op){.kind = LS_OP_METRIC};
    op.tensors[LS_ARG_LOGITS] = (struct ls_tensor){outputs.values->values, LS_FLOAT32, outputs.values->shape, 0};
    assert_refused(outputs.device->ops->build(outputs.device, &op), "metric: value is missing");
    close_outputs(&outputs);
}

static ls_status check_rows(const struct ls_objective *objective, int64_t outputs, const int32_t *labels,
                            int64_t rows) {
    return ls_objective_check_labels(objective, &(struct ls_labels_extent){rows, 1, outputs}, labels);
}

/* Before a plan runs: the limits of its ops, of which the first in its order tells. */
TEST(labels_are_checked_before_a_plan_runs) {
    struct ls_objective objective;
    const int32_t labels[] = {0, 1, 2}, negative[] = {0, -1};
    const ls_compile_options *judged = LS_COMPILE(.metrics = LS_METRICS(ls_mean_loss(), ls_binary_accuracy()));
    assert_ok(ls_objective_new(LS_SPARSE_CATEGORICAL_CROSSENTROPY, NULL, &objective));
    assert_ok(check_rows(&objective, 3, labels, 3));
    assert_refused(check_rows(&objective, 2, labels, 3), "row 2 has label 2, but the model has 2 classes: 0 to 1");
    assert_refused(check_rows(&objective, 3, negative, 2), "row 1 has label -1, but the model has 3");
    assert_ok(ls_objective_new(LS_CATEGORICAL_CROSSENTROPY, judged, &objective));
    assert_refused(check_rows(&objective, 2, labels, 3), "row 2 has label 2");
    assert_ok(ls_objective_new(LS_BINARY_CROSSENTROPY, NULL, &objective));
    assert_ok(check_rows(&objective, 1, labels, 2));
    assert_refused(check_rows(&objective, 1, labels, 3), "row 2 has label 2, but the model has 2 classes");
    assert_ok(ls_objective_new(LS_MEAN_SQUARED_ERROR, NULL, &objective));
    assert_ok(check_rows(&objective, 1, negative, 2));
    assert_ok(ls_objective_new(LS_MEAN_SQUARED_ERROR, judged, &objective));
    assert_refused(check_rows(&objective, 1, labels, 3), "row 2 has label 2, but the model has 2 classes");
}

/* Of several positions -1 is one that does not count, and -2 is none; of one, or of other losses, both are none. */
TEST(labels_of_positions_may_be_uncounted) {
    struct ls_objective objective;
    const int32_t some[] = {0, -1, 2, -1}, wrong[] = {0, -1, -2, 1};
    const struct ls_labels_extent several = {2, 2, 3}, single = {4, 1, 3};
    assert_ok(ls_objective_new(LS_SPARSE_CATEGORICAL_CROSSENTROPY, NULL, &objective));
    assert_ok(ls_objective_check_labels(&objective, &several, some));
    assert_refused(ls_objective_check_labels(&objective, &several, wrong), "row 2 has label -2");
    assert_refused(ls_objective_check_labels(&objective, &single, some), "row 1 has label -1");
    assert_ok(ls_objective_new(LS_CATEGORICAL_CROSSENTROPY, NULL, &objective));
    assert_refused(ls_objective_check_labels(&objective, &several, some), "row 1 has label -1");
}

/* ---- what may be asked for ---- */

TEST(defaults_are_filled_and_described) {
    struct ls_objective objective;
    char text[LS_OBJECTIVE_TEXT];
    assert_ok(ls_objective_new(LS_BINARY_CROSSENTROPY, NULL, &objective));
    ls_objective_describe(&objective, text);
    ck_assert_str_eq(text, "loss=binary_crossentropy\n");
    assert_ok(ls_objective_new(LS_BINARY_CROSSENTROPY,
                               LS_COMPILE(.from_probabilities = true, .label_smoothing = 0.1F,
                                          .metrics = LS_METRICS(ls_binary_accuracy(), ls_top_k(0), ls_mean_loss())),
                               &objective));
    ck_assert_int_eq(objective.metric_count, 3);
    ck_assert(objective.metrics[0].threshold == 0.5F && objective.metrics[1].k == 5);
    ls_objective_describe(&objective, text);
    ck_assert_str_eq(text, "loss=binary_crossentropy\nfrom_probabilities=yes\nlabel_smoothing=0.100000001\n"
                           "metrics=binary_accuracy(0, 0.5) top_k_categorical_accuracy(5, 0) mean_loss(0, 0)\n");
    ck_assert(ls_objective_judged(&objective, 6, 3) == 18);
    assert_ok(ls_objective_new(LS_BINARY_CROSSENTROPY, LS_COMPILE(.precision = LS_MIXED_FLOAT16), &objective));
    ls_objective_describe(&objective, text);
    ck_assert_str_eq(text, "loss=binary_crossentropy\nprecision=mixed_float16\n");
    assert_ok(ls_objective_new(LS_MEAN_SQUARED_ERROR, NULL, &objective));
    ck_assert(ls_objective_judged(&objective, 6, 3) == 0);
}

#define ONE ls_mean_loss()
TEST(bad_objectives_are_refused) {
    static const ls_metric many[] = {ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, {0}};
    const struct {
        ls_loss loss;
        const ls_compile_options *options;
        const char *message;
    } bad[] = {
        {(ls_loss)7, NULL, "loss 7 is no ls_loss"},
        {(ls_loss)0, NULL, "loss 0 is no ls_loss"},
        {LS_CATEGORICAL_CROSSENTROPY, LS_COMPILE(.label_smoothing = 1), "label_smoothing 1 must be"},
        {LS_CATEGORICAL_CROSSENTROPY, LS_COMPILE(.label_smoothing = NAN), "label_smoothing nan"},
        {LS_MEAN_SQUARED_ERROR, LS_COMPILE(.label_smoothing = 0.1F), "mean_squared_error has no label_smoothing"},
        {LS_MEAN_SQUARED_ERROR, LS_COMPILE(.from_probabilities = true), "has no from_probabilities"},
        {LS_HUBER, LS_COMPILE(.huber_delta = -1), "huber_delta -1 must be above 0"},
        {LS_HUBER, LS_COMPILE(.huber_delta = NAN), "huber_delta nan"},
        {LS_MEAN_ABSOLUTE_ERROR, LS_COMPILE(.huber_delta = 2), "huber_delta 2: mean_absolute_error has none"},
        {LS_BINARY_CROSSENTROPY, LS_COMPILE(.metrics = many), "more than 8 metrics"},
        {LS_BINARY_CROSSENTROPY, LS_COMPILE(.metrics = LS_METRICS({.kind = (ls_metric_kind)9})), "metric 9 is no"},
        {LS_BINARY_CROSSENTROPY, LS_COMPILE(.metrics = LS_METRICS(ls_top_k(-1))), "k -1 is not possible"},
        {LS_BINARY_CROSSENTROPY, LS_COMPILE(.metrics = LS_METRICS({LS_METRIC_TOP_K, 1, 0.5F})), "threshold 0.5"},
        {LS_BINARY_CROSSENTROPY, LS_COMPILE(.precision = (ls_precision)4), "precision 4 is no ls_precision"},
        {LS_BINARY_CROSSENTROPY, &(ls_compile_options){0}, "ls_compile_options"},
    };
    struct ls_objective objective;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_refused(ls_objective_new(bad[i].loss, bad[i].options, &objective), bad[i].message);
}

TESTS("objective")
