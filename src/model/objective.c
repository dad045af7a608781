/* Losses and metrics: what they may be, Keras' names and defaults, and which ops compute them. */
#include "model/objective.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/options.h"
#include "base/status.h"
#include "device/labels.h"

#define DEFAULT_K 5

static ls_status check_loss(const struct ls_objective *objective) {
    float smoothing = objective->label_smoothing;
    if (objective->loss < LS_SPARSE_CATEGORICAL_CROSSENTROPY || objective->loss > LS_MEAN_SQUARED_ERROR)
        return ls_fail(LS_INVALID_ARGUMENT, "loss %d is no ls_loss", (int)objective->loss);
    if (!(smoothing >= 0 && smoothing < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "label_smoothing %g must be at least 0 and below 1", (double)smoothing);
    if (objective->loss != LS_MEAN_SQUARED_ERROR) return LS_OK;
    if (smoothing > 0 || objective->from_probabilities)
        return ls_fail(LS_INVALID_ARGUMENT, "mean squared error has no %s",
                       smoothing > 0 ? "label_smoothing" : "from_probabilities");
    return LS_OK;
}

/* The threshold that means probability 0.5 where none was given. */
static float middle(const struct ls_objective *objective) {
    bool logits = objective->loss != LS_MEAN_SQUARED_ERROR && !objective->from_probabilities;
    return logits ? 0 : 0.5F;
}

static ls_status take_metric(struct ls_objective *objective, const ls_metric *given) {
    if (objective->metric_count == LS_MAX_METRICS)
        return ls_fail(LS_INVALID_ARGUMENT, "there are more than %d metrics", LS_MAX_METRICS);
    ls_metric *metric = &objective->metrics[objective->metric_count];
    *metric = *given;
    if (metric->kind < LS_METRIC_SPARSE_CATEGORICAL_ACCURACY || metric->kind > LS_METRIC_MEAN_LOSS)
        return ls_fail(LS_INVALID_ARGUMENT, "metric %d is no ls_metric_kind", (int)metric->kind);
    if (metric->k < 0 || (metric->k && metric->kind != LS_METRIC_TOP_K))
        return ls_fail(LS_INVALID_ARGUMENT, "metric %s: k %d is not possible", ls_metric_name(metric), metric->k);
    if (!isfinite(metric->threshold) || (metric->threshold != 0 && metric->kind != LS_METRIC_BINARY_ACCURACY))
        return ls_fail(LS_INVALID_ARGUMENT, "metric %s: threshold %g is not possible", ls_metric_name(metric),
                       (double)metric->threshold);
    if (metric->kind == LS_METRIC_TOP_K && !metric->k) metric->k = DEFAULT_K;
    if (metric->kind == LS_METRIC_BINARY_ACCURACY && metric->threshold == 0) metric->threshold = middle(objective);
    objective->metric_count++;
    return LS_OK;
}

ls_status ls_objective_new(ls_loss loss, const ls_compile_options *options, struct ls_objective *objective) {
    ls_compile_options given = {0};
    ls_status status = ls_options_copy("ls_compile_options", &given, sizeof(given), options);
    struct ls_objective made = {.loss = loss,
                                .from_probabilities = given.from_probabilities,
                                .label_smoothing = given.label_smoothing,
                                .precision = given.precision,
                                .nondeterministic_ops = given.nondeterministic_ops};
    if (!status) status = check_loss(&made);
    if (!status) status = ls_precision_check(made.precision);
    for (const ls_metric *metric = given.metrics; !status && metric && metric->kind; metric++)
        status = take_metric(&made, metric);
    if (!status) *objective = made;
    return status;
}

enum ls_op_kind ls_objective_op(const struct ls_objective *objective) {
    bool probabilities = objective->from_probabilities;
    if (objective->loss == LS_MEAN_SQUARED_ERROR) return LS_OP_SQUARED_ERROR;
    if (objective->loss == LS_BINARY_CROSSENTROPY)
        return probabilities ? LS_OP_BINARY_CROSSENTROPY : LS_OP_SIGMOID_CROSSENTROPY;
    return probabilities ? LS_OP_CROSSENTROPY : LS_OP_SOFTMAX_CROSSENTROPY;
}

bool ls_objective_is_binary(const struct ls_objective *objective) {
    return objective->loss == LS_BINARY_CROSSENTROPY || objective->loss == LS_MEAN_SQUARED_ERROR;
}

double ls_objective_judged(const struct ls_objective *objective, double rows, int outputs) {
    if (objective->loss == LS_MEAN_SQUARED_ERROR) return 0;
    return ls_objective_is_binary(objective) ? rows * outputs : rows;
}

/* As the plan's op would; what is smaller was looked at before. */
static ls_status check_labels_of(const struct ls_op *op, int outputs, const int32_t *labels, int64_t rows,
                                 int64_t *checked) {
    int64_t classes = ls_labels_classes(op, outputs);
    if (!classes || (*checked && classes >= *checked)) return LS_OK;
    *checked = classes;
    return ls_labels_check(labels, rows, classes);
}

/* In the plan's order: each metric's and the loss' own, where they are not made rows of one-hot before. */
ls_status ls_objective_check_labels(const struct ls_objective *objective, int outputs, const int32_t *labels,
                                    int64_t rows) {
    const struct ls_op loss = {.kind = ls_objective_op(objective)};
    bool sparse = objective->loss != LS_CATEGORICAL_CROSSENTROPY;
    int64_t checked = 0;
    ls_status status = LS_OK;
    for (int i = 0; sparse && !status && i < objective->metric_count; i++) {
        const struct ls_op op = {.kind = LS_OP_METRIC, .metric = objective->metrics[i]};
        if (op.metric.kind != LS_METRIC_MEAN_LOSS) status = check_labels_of(&op, outputs, labels, rows, &checked);
    }
    return status ? status : check_labels_of(&loss, outputs, labels, rows, &checked);
}

const char *ls_metric_name(const ls_metric *metric) {
    static const char *const names[] = {
        [LS_METRIC_SPARSE_CATEGORICAL_ACCURACY] = "sparse_categorical_accuracy",
        [LS_METRIC_CATEGORICAL_ACCURACY] = "categorical_accuracy",
        [LS_METRIC_BINARY_ACCURACY] = "binary_accuracy",
        [LS_METRIC_TOP_K] = "top_k_categorical_accuracy",
        [LS_METRIC_MEAN_LOSS] = "mean_loss",
    };
    return names[metric->kind];
}

/* What is as it always was is not said: checkpoints from before there was more remain what they were. */
void ls_objective_describe(const struct ls_objective *objective, char text[LS_OBJECTIVE_TEXT]) {
    size_t used = (size_t)snprintf(text, LS_OBJECTIVE_TEXT, "loss=%d\n", (int)objective->loss);
    if (objective->from_probabilities)
        used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "from_probabilities=1\n");
    if (objective->label_smoothing > 0)
        used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "label_smoothing=%.9g\n",
                                 (double)objective->label_smoothing);
    if (objective->precision)
        used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "precision=%s\n",
                                 ls_precision_name(objective->precision));
    if (!objective->metric_count) return;
    used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "metrics=");
    for (int i = 0; i < objective->metric_count; i++) {
        const ls_metric *metric = &objective->metrics[i];
        used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "%s%s(%d, %.9g)", i ? " " : "",
                                 ls_metric_name(metric), metric->k, (double)metric->threshold);
    }
    (void)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "\n");
}
