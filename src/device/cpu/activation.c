/* Activations as ops of their own. Gradients follow from the output. y may be x, and dx may be dy. Mirrors
 * keras.activations. */
#include <math.h>
#include <stddef.h>

#include "base/clones.h"
#include "base/shape.h"
#include "device/cpu/cpu.h"

#define GRAIN 16384 /* elements that are worth a thread */

/* One run: over elements, or for softmax over rows of so many columns. */
struct activation {
    ls_activation kind;
    const float *x, *y, *dy;
    float *out;
    float slope;
    int64_t columns;
};

LS_CLONES static void activation_clip(float *y, const float *x, float high, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float value = x[i] <= 0 ? 0 : x[i]; /* NaN stays */
        y[i] = value > high ? high : value;
    }
}

LS_CLONES static void activation_leak(float *y, const float *x, float slope, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] < 0 ? x[i] * slope : x[i];
}

static void sigmoid(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = 1 / (1 + expf(-x[i]));
}

static void hyperbolic_tangent(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = tanhf(x[i]);
}

static void softmax_row(float *y, const float *x, int64_t count) {
    float maximum = x[0];
    double sum = 0;
    for (int64_t i = 1; i < count; i++) maximum = x[i] > maximum ? x[i] : maximum;
    for (int64_t i = 0; i < count; i++) {
        y[i] = expf(x[i] - maximum);
        sum += (double)y[i];
    }
    for (int64_t i = 0; i < count; i++) y[i] = (float)((double)y[i] / sum);
}

static void forward_part(void *context, int64_t begin, int64_t end) {
    const struct activation *a = context;
    const float *x = a->x + begin;
    float *y = a->out + begin;
    int64_t count = end - begin;
    if (a->kind == LS_SOFTMAX)
        for (int64_t r = begin; r < end; r++) softmax_row(a->out + r * a->columns, a->x + r * a->columns, a->columns);
    else if (a->kind == LS_RELU || a->kind == LS_RELU6)
        activation_clip(y, x, a->kind == LS_RELU ? INFINITY : 6, count);
    else if (a->kind == LS_SIGMOID)
        sigmoid(y, x, count);
    else if (a->kind == LS_TANH)
        hyperbolic_tangent(y, x, count);
    else
        activation_leak(y, x, a->kind == LS_LINEAR ? 1 : a->slope, count);
}

LS_CLONES static void activation_mask(float *dx, const float *dy, const float *y, float high, int64_t count) {
    for (int64_t i = 0; i < count; i++) dx[i] = y[i] > 0 && y[i] < high ? dy[i] : 0;
}

LS_CLONES static void activation_unleak(float *dx, const float *dy, const float *y, float slope, int64_t count) {
    for (int64_t i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : dy[i] * slope;
}

LS_CLONES static void activation_sigmoid_slope(float *dx, const float *dy, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * (y[i] * (1 - y[i]));
}

LS_CLONES static void activation_tanh_slope(float *dx, const float *dy, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

/* The Jacobian is diag(y) - y y^T, so its product with dy needs one sum over the row and no matrix. */
static void softmax_row_backward(float *dx, const float *dy, const float *y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)dy[i] * (double)y[i];
    for (int64_t i = 0; i < count; i++) dx[i] = (float)((double)y[i] * ((double)dy[i] - sum));
}

static void backward_part(void *context, int64_t begin, int64_t end) {
    const struct activation *a = context;
    const float *dy = a->dy + begin, *y = a->y + begin;
    float *dx = a->out + begin;
    int64_t count = end - begin, columns = a->columns;
    if (a->kind == LS_SOFTMAX)
        for (int64_t r = begin; r < end; r++)
            softmax_row_backward(a->out + r * columns, a->dy + r * columns, a->y + r * columns, columns);
    else if (a->kind == LS_RELU || a->kind == LS_RELU6)
        activation_mask(dx, dy, y, a->kind == LS_RELU ? INFINITY : 6, count);
    else if (a->kind == LS_SIGMOID)
        activation_sigmoid_slope(dx, dy, y, count);
    else if (a->kind == LS_TANH)
        activation_tanh_slope(dx, dy, y, count);
    else
        activation_unleak(dx, dy, y, a->kind == LS_LINEAR ? 1 : a->slope, count);
}

static ls_status run_activation(const struct ls_op *op, const struct ls_shape *shape, float *out, ls_team_fn *part) {
    int64_t count = ls_shape_count(shape), columns = shape->rank ? shape->dims[shape->rank - 1] : 1;
    bool rows = op->activation == LS_SOFTMAX;
    struct activation a = {.kind = op->activation,
                           .x = op->tensors[LS_ARG_X].data,
                           .y = op->tensors[LS_ARG_Y].data,
                           .dy = op->tensors[LS_ARG_DY].data,
                           .out = out,
                           .slope = op->alpha,
                           .columns = columns};
    ls_team_run(rows ? count / columns : count, rows ? 1 + GRAIN / columns : GRAIN, part, &a);
    return LS_OK;
}

ls_status ls_cpu_activation_forward(const struct ls_op *op) {
    return run_activation(op, &op->tensors[LS_ARG_X].shape, op->tensors[LS_ARG_Y].data, forward_part);
}

ls_status ls_cpu_activation_backward(const struct ls_op *op) {
    return run_activation(op, &op->tensors[LS_ARG_Y].shape, op->tensors[LS_ARG_DX].data, backward_part);
}
