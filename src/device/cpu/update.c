/* The steps before an optimizer's rule: the gradients are divided by the loss scale (LossScaleOptimizer), then
 * regularisers' gradients, clipping and weight decay follow in Keras' order and with its formulas (Optimizer.apply).
 * Norms are added in a fixed order (norms.c). Gradients and parameters are changed in place. */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/rule.h"

/* ---- sums ---- */

/* Eight sums side by side take element i to lane i mod 8, whatever the width of the processor's vectors; ls_squares_sum
 * joins them in one fixed order. A product of two floats is exact in a double. */
LS_CLONES static void add_squares(double *restrict lanes, const float *restrict values, size_t rounds) {
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < LS_SQUARES_LANES; i++) {
            double value = (double)values[r * LS_SQUARES_LANES + i];
            lanes[i] += value * value;
        }
}

void ls_squares_add(struct ls_squares *squares, const float *values, size_t count) {
    size_t rounds = count / LS_SQUARES_LANES;
    add_squares(squares->lanes, values, rounds);
    for (size_t i = rounds * LS_SQUARES_LANES; i < count; i++)
        squares->lanes[i % LS_SQUARES_LANES] += (double)values[i] * (double)values[i];
}

double ls_squares_sum(const struct ls_squares *squares) {
    const double *l = squares->lanes;
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

static double squares_of(const float *values, size_t count) {
    struct ls_squares squares = {{0}};
    ls_squares_add(&squares, values, count);
    return ls_squares_sum(&squares);
}

static double magnitudes_of(const float *values, size_t count) {
    double lanes[LS_SQUARES_LANES] = {0};
    for (size_t i = 0; i < count; i++) lanes[i % LS_SQUARES_LANES] += fabs((double)values[i]);
    const struct ls_squares sums = {{lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]}};
    return ls_squares_sum(&sums);
}

/* ---- regularisers ---- */

ls_status ls_cpu_penalty(const struct ls_op *op) {
    const float *w = op->tensors[LS_ARG_PARAMETERS].data;
    double penalty = 0;
    for (size_t i = 0; i < op->variable_count; i++) {
        const struct ls_blob_part *part = &op->variables[i];
        if (part->l1 > 0) penalty += (double)part->l1 * magnitudes_of(w + part->offset, part->count);
        if (part->l2 > 0) penalty += (double)part->l2 * squares_of(w + part->offset, part->count);
    }
    *op->value = penalty;
    return LS_OK;
}

/* The derivative of l2 w^2 + l1 |w|, with 0 for |w| at 0 (tf.sign). */
LS_CLONES static void regularize(float *restrict g, const float *restrict w, size_t count, float l1, float l2) {
    for (size_t i = 0; i < count; i++) {
        float sign = (float)(w[i] > 0) - (float)(w[i] < 0);
        g[i] += l2 * (2 * w[i]) + l1 * sign;
    }
}

/* ---- clipping ---- */

LS_CLONES static void clip_values(float *g, size_t count, float limit) {
    for (size_t i = 0; i < count; i++) g[i] = g[i] > limit ? limit : g[i] < -limit ? -limit : g[i];
}

LS_CLONES static void multiply(float *g, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) g[i] *= factor;
}

LS_CLONES static void multiply_divide(float *g, size_t count, float factor, float divisor) {
    for (size_t i = 0; i < count; i++) g[i] = g[i] * factor / divisor;
}

/* The factor and the divisor of g limit / max(|g|, limit), a variable at a time (tf.clip_by_norm). A NaN fails every
 * comparison, so it is asked for: it must reach the parameters and not be clipped away. */
static void clip_norm(float *g, size_t count, double squares, float limit) {
    float norm = sqrtf((float)squares);
    multiply_divide(g, count, limit, norm > limit || isnan(norm) ? norm : limit);
}

/* A norm that is not finite makes everything NaN, as in Keras, so that it is seen. One factor for all variables keeps
 * the direction of the step (Pascanu et al. 2013; tf.clip_by_global_norm). */
static float global_factor(double squares, float limit) {
    float norm = sqrtf((float)squares);
    return limit * fminf(1 / norm, 1 / limit) + (norm - norm);
}

static void square_gradients(const void *context, size_t at, size_t count, double *squares) {
    struct ls_squares sum = {{0}};
    ls_squares_add(&sum, (const float *)context + at, count);
    squares[0] = ls_squares_sum(&sum);
}

