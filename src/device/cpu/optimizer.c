/* Optimizers: loops over whole blobs, with Keras' formulas and roundings in float32. A parameter whose gradient and
 * moments are zero does not change, so gaps in a blob stay zero. Regularisers, clipping and weight decay go before the
 * rule, in Keras' order. Mirrors keras.optimizers. */
#include <math.h>
#include <stddef.h>

#include "base/clones.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/norm.h"
#include "device/rule.h"

#define BLOCK   1024 /* elements whose increments are kept on the way */
#define UPDATED 8192 /* elements of a block that goes through all steps at once */
#define GRAIN   8    /* such blocks that are worth a thread */

struct blobs {
    float *w, *g, *moments[LS_MAX_MOMENTS];
    size_t count;
};

/* A rule over elements that have one rate; multiplier: of the learning rate. */
typedef void update_fn(const struct ls_optimizer_step *step, const struct blobs *blobs, float multiplier);

static struct blobs blobs_of(const struct ls_op *op, size_t begin, size_t end) {
    struct blobs blobs = {.w = (float *)op->tensors[LS_ARG_PARAMETERS].data + begin,
                          .g = (float *)op->tensors[LS_ARG_GRADIENTS].data + begin,
                          .count = end - begin};
    for (int i = 0; i < LS_MAX_MOMENTS && op->tensors[LS_ARG_MOMENT_1 + i].data; i++)
        blobs.moments[i] = (float *)op->tensors[LS_ARG_MOMENT_1 + i].data + begin;
    return blobs;
}

static size_t parameters_of(const struct ls_op *op) {
    return (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0];
}

/* An update on its way. */
struct updating {
    const struct ls_op *op;
    update_fn *rule;
    float factor; /* of the gradients */
};

/* The rule runs once unless variables differ in their rates. Neighbours of one rate go together, with the gaps behind
 * them. */
static void update_block(const struct updating *updating, size_t begin, size_t end) {
    const struct ls_op *op = updating->op;
    ls_cpu_finish_update(op, updating->factor, begin, end);
    for (size_t next, v = ls_cpu_variable_behind(op, begin); begin < end; begin = next) {
        size_t holder = v < op->variable_count && op->variables[v].offset <= begin ? v : v ? v - 1 : v;
        float multiplier = holder < op->variable_count ? ls_rule_part_rate(&op->variables[holder]) : 1;
        while (v < op->variable_count && ls_rule_part_rate(&op->variables[v]) == multiplier) v++;
        next = v < op->variable_count && op->variables[v].offset < end ? op->variables[v].offset : end;
        const struct blobs blobs = blobs_of(op, begin, next);
        updating->rule(op->step, &blobs, multiplier);
    }
}

/* Blocks stay in the cache from what comes before the rule to the rule. No element's bits depend on where they begin.
 */
static void update_part(void *context, int64_t begin, int64_t end) {
    const struct updating *updating = context;
    size_t count = parameters_of(updating->op);
    for (size_t block = (size_t)begin; block < (size_t)end; block++) {
        size_t last = (block + 1) * UPDATED;
        update_block(updating, block * UPDATED, last < count ? last : count);
    }
}

static ls_status update(const struct ls_op *op, update_fn *rule) {
    struct updating updating = {.op = op, .rule = rule};
    ls_status status = ls_cpu_prepare_update(op, &updating.factor);
    size_t blocks = (parameters_of(op) + UPDATED - 1) / UPDATED;
    if (!status) ls_team_run((int64_t)blocks, GRAIN, update_part, &updating);
    return status;
}

/* ---- SGD ---- */

LS_CLONES static void plain(float *restrict w, const float *restrict g, size_t count, float rate) {
    for (size_t i = 0; i < count; i++) w[i] -= g[i] * rate;
}

struct momentum {
    float rate, momentum;
};

/* m = momentum m - rate g; w = w + m (Polyak 1964). The rate is inside of m, as in keras.optimizers.SGD: a rate that
 * falls in a schedule leaves the velocity of the steps before as it was. */
LS_CLONES static void heavy_ball(float *restrict w, const float *restrict g, float *restrict m, size_t count,
                                 struct momentum rule) {
    for (size_t i = 0; i < count; i++) {
        m[i] = m[i] * rule.momentum - g[i] * rule.rate;
        w[i] += m[i];
    }
}

/* m = momentum m - rate g; w = w + momentum m - rate g: Nesterov's method in the form of Sutskever et al. 2013, in
 * which w is the point that looks ahead. */
LS_CLONES static void nesterov(float *restrict w, const float *restrict g, float *restrict m, size_t count,
                               struct momentum rule) {
    for (size_t i = 0; i < count; i++) {
        float move = g[i] * rule.rate;
        m[i] = m[i] * rule.momentum - move;
        w[i] += m[i] * rule.momentum - move;
    }
}

