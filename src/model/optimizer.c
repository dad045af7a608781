/* Optimizers: the fields that a rule has, Keras' defaults, and the op that applies it. Mirrors keras.optimizers. */
#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

static ls_status check_between(const char *field, float value, float high) {
    if (value >= 0 && value < high) return LS_OK; /* false for NaN */
    return ls_fail(LS_INVALID_ARGUMENT, "optimizer: %s %g must be at least 0 and below %g", field, (double)value,
                   (double)high);
}

static ls_status check_absent(const char *field, float value, const char *owner) {
    if (value == 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "optimizer: %s %g belongs to %s; leave it 0", field, (double)value, owner);
}

static ls_status resolve_sgd(ls_optimizer *rule) {
    ls_status status = check_between("momentum", rule->momentum, 1);
    if (!status) status = check_absent("beta_1", rule->beta_1, "ls_adam");
    if (!status) status = check_absent("beta_2", rule->beta_2, "ls_adam");
    if (!status) status = check_absent("epsilon", rule->epsilon, "ls_adam");
    return status;
}

static ls_status resolve_adam(ls_optimizer *rule) {
    ls_optimizer filled = *rule;
    if (filled.beta_1 == 0) filled.beta_1 = 0.9F;
    if (filled.beta_2 == 0) filled.beta_2 = 0.999F;
    if (filled.epsilon == 0) filled.epsilon = 1e-7F;
    ls_status status = check_absent("momentum", filled.momentum, "ls_sgd");
    if (!status) status = check_absent("nesterov", filled.nesterov ? 1 : 0, "ls_sgd");
    if (!status) status = check_between("beta_1", filled.beta_1, 1);
    if (!status) status = check_between("beta_2", filled.beta_2, 1);
    if (!status) status = check_between("epsilon", filled.epsilon, 1e6F);
    if (!status) *rule = filled;
    return status;
}

ls_status ls_optimizer_check_rate(float learning_rate) {
    if (isfinite(learning_rate) && learning_rate > 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "optimizer: learning_rate %g must be above 0", (double)learning_rate);
}

ls_status ls_optimizer_resolve(ls_optimizer *rule) {
    if (rule->kind != LS_OPTIMIZER_SGD && rule->kind != LS_OPTIMIZER_ADAM)
        return ls_fail(LS_INVALID_ARGUMENT, "optimizer: kind %d is no ls_optimizer_kind; use ls_sgd or ls_adam",
                       (int)rule->kind);
    ls_status status = ls_optimizer_check_rate(rule->learning_rate);
    if (status) return status;
    return rule->kind == LS_OPTIMIZER_SGD ? resolve_sgd(rule) : resolve_adam(rule);
}

int ls_optimizer_moments(const ls_optimizer *rule) {
    if (rule->kind == LS_OPTIMIZER_ADAM) return 2;
    return rule->momentum > 0 ? 1 : 0;
}

/* The shortest decimal that reads back as value. */
static const char *decimal(float value, char text[32]) {
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(text, 32, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return text;
}

void ls_optimizer_describe(const ls_optimizer *rule, char *text, size_t size) {
    char a[32], b[32], c[32], d[32];
    if (rule->kind == LS_OPTIMIZER_ADAM)
        (void)snprintf(text, size, "adam(learning_rate=%s, beta_1=%s, beta_2=%s, epsilon=%s)",
                       decimal(rule->learning_rate, a), decimal(rule->beta_1, b), decimal(rule->beta_2, c),
                       decimal(rule->epsilon, d));
    else
        (void)snprintf(text, size, "sgd(learning_rate=%s, momentum=%s, nesterov=%d)", decimal(rule->learning_rate, a),
                       decimal(rule->momentum, b), rule->nesterov ? 1 : 0);
}

ls_status ls_optimizer_build(struct ls_device *device, const struct ls_optimizer_step *step, size_t count,
                             float *parameters, const float *gradients, float *const moments[2], struct ls_op *op) {
    int needed = ls_optimizer_moments(&step->rule);
    if (count > INT64_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "optimizer: %zu parameters are more than a tensor can hold", count);
    ls_shape shape = LS_SHAPE((int64_t)count);
    struct ls_op made = {.kind = step->rule.kind == LS_OPTIMIZER_ADAM ? LS_OP_ADAM : LS_OP_SGD, .step = step};
    made.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){parameters, LS_FLOAT32, shape};
    made.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){(void *)gradients, LS_FLOAT32, shape};
    for (int i = 0; i < needed; i++)
        made.tensors[LS_ARG_MOMENT_1 + i] = (struct ls_tensor){moments[i], LS_FLOAT32, shape};
    ls_status status = device->ops->build(device, &made);
    if (!status) *op = made;
    return status;
}
