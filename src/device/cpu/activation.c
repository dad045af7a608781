/* Activations as ops of their own. Gradients follow from the output, of GELU and SiLU from the input. y may be x, and
 * dx may be dy. Mirrors keras.activations. GELU is that of Hendrycks and Gimpel 2016, with Phi as it is or by tanh. */
#include <math.h>
#include <stddef.h>

#include "base/clones.h"
#include "base/shape.h"
#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"

#define GRAIN 16384 /* elements that are worth a thread */

/* One run: over elements, or for softmax over rows of so many columns. */
struct activation {
    ls_activation kind;
    const float *x, *y, *dy; /* y: in backward x, where the slope follows from it */
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

#define ROOT_HALF      0.707106781F /* sqrt(1 / 2) */
#define DENSITY        0.398942280F /* 1 / sqrt(2 pi) */
#define ROOT_2_OVER_PI 0.797884561F
#define CUBIC          0.044715F /* of the form by tanh */

/* Phi(x) of the normal distribution; *density is its slope. */
static inline float normal_share(float x, float *density) {
    float power = ls_lanes_exp(x * x * -0.5F), tail = 0.5F * (ls_lanes_erfc_over(fabsf(x) * ROOT_HALF) * power);
    *density = power * DENSITY;
    return ls_lanes_choose(x < 0, tail, 1 - tail);
}

LS_CLONES static void activation_gelu(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float density;
        y[i] = x[i] * normal_share(x[i], &density);
    }
}

/* 1 + tanh(u) = 2 / (1 + exp(-2 u)), which has no cancellation. */
static inline float tanh_share(float x) {
    return ls_lanes_logistic(2 * ROOT_2_OVER_PI * (x + CUBIC * (x * x * x)));
}

LS_CLONES static void activation_gelu_tanh(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * tanh_share(x[i]);
}

LS_CLONES static void activation_silu(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * ls_lanes_logistic(x[i]);
}

/* Returns whether the activation is one of those whose slope follows from x. */
static bool smooth(const struct activation *a, float *y, const float *x, int64_t count) {
    if (a->kind == LS_GELU)
        activation_gelu(y, x, count);
    else if (a->kind == LS_GELU_TANH)
        activation_gelu_tanh(y, x, count);
    else if (a->kind == LS_SILU)
        activation_silu(y, x, count);
    return ls_op_activation_takes_x(a->kind);
}

static void forward_part(void *context, int64_t begin, int64_t end) {
    const struct activation *a = context;
    const float *x = a->x + begin;
    float *y = a->out + begin;
    int64_t count = end - begin;
    if (smooth(a, y, x, count)) return;
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

LS_CLONES static void activation_gelu_slope(float *dx, const float *dy, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float density, share = normal_share(x[i], &density);
        dx[i] = dy[i] * (share + x[i] * density);
    }
}

/* For s = logistic(2 u), s' = s (1 - s) 2 u'. */
LS_CLONES static void activation_gelu_tanh_slope(float *dx, const float *dy, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float share = tanh_share(x[i]), inner = 2 * ROOT_2_OVER_PI * (1 + 3 * CUBIC * (x[i] * x[i]));
        dx[i] = dy[i] * (share + x[i] * (share * (1 - share) * inner));
    }
}

LS_CLONES static void activation_silu_slope(float *dx, const float *dy, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float share = ls_lanes_logistic(x[i]);
        dx[i] = dy[i] * (share * (1 + x[i] * (1 - share)));
    }
}

static bool smooth_backward(const struct activation *a, float *dx, const float *dy, const float *x, int64_t count) {
    if (a->kind == LS_GELU)
        activation_gelu_slope(dx, dy, x, count);
    else if (a->kind == LS_GELU_TANH)
        activation_gelu_tanh_slope(dx, dy, x, count);
    else if (a->kind == LS_SILU)
        activation_silu_slope(dx, dy, x, count);
    return ls_op_activation_takes_x(a->kind);
}

static void backward_part(void *context, int64_t begin, int64_t end) {
    const struct activation *a = context;
    const float *dy = a->dy + begin, *y = a->y + begin;
    float *dx = a->out + begin;
    int64_t count = end - begin, columns = a->columns;
    if (smooth_backward(a, dx, dy, y, count)) return;
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
    bool rows = op->activation == LS_SOFTMAX, takes_x = ls_op_activation_takes_x(op->activation);
    struct activation a = {.kind = op->activation,
                           .x = op->tensors[LS_ARG_X].data,
                           .y = op->tensors[takes_x ? LS_ARG_X : LS_ARG_Y].data,
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
    return run_activation(op, &op->tensors[LS_ARG_DY].shape, op->tensors[LS_ARG_DX].data, backward_part);
}
