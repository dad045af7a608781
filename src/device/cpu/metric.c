/* Metrics, row by row: each gives a row's share, which is added in row order. Mirrors keras.metrics. */
#include <math.h>

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/labels.h"

struct row {
    const float *outputs, *one_hot; /* label counts if one_hot is NULL */
    int64_t classes, label;
};

static int64_t label_of(const struct row *row) {
    return row->one_hot ? ls_cpu_argmax(row->one_hot, row->classes) : row->label;
}

static double in_top(const struct row *row, int k) {
    float wanted = row->outputs[label_of(row)];
    int64_t better = 0;
    for (int64_t c = 0; c < row->classes; c++) better += row->outputs[c] > wanted;
    return isfinite(wanted) && better < k ? 1 : 0;
}

static bool is_one(const struct row *row, int64_t c) {
    if (row->one_hot) return row->one_hot[c] > 0.5F;
    return row->classes == 1 ? row->label == 1 : c == row->label;
}

/* The part of the outputs that are right. */
static double binary(const struct row *row, float threshold) {
    int64_t right = 0;
    for (int64_t c = 0; c < row->classes; c++) right += (row->outputs[c] > threshold) == is_one(row, c);
    return (double)right / (double)row->classes;
}

static double target(const struct row *row, int64_t c) {
    if (row->one_hot) return (double)row->one_hot[c];
    return row->classes == 1 ? (double)row->label : (double)(c == row->label);
}

/* The mean over the outputs. */
static double mean_error(const struct row *row, bool squared) {
    double sum = 0;
    for (int64_t c = 0; c < row->classes; c++) {
        double error = (double)row->outputs[c] - target(row, c);
        sum += squared ? error * error : fabs(error);
    }
    return sum / (double)row->classes;
}

static double share(const struct ls_op *op, const struct row *row) {
    if (op->metric.kind == LS_METRIC_BINARY_ACCURACY) return binary(row, op->metric.threshold);
    if (op->metric.kind == LS_METRIC_TOP_K) return in_top(row, op->metric.k);
    if (op->metric.kind == LS_METRIC_MEAN_SQUARED_ERROR) return mean_error(row, true);
    if (op->metric.kind == LS_METRIC_MEAN_ABSOLUTE_ERROR) return mean_error(row, false);
    return ls_cpu_argmax(row->outputs, row->classes) == label_of(row) ? 1 : 0;
}

ls_status ls_cpu_metric(const struct ls_op *op) {
    const struct ls_tensor *outputs = &op->tensors[LS_ARG_LOGITS], *labels = &op->tensors[LS_ARG_LABELS];
    const struct ls_labels_extent extent = ls_labels_extent(&outputs->shape);
    int64_t positions = extent.positions, rows = extent.rows * positions, classes = extent.classes;
    bool sparse = labels->dtype == LS_INT32;
    ls_status status = sparse ? ls_labels_check(labels->data, rows, ls_labels_classes(op, classes)) : LS_OK;
    if (status) return status;
    const float *weights = op->tensors[LS_ARG_WEIGHTS].data;
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        const struct row row = {.outputs = (const float *)outputs->data + r * classes,
                                .one_hot = sparse ? NULL : (const float *)labels->data + r * classes,
                                .classes = classes,
                                .label = sparse ? ((const int32_t *)labels->data)[r] : 0};
        sum += share(op, &row) * (weights ? (double)weights[r / positions] : 1) / (double)positions;
    }
    *op->value = sum;
    return LS_OK;
}
