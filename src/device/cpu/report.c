/* The report of a step: its sums, as numbers that are added over all replicas, and a check that the gradients are
 * finite. */
#include <math.h>

#include "device/cpu/cpu.h"

static void add_sums(float *to, const struct ls_loss_sums *sums) {
    to[LS_REPORT_LOSS] += (float)sums->loss;
    to[LS_REPORT_CORRECT] += (float)(sums->correct % LS_REPORT_UNIT);
    to[LS_REPORT_CORRECT_UNITS] += (float)(sums->correct / LS_REPORT_UNIT);
    to[LS_REPORT_ROWS] += (float)(sums->rows % LS_REPORT_UNIT);
    to[LS_REPORT_ROWS_UNITS] += (float)(sums->rows / LS_REPORT_UNIT);
    to[LS_REPORT_WEIGHT] += (float)sums->weight;
    to[LS_REPORT_UNCOUNTED] += (float)(sums->uncounted % LS_REPORT_UNIT);
    to[LS_REPORT_UNCOUNTED_UNITS] += (float)(sums->uncounted / LS_REPORT_UNIT);
    for (int i = 0; i < LS_MAX_METRICS; i++) to[LS_REPORT_METRICS + i] += (float)sums->metrics[i];
}

ls_status ls_cpu_report(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_Y];
    struct ls_loss_sums sums = *op->sums;
    float *to = y->data;
    if (op->gathered) ls_op_add_loss_sums(&sums, op->gathered);
    for (int64_t i = 0; i < y->shape.dims[0]; i++) to[i] = op->report[i];
    add_sums(to, &sums);
    return LS_OK;
}

ls_status ls_cpu_finite(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X];
    const float *values = x->data;
    int64_t count = 0;
    for (int64_t i = 0; i < x->shape.dims[0]; i++) count += !isfinite(values[i]);
    *op->value = (double)count;
    return LS_OK;
}
