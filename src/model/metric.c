/* Metrics: what they may be, Keras' names and defaults. The op LS_OP_METRIC computes them. */
#include "model/objective.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

#define DEFAULT_K 5
#define WEIGHTED  "weighted_"

ls_status ls_metric_complete(const ls_metric *given, float middle, ls_metric *metric) {
    ls_metric made = *given;
    if (made.kind < LS_METRIC_SPARSE_CATEGORICAL_ACCURACY || made.kind > LS_METRIC_PERPLEXITY)
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

const char *ls_metric_weighted_name(const ls_metric *metric) {
    static const char *const names[] = {
        [LS_METRIC_SPARSE_CATEGORICAL_ACCURACY] = WEIGHTED "sparse_categorical_accuracy",
        [LS_METRIC_CATEGORICAL_ACCURACY] = WEIGHTED "categorical_accuracy",
        [LS_METRIC_BINARY_ACCURACY] = WEIGHTED "binary_accuracy",
        [LS_METRIC_TOP_K] = WEIGHTED "top_k_categorical_accuracy",
        [LS_METRIC_MEAN_LOSS] = WEIGHTED "mean_loss",
        [LS_METRIC_MEAN_SQUARED_ERROR] = WEIGHTED "mean_squared_error",
        [LS_METRIC_MEAN_ABSOLUTE_ERROR] = WEIGHTED "mean_absolute_error",
        [LS_METRIC_PERPLEXITY] = WEIGHTED "perplexity",
    };
    return names[metric->kind];
}

const char *ls_metric_name(const ls_metric *metric) {
    return ls_metric_weighted_name(metric) + strlen(WEIGHTED);
}

bool ls_metric_is_of_loss(const ls_metric *metric) {
    return metric->kind == LS_METRIC_MEAN_LOSS || metric->kind == LS_METRIC_PERPLEXITY;
}
