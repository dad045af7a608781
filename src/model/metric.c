/* Metrics: what they may be, Keras' names and defaults. The op LS_OP_METRIC computes them. */
#include "model/objective.h"

#include <math.h>

#include "base/status.h"

#define DEFAULT_K 5

ls_status ls_metric_complete(const ls_metric *given, float middle, ls_metric *metric) {
    ls_metric made = *given;
    if (made.kind < LS_METRIC_SPARSE_CATEGORICAL_ACCURACY || made.kind > LS_METRIC_MEAN_ABSOLUTE_ERROR)
        return ls_fail(LS_INVALID_ARGUMENT, "metric %d is no ls_metric_kind", (int)made.kind);
    if (made.k < 0 || (made.k && made.kind != LS_METRIC_TOP_K))
        return ls_fail(LS_INVALID_ARGUMENT, "metric %s: k %d is not possible", ls_metric_name(&made), made.k);
    if (!isfinite(made.threshold) || (made.threshold != 0 && made.kind != LS_METRIC_BINARY_ACCURACY))
        return ls_fail(LS_INVALID_ARGUMENT, "metric %s: threshold %g is not possible", ls_metric_name(&made),
                       (double)made.threshold);
    if (made.kind == LS_METRIC_TOP_K && !made.k) made.k = DEFAULT_K;
    if (made.kind == LS_METRIC_BINARY_ACCURACY && made.threshold == 0) made.threshold = middle;
    *metric = made;
    return LS_OK;
}

const char *ls_metric_name(const ls_metric *metric) {
    static const char *const names[] = {
        [LS_METRIC_SPARSE_CATEGORICAL_ACCURACY] = "sparse_categorical_accuracy",
        [LS_METRIC_CATEGORICAL_ACCURACY] = "categorical_accuracy",
        [LS_METRIC_BINARY_ACCURACY] = "binary_accuracy",
        [LS_METRIC_TOP_K] = "top_k_categorical_accuracy",
        [LS_METRIC_MEAN_LOSS] = "mean_loss",
        [LS_METRIC_MEAN_SQUARED_ERROR] = "mean_squared_error",
        [LS_METRIC_MEAN_ABSOLUTE_ERROR] = "mean_absolute_error",
    };
    return names[metric->kind];
}

const char *ls_metric_weighted_name(const ls_metric *metric) {
    static const char *const names[] = {
        [LS_METRIC_SPARSE_CATEGORICAL_ACCURACY] = "weighted_sparse_categorical_accuracy",
        [LS_METRIC_CATEGORICAL_ACCURACY] = "weighted_categorical_accuracy",
        [LS_METRIC_BINARY_ACCURACY] = "weighted_binary_accuracy",
        [LS_METRIC_TOP_K] = "weighted_top_k_categorical_accuracy",
        [LS_METRIC_MEAN_LOSS] = "weighted_mean_loss",
        [LS_METRIC_MEAN_SQUARED_ERROR] = "weighted_mean_squared_error",
        [LS_METRIC_MEAN_ABSOLUTE_ERROR] = "weighted_mean_absolute_error",
    };
    return names[metric->kind];
}
