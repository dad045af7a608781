/* The objective of a model: a loss, metrics and a precision. Mirrors the arguments of compile beside the optimizer. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/labels.h"
#include "device/op.h"

struct ls_objective {
    ls_loss loss;
    bool from_probabilities;
    float label_smoothing, huber_delta;
    ls_metric metrics[LS_MAX_METRICS];
    int metric_count, weighted_from; /* those from there on are weighted */
    ls_precision precision;
    bool nondeterministic_ops;
    ls_recompute recompute;
};
/* INVALID_ARGUMENT naming the field and the value. options may be NULL. */
ls_status ls_objective_new(ls_loss loss, const ls_compile_options *options, struct ls_objective *objective);
enum ls_op_kind ls_objective_op(const struct ls_objective *objective); /* the loss's */
/* True if each output is judged by itself, so that one output is enough for two classes. */
bool ls_objective_is_binary(const struct ls_objective *objective);
/* Positions of a model's output that are judged each by itself: all axes but the last have them where the loss is of
 * one of several classes. Else there is 1. */
int64_t ls_objective_positions(const struct ls_objective *objective, const ls_shape *output);
/* The number of judgements over all rows, or positions, and outputs, of which sums.correct are right; 0 if the loss
 * judges none. */
double ls_objective_judged(const struct ls_objective *objective, double rows, int outputs);
/* In host memory, before a plan runs with them: INVALID_ARGUMENT naming the first row whose label is no class, as the
 * plan's ops would. extent: of the outputs. */
ls_status ls_objective_check_labels(const struct ls_objective *objective, const struct ls_labels_extent *extent,
                                    const int32_t *labels);
/* True if the loss compares numbers, none of which is right or wrong. */
bool ls_objective_is_regression(const struct ls_objective *objective);
bool ls_objective_metric_is_weighted(const struct ls_objective *objective, int index);
const char *ls_objective_loss_name(ls_loss loss); /* "mean_squared_error" */
/* Of the index-th metric as Keras names it among the others: "weighted_..." where another one has its name. */
const char *ls_objective_metric_name(const struct ls_objective *objective, int index);
/* Lines "loss=huber\n" and so on: equal exactly when the objectives are. text has room for LS_OBJECTIVE_TEXT. */
#define LS_OBJECTIVE_TEXT 1024
void ls_objective_describe(const struct ls_objective *objective, char text[LS_OBJECTIVE_TEXT]);

/* Metrics of compile. Mirrors the names of tf.keras.metrics. */

/* Fills the defaults of a metric in; middle is the threshold that means probability 0.5. INVALID_ARGUMENT naming the
 * field and the value. */
ls_status ls_metric_complete(const ls_metric *given, float middle, ls_metric *metric);
/* True for one that sums.loss has, and no op. */
bool ls_metric_is_of_loss(const ls_metric *metric);
const char *ls_metric_name(const ls_metric *metric);          /* "top_k_categorical_accuracy" */
const char *ls_metric_weighted_name(const ls_metric *metric); /* "weighted_top_k_categorical_accuracy" */
