/* The optimizers in double precision, as Keras' documentation writes them. */
#include "device/reference.h"

#include <math.h>
#include <stddef.h>

/* ---- before the rule ---- */

static double norm(const double *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i] * values[i];
    return sqrt(sum);
}

static void multiply(double *values, int64_t count, double factor) {
    for (int64_t i = 0; i < count; i++) values[i] *= factor;
}

static double sign(double value) {
    return (value > 0) - (value < 0);
}

static void regularize(const struct reference_update *u) {
    for (int64_t p = 0; p < u->part_count; p++)
        for (int64_t i = u->parts[p].offset; i < u->parts[p].offset + u->parts[p].count; i++)
            u->gradients[i] += 2 * u->parts[p].l2 * u->parameters[i] + u->parts[p].l1 * sign(u->parameters[i]);
}

static void clip(const struct reference_rule *rule, const struct reference_update *u) {
    double *g = u->gradients;
    for (int64_t p = 0; rule->clipnorm > 0 && p < u->part_count; p++) {
        double own = norm(g + u->parts[p].offset, u->parts[p].count);
        multiply(g + u->parts[p].offset, u->parts[p].count, rule->clipnorm / fmax(own, rule->clipnorm));
    }
    double all = norm(g, u->count);
    if (rule->global_clipnorm > 0) multiply(g, u->count, rule->global_clipnorm / fmax(all, rule->global_clipnorm));
    for (int64_t i = 0; rule->clipvalue > 0 && i < u->count; i++)
        g[i] = fmin(fmax(g[i], -rule->clipvalue), rule->clipvalue);
}

static void decay(const struct reference_rule *rule, const struct reference_update *u) {
    for (int64_t p = 0; p < u->part_count; p++)
        if (u->parts[p].decays)
            multiply(u->parameters + u->parts[p].offset, u->parts[p].count, 1 - rule->weight_decay * rule->rate);
}

/* ---- the rules, for element i ---- */

static void sgd(const struct reference_rule *rule, const struct reference_update *u, int64_t i) {
    double g = u->gradients[i], momentum = rule->momentum, *m = u->moments[0];
    if (momentum == 0) {
        u->parameters[i] -= rule->rate * g;
        return;
    }
    m[i] = momentum * m[i] - rule->rate * g;
    u->parameters[i] += rule->nesterov ? momentum * m[i] - rule->rate * g : m[i];
}

static void average(double *mean, double beta, double value) {
    *mean = beta * *mean + (1 - beta) * value;
}

/* Adam's direction, with the corrections for moments that start at zero. */
static double direction(const struct reference_rule *rule, const struct reference_update *u, int64_t i) {
    double t = (double)u->iteration, m = u->moments[0][i] / (1 - pow(rule->beta_1, t));
    return m / (sqrt(u->moments[1][i] / (1 - pow(rule->beta_2, t))) + rule->epsilon);
}

static void adam(const struct reference_rule *rule, const struct reference_update *u, int64_t i) {
    double g = u->gradients[i], t = (double)u->iteration;
    double alpha = rule->rate * sqrt(1 - pow(rule->beta_2, t)) / (1 - pow(rule->beta_1, t));
    average(&u->moments[0][i], rule->beta_1, g);
    average(&u->moments[1][i], rule->beta_2, g * g);
    u->parameters[i] -= rule->torch_epsilon ? rule->rate * direction(rule, u, i)
                                            : u->moments[0][i] * alpha / (sqrt(u->moments[1][i]) + rule->epsilon);
}

static void rmsprop(const struct reference_rule *rule, const struct reference_update *u, int64_t i) {
    double g = u->gradients[i], mean = 0;
    average(&u->moments[0][i], rule->rho, g * g);
    if (rule->centered) {
        average(&u->moments[1][i], rule->rho, g);
        mean = u->moments[1][i];
    }
    double move = rule->rate * g / sqrt(u->moments[0][i] - mean * mean + rule->epsilon);
    if (rule->momentum > 0) {
        double *m = u->moments[rule->centered ? 2 : 1];
        move = m[i] = rule->momentum * m[i] + move;
    }
    u->parameters[i] -= move;
}

/* A variable moves along Adam's direction, by the rate's part of its own length. */
static void lamb(const struct reference_rule *rule, const struct reference_update *u,
                 const struct reference_part *part) {
    int64_t end = part->offset + part->count;
    double own = norm(u->parameters + part->offset, part->count), moved = 0;
    for (int64_t i = part->offset; i < end; i++) {
        average(&u->moments[0][i], rule->beta_1, u->gradients[i]);
        average(&u->moments[1][i], rule->beta_2, u->gradients[i] * u->gradients[i]);
        moved += pow(direction(rule, u, i), 2);
    }
    double trust = own > 0 && moved > 0 ? own / sqrt(moved) : 1;
    for (int64_t i = part->offset; i < end; i++) u->parameters[i] -= rule->rate * trust * direction(rule, u, i);
}

void reference_optimize(const struct reference_rule *rule, const struct reference_update *u) {
    regularize(u);
    clip(rule, u);
    decay(rule, u);
    if (rule->kind == REFERENCE_LAMB)
        for (int64_t p = 0; p < u->part_count; p++) lamb(rule, u, &u->parts[p]);
    for (int64_t i = 0; i < u->count; i++) {
        if (rule->kind == REFERENCE_SGD) sgd(rule, u, i);
        if (rule->kind == REFERENCE_ADAM) adam(rule, u, i);
        if (rule->kind == REFERENCE_RMSPROP) rmsprop(rule, u, i);
    }
}

double reference_penalty(const struct reference_update *u) {
    double penalty = 0;
    for (int64_t p = 0; p < u->part_count; p++)
        for (int64_t i = u->parts[p].offset; i < u->parts[p].offset + u->parts[p].count; i++)
            penalty += u->parts[p].l1 * fabs(u->parameters[i]) + u->parts[p].l2 * pow(u->parameters[i], 2);
    return penalty;
}
