/* Optimizers, one loop over whole blobs, with Keras' formulas and roundings in float32. Where gradients and moments are
 * zero the parameters do not change, so gaps in a blob stay zero. Mirrors keras.optimizers.SGD and Adam. */
#include <math.h>
#include <stddef.h>

#include "base/clones.h"
#include "device/cpu/cpu.h"

LS_CLONES static void plain(float *restrict w, const float *restrict g, size_t count, float rate) {
    for (size_t i = 0; i < count; i++) w[i] -= g[i] * rate;
}

struct momentum {
    float rate, momentum;
};

LS_CLONES static void heavy_ball(float *restrict w, const float *restrict g, float *restrict m, size_t count,
                                 struct momentum rule) {
    for (size_t i = 0; i < count; i++) {
        m[i] = m[i] * rule.momentum - g[i] * rule.rate;
        w[i] += m[i];
    }
}

LS_CLONES static void nesterov(float *restrict w, const float *restrict g, float *restrict m, size_t count,
                               struct momentum rule) {
    for (size_t i = 0; i < count; i++) {
        float move = g[i] * rule.rate;
        m[i] = m[i] * rule.momentum - move;
        w[i] += m[i] * rule.momentum - move;
    }
}

ls_status ls_cpu_sgd(const struct ls_op *op) {
    const ls_optimizer *rule = &op->step->rule;
    float *w = op->tensors[LS_ARG_PARAMETERS].data, *m = op->tensors[LS_ARG_MOMENT_1].data;
    const float *g = op->tensors[LS_ARG_GRADIENTS].data;
    size_t count = (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0];
    struct momentum numbers = {rule->learning_rate, rule->momentum};
    if (!m)
        plain(w, g, count, rule->learning_rate);
    else if (rule->nesterov)
        nesterov(w, g, m, count, numbers);
    else
        heavy_ball(w, g, m, count, numbers);
    return LS_OK;
}

struct adam {
    float alpha, rest_1, rest_2, epsilon; /* rest: 1 - beta */
};

LS_CLONES static void adam(float *restrict w, const float *restrict g, float *restrict m, float *restrict v,
                           size_t count, const struct adam *rule) {
    float alpha = rule->alpha, rest_1 = rule->rest_1, rest_2 = rule->rest_2, epsilon = rule->epsilon;
    for (size_t i = 0; i < count; i++) {
        m[i] += (g[i] - m[i]) * rest_1;
        v[i] += (g[i] * g[i] - v[i]) * rest_2;
        w[i] -= m[i] * alpha / (sqrtf(v[i]) + epsilon);
    }
}

/* 1 - beta for the decimal that beta was written as: Keras subtracts before it rounds to float32, and beside 1 the
 * difference matters (1e-5 of the result for 0.999). */
static float rest(float beta) {
    double decimal = round((double)beta * 1e7) / 1e7;
    return (float)(1 - ((float)decimal == beta ? decimal : (double)beta));
}

/* The step size with the corrections for moments that start at zero; powers in float32 as in Keras. */
static float adam_alpha(const ls_optimizer *rule, int64_t iteration) {
    float power_1 = powf(rule->beta_1, (float)iteration), power_2 = powf(rule->beta_2, (float)iteration);
    return rule->learning_rate * sqrtf(1 - power_2) / (1 - power_1);
}

ls_status ls_cpu_adam(const struct ls_op *op) {
    const ls_optimizer *rule = &op->step->rule;
    struct adam numbers = {.alpha = adam_alpha(rule, op->step->iteration),
                           .rest_1 = rest(rule->beta_1),
                           .rest_2 = rest(rule->beta_2),
                           .epsilon = rule->epsilon};
    adam(op->tensors[LS_ARG_PARAMETERS].data, op->tensors[LS_ARG_GRADIENTS].data, op->tensors[LS_ARG_MOMENT_1].data,
         op->tensors[LS_ARG_MOMENT_2].data, (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0], &numbers);
    return LS_OK;
}