static ls_status clip_norms(const struct ls_op *op, float *g, float *factor) {
    const ls_optimizer *rule = &op->step->rule;
    LS_CLEANUP(ls_free_pointer) double *squares = ls_alloc_array(op->variable_count + 1, sizeof(*squares));
    double total;
    if (!squares) return ls_fail_memory("norms", op->variable_count * sizeof(*squares));
    ls_status status = ls_cpu_norms(op, 1, square_gradients, g, squares, &total);
    if (status) return status;
    for (size_t i = 0; rule->clipnorm > 0 && i < op->variable_count; i++)
        clip_norm(g + op->variables[i].offset, op->variables[i].count, squares[i], rule->clipnorm);
    if (rule->global_clipnorm > 0) *factor = global_factor(total, rule->global_clipnorm);
    return LS_OK;
}

static ls_status clip(const struct ls_op *op, float *g, float *factor) {
    const ls_optimizer *rule = &op->step->rule;
    if (rule->clipvalue > 0) clip_values(g, (size_t)op->tensors[LS_ARG_GRADIENTS].shape.dims[0], rule->clipvalue);
    return rule->clipnorm > 0 || rule->global_clipnorm > 0 ? clip_norms(op, g, factor) : LS_OK;
}

/* ---- weight decay ---- */

/* Decoupled weight decay (Loshchilov and Hutter 2019): it does not go through the moments, as the gradient of an l2
 * penalty does. */
LS_CLONES static void decay(float *w, size_t count, float weight_decay, float rate) {
    for (size_t i = 0; i < count; i++) w[i] -= w[i] * weight_decay * rate;
}

/* The order matters. Norms are those of unscaled gradients, which hold the penalties' gradients already; the decay
 * comes last and is not clipped. The gradients are the sums over all replicas, so every replica clips alike. */
ls_status ls_cpu_prepare_update(const struct ls_op *op, float *factor) {
    const float *w = op->tensors[LS_ARG_PARAMETERS].data;
    float *g = op->tensors[LS_ARG_GRADIENTS].data, unscale = op->step->unscale;
    *factor = 1;
    if (unscale != 0 && unscale != 1) multiply(g, (size_t)op->tensors[LS_ARG_GRADIENTS].shape.dims[0], unscale);
    for (size_t i = 0; i < op->variable_count; i++) {
        const struct ls_blob_part *part = &op->variables[i];
        if (part->l1 > 0 || part->l2 > 0)
            regularize(g + part->offset, w + part->offset, part->count, part->l1, part->l2);
    }
    return clip(op, g, factor);
}

size_t ls_cpu_variable_behind(const struct ls_op *op, size_t at) {
    size_t low = 0, high = op->variable_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (op->variables[middle].offset + op->variables[middle].count > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Moves the elements from op's tensors to before, or back. */
static void move_kept(const struct ls_op *op, size_t begin, size_t end, bool back) {
    size_t count = (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0], size = (end - begin) * sizeof(float);
    const int args[1 + LS_MAX_MOMENTS] = {LS_ARG_PARAMETERS, LS_ARG_MOMENT_1, LS_ARG_MOMENT_1 + 1, LS_ARG_MOMENT_1 + 2};
    for (size_t i = 0; i < 1 + LS_MAX_MOMENTS && op->tensors[args[i]].data; i++) {
        float *now = (float *)op->tensors[args[i]].data + begin, *before = op->before + i * count + begin;
        memcpy(back ? now : before, back ? before : now, size);
    }
}

void ls_cpu_undo_update(const struct ls_op *op) {
    if (op->before) move_kept(op, 0, (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0], true);
}

/* A factor of 1 changes no bit. */
void ls_cpu_finish_update(const struct ls_op *op, float factor, size_t begin, size_t end) {
    const ls_optimizer *rule = &op->step->rule;
    float *w = op->tensors[LS_ARG_PARAMETERS].data, *g = op->tensors[LS_ARG_GRADIENTS].data;
    if (op->before) move_kept(op, begin, end, false);
    if (factor != 1) multiply(g + begin, end - begin, factor);
    for (size_t i = ls_cpu_variable_behind(op, begin); rule->weight_decay > 0 && i < op->variable_count; i++) {
        const struct ls_blob_part *part = &op->variables[i];
        size_t first = part->offset > begin ? part->offset : begin, last = part->offset + part->count;
        if (first >= end) break;
        if (part->decays)
            decay(w + first, (last < end ? last : end) - first, rule->weight_decay,
                  rule->learning_rate * ls_rule_part_rate(part));
    }
}