static void update_sgd(const struct ls_optimizer_step *step, const struct blobs *b, float multiplier) {
    const struct momentum numbers = {step->rule.learning_rate * multiplier, ls_rule_momentum(step)};
    if (!b->moments[0])
        plain(b->w, b->g, b->count, numbers.rate);
    else if (step->rule.nesterov)
        nesterov(b->w, b->g, b->moments[0], b->count, numbers);
    else
        heavy_ball(b->w, b->g, b->moments[0], b->count, numbers);
}

ls_status ls_cpu_sgd(const struct ls_op *op) {
    return update(op, update_sgd);
}

/* ---- Adam ---- */

struct adam {
    float alpha, rest_1, rest_2, epsilon; /* rest: 1 - beta */
};

/* m = beta_1 m + (1 - beta_1) g; v = beta_2 v + (1 - beta_2) g^2; w = w - alpha m / (sqrt(v) + epsilon). alpha has both
 * bias corrections in it, rate sqrt(1 - beta_2^t) / (1 - beta_1^t), which is the faster order of section 2 of Kingma
 * and Ba 2015; epsilon is then the paper's epsilon hat, as in Keras, or made so of torch's. t counts the applied steps.
 */
LS_CLONES static void adam(float *restrict w, const float *restrict g, float *restrict m, float *restrict v,
                           size_t count, const struct adam *rule) {
    float alpha = rule->alpha, rest_1 = rule->rest_1, rest_2 = rule->rest_2, epsilon = rule->epsilon;
    for (size_t i = 0; i < count; i++) {
        m[i] += (g[i] - m[i]) * rest_1;
        v[i] += (g[i] * g[i] - v[i]) * rest_2;
        w[i] -= m[i] * alpha / (sqrtf(v[i]) + epsilon);
    }
}

static void update_adam(const struct ls_optimizer_step *step, const struct blobs *b, float multiplier) {
    const ls_optimizer *rule = &step->rule;
    int64_t applied = ls_step_applied(step);
    const struct adam numbers = {.alpha = ls_rule_adam(rule, applied) * multiplier,
                                 .rest_1 = ls_rule_rest(rule->beta_1),
                                 .rest_2 = ls_rule_rest(rule->beta_2),
                                 .epsilon = ls_rule_epsilon(rule, applied)};
    adam(b->w, b->g, b->moments[0], b->moments[1], b->count, &numbers);
}

ls_status ls_cpu_adam(const struct ls_op *op) {
    return update(op, update_adam);
}

/* ---- RMSprop: increments a block at a time, then applied with or without momentum ---- */

struct rmsprop {
    float rate, rho, rest, epsilon;
};

/* v = rho v + (1 - rho) g^2; increment = rate g / sqrt(v + epsilon) (Hinton 2012, lecture 6e). Keras has epsilon inside
 * of the root, PyTorch outside. */
LS_CLONES static void scaled(float *restrict increment, const float *restrict g, float *restrict v, size_t count,
                             const struct rmsprop *rule) {
    float rate = rule->rate, rho = rule->rho, other = rule->rest, epsilon = rule->epsilon;
    for (size_t i = 0; i < count; i++) {
        v[i] = rho * v[i] + other * (g[i] * g[i]);
        increment[i] = rate * g[i] / sqrtf(v[i] + epsilon);
    }
}

/* The mean square less the square of the mean is an estimate of the variance (Graves 2013). Rounding may make it
 * slightly negative; epsilon keeps the root real for gradients that are not too large. */
LS_CLONES static void centered(float *restrict increment, const float *restrict g, float *restrict v,
                               float *restrict average, size_t count, const struct rmsprop *rule) {
    float rate = rule->rate, rho = rule->rho, other = rule->rest, epsilon = rule->epsilon;
    for (size_t i = 0; i < count; i++) {
        v[i] = rho * v[i] + other * (g[i] * g[i]);
        average[i] = rho * average[i] + other * g[i];
        increment[i] = rate * g[i] / sqrtf(v[i] - average[i] * average[i] + epsilon);
    }
}

LS_CLONES static void apply_momentum(float *restrict w, float *restrict m, const float *restrict increment,
                                     size_t count, float momentum) {
    for (size_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + increment[i];
        w[i] -= m[i];
    }
}

static void update_rmsprop(const struct ls_optimizer_step *step, const struct blobs *b, float multiplier) {
    const ls_optimizer *rule = &step->rule;
    const struct rmsprop numbers = {rule->learning_rate * multiplier, rule->rho, ls_rule_rest(rule->rho),
                                    rule->epsilon};
    float increment[BLOCK], *v = b->moments[0], *average = rule->centered ? b->moments[1] : NULL;
    float *m = b->moments[rule->centered ? 2 : 1];
    for (size_t at = 0; at < b->count; at += BLOCK) {
        size_t count = b->count - at < BLOCK ? b->count - at : BLOCK;
        if (average)
            centered(increment, b->g + at, v + at, average + at, count, &numbers);
        else
            scaled(increment, b->g + at, v + at, count, &numbers);
        if (rule->momentum > 0)
            apply_momentum(b->w + at, m + at, increment, count, ls_rule_momentum(step));
        else
            plain(b->w + at, increment, count, 1);
    }
}

