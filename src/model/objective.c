/* Losses, and what compile takes beside them: what they may be, Keras' names and defaults, and which ops compute them.
 */
#include "model/objective.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/shape.h"
#include "base/status.h"
#include "device/labels.h"
#include "base/plain.h"

bool ls_objective_is_regression(const struct ls_objective *objective) {
    return objective->loss >= LS_MEAN_SQUARED_ERROR;
}

static ls_status check_delta(struct ls_objective *objective) {
    float delta = objective->huber_delta;
    if (!(delta >= 0 && isfinite(delta)))
        return ls_fail(LS_INVALID_ARGUMENT, "huber_delta %g must be above 0", (double)delta);
    if (delta > 0 && objective->loss != LS_HUBER)
        return ls_fail(LS_INVALID_ARGUMENT, "huber_delta %g: %s has none", (double)delta,
                       ls_objective_loss_name(objective->loss));
    if (objective->loss == LS_HUBER && delta == 0) objective->huber_delta = 1;
    return LS_OK;
}

static ls_status check_loss(struct ls_objective *objective) {
    float smoothing = objective->label_smoothing;
    if (objective->loss < LS_SPARSE_CATEGORICAL_CROSSENTROPY || objective->loss > LS_HUBER)
        return ls_fail(LS_INVALID_ARGUMENT, "loss %d is no ls_loss", (int)objective->loss);
    if (!(smoothing >= 0 && smoothing < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "label_smoothing %g must be at least 0 and below 1", (double)smoothing);
    if (ls_objective_is_regression(objective) && (smoothing > 0 || objective->from_probabilities))
        return ls_fail(LS_INVALID_ARGUMENT, "%s has no %s", ls_objective_loss_name(objective->loss),
                       smoothing > 0 ? "label_smoothing" : "from_probabilities");
    return check_delta(objective);
}

/* The threshold that means probability 0.5 where none was given. */
static float middle(const struct ls_objective *objective) {
    bool logits = !ls_objective_is_regression(objective) && !objective->from_probabilities;
    return logits ? 0 : 0.5F;
}

/* keras_hub.metrics.Perplexity is exp of the mean cross-entropy, which is the loss where nothing is smoothed. */
static ls_status check_perplexity(const struct ls_objective *objective) {
    bool categorical = !ls_objective_is_binary(objective);
    if (categorical && objective->label_smoothing == 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "metric perplexity: exp of a cross-entropy of classes, %s %s",
                   categorical ? "and label_smoothing makes another loss of" : "which is not",
                   ls_objective_loss_name(objective->loss));
}

static ls_status take_metric(struct ls_objective *objective, const ls_metric *given) {
    if (objective->metric_count == LS_MAX_METRICS)
        return ls_fail(LS_INVALID_ARGUMENT, "there are more than %d metrics", LS_MAX_METRICS);
    ls_status status = ls_metric_complete(given, middle(objective), &objective->metrics[objective->metric_count]);
    if (!status && given->kind == LS_METRIC_PERPLEXITY) status = check_perplexity(objective);
    objective->metric_count += !status;
    return status;
}

ls_status ls_objective_new(ls_loss loss, const ls_compile_options *options, struct ls_objective *objective) {
    ls_compile_options given = {0};
    ls_status status = ls_options_copy("ls_compile_options", &given, sizeof(given), options);
    struct ls_objective made = {.loss = loss,
                                .from_probabilities = given.from_probabilities,
                                .label_smoothing = given.label_smoothing,
                                .huber_delta = given.huber_delta,
                                .precision = given.precision,
                                .nondeterministic_ops = given.nondeterministic_ops,
                                .recompute = given.recompute};
    if (!status) status = check_loss(&made);
    if (!status) status = ls_option_names_check_precision(made.precision);
    if (!status) status = ls_option_names_check_recompute(made.recompute);
    for (const ls_metric *metric = given.metrics; !status && metric && metric->kind; metric++)
        status = take_metric(&made, metric);
    made.weighted_from = made.metric_count;
    for (const ls_metric *metric = given.weighted_metrics; !status && metric && metric->kind; metric++)
        status = take_metric(&made, metric);
    if (!status) *objective = made;
    return status;
}

enum ls_op_kind ls_objective_op(const struct ls_objective *objective) {
    bool probabilities = objective->from_probabilities;
    if (objective->loss == LS_MEAN_SQUARED_ERROR) return LS_OP_SQUARED_ERROR;
    if (objective->loss == LS_MEAN_ABSOLUTE_ERROR) return LS_OP_ABSOLUTE_ERROR;
    if (objective->loss == LS_HUBER) return LS_OP_HUBER;
    if (objective->loss == LS_BINARY_CROSSENTROPY)
        return probabilities ? LS_OP_BINARY_CROSSENTROPY : LS_OP_SIGMOID_CROSSENTROPY;
    return probabilities ? LS_OP_CROSSENTROPY : LS_OP_SOFTMAX_CROSSENTROPY;
}

bool ls_objective_is_binary(const struct ls_objective *objective) {
    return objective->loss == LS_BINARY_CROSSENTROPY || ls_objective_is_regression(objective);
}

int64_t ls_objective_positions(const struct ls_objective *objective, const ls_shape *output) {
    if (ls_objective_is_binary(objective) || output->rank < 2) return 1;
    return ls_shape_count(output) / output->dims[output->rank - 1];
}

double ls_objective_judged(const struct ls_objective *objective, double rows, int outputs) {
    if (ls_objective_is_regression(objective)) return 0;
    return ls_objective_is_binary(objective) ? rows * outputs : rows;
}

/* As the plan's op would; what is smaller was looked at before. */
static ls_status check_labels_of(const struct ls_op *op, const struct ls_labels_extent *extent, const int32_t *labels,
                                 int64_t *checked) {
    int64_t classes = ls_labels_classes(op, extent->classes);
    if (!classes || (*checked && classes >= *checked)) return LS_OK;
    *checked = classes;
    return ls_labels_check(labels, extent->rows * extent->positions, classes, ls_labels_least(op, extent));
}

/* In the plan's order: each metric's and the loss' own, where they are not made rows of one-hot before. */
ls_status ls_objective_check_labels(const struct ls_objective *objective, const struct ls_labels_extent *extent,
                                    const int32_t *labels) {
    struct ls_op loss = {.kind = ls_objective_op(objective)};
    bool sparse = objective->loss != LS_CATEGORICAL_CROSSENTROPY;
    int64_t checked = 0;
    ls_status status = LS_OK;
    for (int i = 0; sparse && !status && i < objective->metric_count; i++) {
        struct ls_op op = {.kind = LS_OP_METRIC, .metric = objective->metrics[i]};
        op.tensors[LS_ARG_LABELS].dtype = LS_INT32;
        if (!ls_metric_is_of_loss(&op.metric)) status = check_labels_of(&op, extent, labels, &checked);
    }
    loss.tensors[LS_ARG_LABELS].dtype = sparse ? LS_INT32 : LS_FLOAT32;
    return status ? status : check_labels_of(&loss, extent, labels, &checked);
}

bool ls_objective_metric_is_weighted(const struct ls_objective *objective, int index) {
    return index >= objective->weighted_from;
}

const char *ls_objective_metric_name(const struct ls_objective *objective, int index) {
    const ls_metric *metric = &objective->metrics[index];
    bool other = false;
    for (int i = 0; i < objective->weighted_from && i < index; i++)
        other = other || objective->metrics[i].kind == metric->kind;
    return other && ls_objective_metric_is_weighted(objective, index) ? ls_metric_weighted_name(metric)
                                                                      : ls_metric_name(metric);
}

const char *ls_objective_loss_name(ls_loss loss) {
    static const char *const names[] = {
        [LS_SPARSE_CATEGORICAL_CROSSENTROPY] = "sparse_categorical_crossentropy",
        [LS_CATEGORICAL_CROSSENTROPY] = "categorical_crossentropy",
        [LS_BINARY_CROSSENTROPY] = "binary_crossentropy",
        [LS_MEAN_SQUARED_ERROR] = "mean_squared_error",
        [LS_MEAN_ABSOLUTE_ERROR] = "mean_absolute_error",
        [LS_HUBER] = "huber",
    };
    return names[loss];
}

/* A field with its original default adds no line, so that older checkpoints keep their description. */
void ls_objective_describe(const struct ls_objective *objective, char text[LS_OBJECTIVE_TEXT]) {
    size_t used = (size_t)snprintf(text, LS_OBJECTIVE_TEXT, "loss=%s\n", ls_objective_loss_name(objective->loss));
    if (objective->from_probabilities)
        used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "from_probabilities=yes\n");
    if (objective->label_smoothing > 0)
        used += (size_t)ls_plain_text(text + used, LS_OBJECTIVE_TEXT - used, "label_smoothing=%.9g\n",
                                      (double)objective->label_smoothing);
    if (objective->loss == LS_HUBER)
        used += (size_t)ls_plain_text(text + used, LS_OBJECTIVE_TEXT - used, "huber_delta=%.9g\n",
                                      (double)objective->huber_delta);
    if (objective->precision)
        used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "precision=%s\n",
                                 ls_option_names_precision(objective->precision));
    if (!objective->metric_count) return;
    used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "metrics=");
    for (int i = 0; i < objective->metric_count; i++) {
        const ls_metric *metric = &objective->metrics[i];
        used += (size_t)ls_plain_text(text + used, LS_OBJECTIVE_TEXT - used, "%s%s(%d, %.9g)", i ? " " : "",
                                      ls_metric_name(metric), metric->k, (double)metric->threshold);
        if (ls_objective_metric_is_weighted(objective, i))
            used += (size_t)snprintf(text + used, LS_OBJECTIVE_TEXT - used, " weighted");
    }
    (void)snprintf(text + used, LS_OBJECTIVE_TEXT - used, "\n");
}
