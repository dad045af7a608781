/* Metrics, row by row: each gives a row's share, which is added in row order. Mirrors keras.metrics. */
#include <math.h>

#include "device/cpu/cpu.h"

static double in_top(const struct ls_cpu_row *row, int k) {
    float wanted = row->outputs[ls_cpu_row_label(row)];
    int64_t better = 0;
    for (int64_t c = 0; c < row->classes; c++) better += row->outputs[c] > wanted;
    return isfinite(wanted) && better < k ? 1 : 0;
}

/* The part of the outputs that are right. */
static double right_part(const struct ls_cpu_row *row, float threshold) {
    int64_t right = 0;
    for (int64_t c = 0; c < row->classes; c++)
        right += (row->outputs[c] > threshold) == (ls_cpu_row_target(row, c) > 0.5);
    return (double)right / (double)row->classes;
}

/* The mean over the outputs. */
static double mean_error(const struct ls_cpu_row *row, bool squared) {
    double sum = 0;
    for (int64_t c = 0; c < row->classes; c++) {
        double error = (double)row->outputs[c] - ls_cpu_row_target(row, c);
        sum += squared ? error * error : fabs(error);
    }
    return sum / (double)row->classes;
}

static double share(const struct ls_op *op, const struct ls_cpu_row *row) {
    if (op->metric.kind == LS_METRIC_BINARY_ACCURACY) return right_part(row, op->metric.threshold);
    if (op->metric.kind == LS_METRIC_TOP_K) return in_top(row, op->metric.k);
    if (op->metric.kind == LS_METRIC_MEAN_SQUARED_ERROR) return mean_error(row, true);
    if (op->metric.kind == LS_METRIC_MEAN_ABSOLUTE_ERROR) return mean_error(row, false);
    return ls_cpu_argmax(row->outputs, row->classes) == ls_cpu_row_label(row) ? 1 : 0;
}

ls_status ls_cpu_metric(const struct ls_op *op) {
    double sum = op->adds ? *op->value : 0;
    int64_t rows = 0;
    ls_status status = ls_cpu_rows_check(op, &rows);
    if (status) return status;
    for (int64_t r = 0; r < rows; r++) {
        const struct ls_cpu_row row = ls_cpu_row_at(op, r);
        if (!row.uncounted) sum += share(op, &row) * row.weight / (double)row.positions;
    }
    *op->value = sum;
    return LS_OK;
}