ls_status ls_cpu_rmsprop(const struct ls_op *op) {
    return update(op, update_rmsprop);
}

/* ---- LAMB: Adam's direction, its length in each variable made that of the variable ---- */

struct lamb {
    float rest_1, rest_2, epsilon, correction_1, correction_2; /* corrections: 1 - beta^t */
};

LS_CLONES static void average_moments(const float *restrict g, float *restrict m, float *restrict v, size_t count,
                                      const struct lamb *rule) {
    float rest_1 = rule->rest_1, rest_2 = rule->rest_2;
    for (size_t i = 0; i < count; i++) {
        m[i] += (g[i] - m[i]) * rest_1;
        v[i] += (g[i] * g[i] - v[i]) * rest_2;
    }
}

LS_CLONES static void direction(float *restrict u, const float *restrict m, const float *restrict v, size_t count,
                                const struct lamb *rule) {
    float one = rule->correction_1, two = rule->correction_2, epsilon = rule->epsilon;
    for (size_t i = 0; i < count; i++) u[i] = m[i] / one / (sqrtf(v[i] / two) + epsilon);
}

struct lamb_step {
    const struct blobs *blobs;
    const struct lamb *rule;
};

/* Of the variable, and of its direction. The direction is computed twice, here for its norm and in move for the step:
 * that costs less than a blob for it. */
static void square_lamb(const void *context, size_t at, size_t count, double *squares) {
    const struct lamb_step *step = context;
    const struct blobs *b = step->blobs;
    struct ls_squares own = {{0}}, moves = {{0}};
    float u[LS_NORM_CHUNK];
    direction(u, b->moments[0] + at, b->moments[1] + at, count, step->rule);
    ls_squares_add(&own, b->w + at, count);
    ls_squares_add(&moves, u, count);
    squares[0] = ls_squares_sum(&own);
    squares[1] = ls_squares_sum(&moves);
}

/* The trust ratio, by which the learning rate is multiplied: the norm of the variable over the norm of its direction. A
 * variable or a direction of zeros has the ratio 1, so biases that begin at 0 can leave it. */
static float trust(const double squares[2]) {
    float length = sqrtf((float)squares[0]), moved = sqrtf((float)squares[1]);
    return length > 0 && moved > 0 ? length / moved : 1;
}

static void move(const struct lamb_step *step, const struct ls_blob_part *part, float rate) {
    const struct blobs *b = step->blobs;
    float u[BLOCK];
    for (size_t done = 0; done < part->count; done += BLOCK) {
        size_t at = part->offset + done, count = part->count - done < BLOCK ? part->count - done : BLOCK;
        direction(u, b->moments[0] + at, b->moments[1] + at, count, step->rule);
        plain(b->w + at, u, count, rate);
    }
}

/* You et al. 2020, "Large batch optimization for deep learning": u = m^ / (sqrt(v^) + epsilon), w = w - rate |w| / |u|
 * u for each variable, without bounds on the ratio. The paper adds weight decay to u; Keras decays before the rule, and
 * so does ls_cpu_prepare_update. */
static ls_status lamb(const struct ls_op *op, const struct lamb_step *step) {
    const struct blobs *b = step->blobs;
    LS_CLEANUP(ls_free_pointer) double *squares = ls_alloc_array(2 * op->variable_count + 1, sizeof(*squares));
    double total[2];
    if (!squares) return ls_fail_memory("norms", 2 * op->variable_count * sizeof(*squares));
    for (size_t i = 0; i < op->variable_count; i++) {
        size_t at = op->variables[i].offset;
        average_moments(b->g + at, b->moments[0] + at, b->moments[1] + at, op->variables[i].count, step->rule);
    }
    ls_status status = ls_cpu_norms(op, 2, square_lamb, step, squares, total);
    for (size_t i = 0; !status && i < op->variable_count; i++)
        move(step, &op->variables[i],
             op->step->rule.learning_rate * ls_rule_part_rate(&op->variables[i]) * trust(squares + 2 * i));
    return status;
}

ls_status ls_cpu_lamb(const struct ls_op *op) {
    const ls_optimizer *rule = &op->step->rule;
    int64_t iteration = ls_step_applied(op->step);
    const struct lamb numbers = {.rest_1 = ls_rule_rest(rule->beta_1),
                                 .rest_2 = ls_rule_rest(rule->beta_2),
                                 .epsilon = rule->epsilon,
                                 .correction_1 = ls_rule_correction(rule->beta_1, iteration),
                                 .correction_2 = ls_rule_correction(rule->beta_2, iteration)};
    struct blobs b = blobs_of(op, 0, parameters_of(op));
    float factor;
    ls_status status = ls_cpu_prepare_update(op, &factor);
    if (status) return status;
    ls_cpu_finish_update(op, factor, 0, parameters_of(op));
    status = lamb(op, &(struct lamb_step){&b, &numbers});
    if (status) ls_cpu_undo_update(op);
    return status;
}
