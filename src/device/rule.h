/* Factors that optimizers compute once a step from their rule, the same for every device: Keras' formulas in float32.
 */
#pragma once
#include <math.h>

#include "device/op.h"

/* The factor of the learning rate for a part. */
static inline float ls_rule_part_rate(const struct ls_blob_part *part) {
    return part->rate != 0 ? part->rate : 1;
}

/* 1 - beta for the decimal that beta was written as: Keras subtracts before it rounds to float32, and beside 1 the
 * difference matters (1e-5 of the result for 0.999). */
static inline float ls_rule_rest(float beta) {
    double decimal = round((double)beta * 1e7) / 1e7;
    return (float)(1 - ((float)decimal == beta ? decimal : (double)beta));
}

/* 1 - beta^t, by which moments that start at zero are too small; the power in float32 as in Keras. */
static inline float ls_rule_correction(float beta, int64_t iteration) {
    return 1 - powf(beta, (float)iteration);
}

/* What Adam adds to the root of the mean square. Keras adds it before the correction of that, torch behind it. */
static inline float ls_rule_epsilon(const ls_optimizer *rule, int64_t iteration) {
    return rule->torch_epsilon ? rule->epsilon * sqrtf(ls_rule_correction(rule->beta_2, iteration)) : rule->epsilon;
}

/* The part of the velocity that stays. */
static inline float ls_rule_momentum(const struct ls_optimizer_step *step) {
    const ls_optimizer *rule = &step->rule;
    return step->last_rate > 0 ? rule->momentum * (rule->learning_rate / step->last_rate) : rule->momentum;
}

/* Adam's step size with the corrections of both moments. */
static inline float ls_rule_adam(const ls_optimizer *rule, int64_t iteration) {
    return rule->learning_rate * sqrtf(ls_rule_correction(rule->beta_2, iteration)) /
           ls_rule_correction(rule->beta_1, iteration);
}
