/* What a step tells of itself: its sums as numbers that are added over all replicas, and whether gradients are numbers
 * at all. */
#include <math.h>

#include "base/dtype.h"
#include "device/cpu/cpu.h"

static void add_sums(float *to, const struct ls_loss_sums *sums) {
    to[LS_REPORT_LOSS] += (float)sums->loss;
    to[LS_REPORT_CORRECT] += (float)sums->correct;
    to[LS_REPORT_ROWS] += (float)sums->rows;
    for (int i = 0; i < LS_MAX_METRICS; i++) to[LS_REPORT_METRICS + i] += (float)sums->metrics[i];
}

ls_status ls_cpu_report(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_Y];
    struct ls_loss_sums sums = *op->sums;
    float *to = y->data;
    if (op->gathered) ls_loss_sums_add(&sums, op->gathered);
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
