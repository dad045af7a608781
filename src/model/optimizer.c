/* Optimizers: the fields that a rule has, Keras' defaults, and the op that applies it. Mirrors keras.optimizers. SGD
 * with momentum is Polyak 1964 and Sutskever et al. 2013, Adam Kingma and Ba 2015, AdamW Loshchilov and Hutter 2019,
 * RMSprop Hinton 2012 (lecture 6e), LAMB You et al. 2020. AdamW is Adam with another default of weight_decay: the decay
 * is decoupled for every kind (device/cpu/update.c). */
#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/new.h"
#include "base/plain.h"
#include "base/text.h"

/* One row a kind. Fields that a kind has not must be left 0. */
static const struct kind {
    const char *name;
    enum ls_op_kind op;
    bool momentum, nesterov, betas, epsilon, torch_epsilon, rho;
    float weight_decay; /* default */
} kinds[] = {
    [LS_OPTIMIZER_SGD] = {"sgd", LS_OP_SGD, .momentum = true, .nesterov = true},
    [LS_OPTIMIZER_ADAM] = {"adam", LS_OP_ADAM, .betas = true, .epsilon = true, .torch_epsilon = true},
    [LS_OPTIMIZER_ADAMW] = {"adamw", LS_OP_ADAM, .betas = true, .epsilon = true, .torch_epsilon = true,
                            .weight_decay = 0.004F},
    [LS_OPTIMIZER_RMSPROP] = {"rmsprop", LS_OP_RMSPROP, .momentum = true, .epsilon = true, .rho = true},
    [LS_OPTIMIZER_LAMB] = {"lamb", LS_OP_LAMB, .betas = true, .epsilon = true},
};

static ls_status check_between(const char *field, float value, float high) {
    if (value >= 0 && value < high) return LS_OK; /* false for NaN */
    return ls_fail(LS_INVALID_ARGUMENT, "optimizer: %s %g must be at least 0 and below %g", field, (double)value,
                   (double)high);
}

struct field {
    const char *name;
    bool has;
    float *value;
    float standard, high; /* the default; all values are below */
};

/* Sets the default and checks what the kind has; refuses the rest. 0 means that the caller left the field out, so a
 * default cannot be overridden by 0. A value that the kind would ignore is an error and no silence. */
static ls_status resolve_field(const struct kind *kind, const struct field *field) {
    if (field->has && *field->value == 0) *field->value = field->standard;
    if (field->has) return check_between(field->name, *field->value, field->high);
    if (*field->value == 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "optimizer: %s has no %s; leave it 0, not %g", kind->name, field->name,
                   (double)*field->value);
}

static ls_status resolve_fields(const struct kind *kind, ls_optimizer *rule) {
    float nesterov = rule->nesterov ? 1 : 0, centered = rule->centered ? 1 : 0, steps = 0;
    float correction = rule->momentum_correction ? 1 : 0, torch_epsilon = rule->torch_epsilon ? 1 : 0;
    const struct field fields[] = {
        {"momentum", kind->momentum, &rule->momentum, 0, 1},
        {"nesterov", kind->nesterov, &nesterov, 0, 2},
        {"momentum_correction", kind->momentum, &correction, 0, 2},
        {"beta_1", kind->betas, &rule->beta_1, 0.9F, 1},
        {"beta_2", kind->betas, &rule->beta_2, 0.999F, 1},
        {"epsilon", kind->epsilon, &rule->epsilon, 1e-7F, 1e6F},
        {"torch_epsilon", kind->torch_epsilon, &torch_epsilon, 0, 2},
        {"rho", kind->rho, &rule->rho, 0.9F, 1},
        {"centered", kind->rho, &centered, 0, 2},
        {"weight_decay", true, &rule->weight_decay, kind->weight_decay, 1e6F},
        {"clipvalue", true, &rule->clipvalue, 0, INFINITY},
        {"clipnorm", true, &rule->clipnorm, 0, INFINITY},
        {"global_clipnorm", true, &rule->global_clipnorm, 0, INFINITY},
        {"gradient_accumulation_steps", true, &steps, 0, 1e6F},
    };
    ls_status status = LS_OK;
    steps = (float)rule->gradient_accumulation_steps;
    for (size_t i = 0; !status && i < sizeof(fields) / sizeof(fields[0]); i++) status = resolve_field(kind, &fields[i]);
    return status;
}

static ls_status check_together(const ls_optimizer *rule) {
    if ((rule->clipvalue > 0) + (rule->clipnorm > 0) + (rule->global_clipnorm > 0) > 1)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "optimizer: only one of clipvalue, clipnorm and global_clipnorm is possible");
    if (rule->exclude_from_weight_decay && rule->weight_decay == 0)
        return ls_fail(LS_INVALID_ARGUMENT, "optimizer: exclude_from_weight_decay '%.80s' without weight_decay",
                       rule->exclude_from_weight_decay);
    if (rule->momentum_correction && rule->momentum == 0)
        return ls_fail(LS_INVALID_ARGUMENT, "optimizer: momentum_correction without momentum");
    return ls_rate_schedule_check(&rule->schedule);
}

ls_status ls_optimizer_check_rate(float learning_rate) {
    if (isfinite(learning_rate) && learning_rate > 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "optimizer: learning_rate %g must be above 0", (double)learning_rate);
}

ls_status ls_optimizer_resolve(ls_optimizer *rule) {
    ls_optimizer filled = *rule;
    if (rule->kind < LS_OPTIMIZER_SGD || rule->kind > LS_OPTIMIZER_LAMB)
        return ls_fail(LS_INVALID_ARGUMENT, "optimizer: kind %d is no ls_optimizer_kind; use ls_sgd, ls_adam, ...",
                       (int)rule->kind);
    ls_status status = ls_optimizer_check_rate(rule->learning_rate);
    if (!status) status = resolve_fields(&kinds[rule->kind], &filled);
    if (!status) status = check_together(&filled);
    if (!filled.gradient_accumulation_steps) filled.gradient_accumulation_steps = 1;
    if (!status) *rule = filled;
    return status;
}

enum ls_op_kind ls_optimizer_op(const ls_optimizer *rule) {
    return kinds[rule->kind].op;
}

/* Each is a blob as large as the parameters: SGD keeps the velocity if it has momentum; Adam and LAMB keep the first
 * and the second moment; RMSprop the mean square, the mean if centered, and the velocity. */
int ls_optimizer_moments(const ls_optimizer *rule) {
    int momentum = rule->momentum > 0 ? 1 : 0;
    if (rule->kind == LS_OPTIMIZER_SGD) return momentum;
    return rule->kind == LS_OPTIMIZER_RMSPROP ? 1 + momentum + (rule->centered ? 1 : 0) : 2;
}

/* ---- describing ---- */

/* The shortest decimal that reads back as value. */
static void print_decimal(FILE *out, const char *name, float value) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        (void)ls_plain_text(text, sizeof(text), "%.*g", digits, (double)value);
        if ((float)ls_plain_number(text, NULL) == value) break;
    }
    (void)fprintf(out, ", %s=%s", name, text);
}

/* A field with its original default adds no line, so that older checkpoints keep their description. */
static void print_others(FILE *out, const ls_optimizer *rule) {
    char schedule[512];
    const struct {
        const char *name;
        float value;
    } fields[] = {{"weight_decay", rule->weight_decay},
                  {"clipvalue", rule->clipvalue},
                  {"clipnorm", rule->clipnorm},
                  {"global_clipnorm", rule->global_clipnorm}};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].value > 0) print_decimal(out, fields[i].name, fields[i].value);
    if (rule->exclude_from_weight_decay) (void)fprintf(out, ", excluded=%s", rule->exclude_from_weight_decay);
    if (rule->momentum_correction) (void)fprintf(out, ", momentum_correction=1");
    if (rule->torch_epsilon) (void)fprintf(out, ", torch_epsilon=1");
    if (rule->gradient_accumulation_steps > 1)
        (void)fprintf(out, ", gradient_accumulation_steps=%d", rule->gradient_accumulation_steps);
    if (ls_rate_schedule_is_constant(&rule->schedule)) return;
    ls_rate_schedule_describe(&rule->schedule, schedule, sizeof(schedule));
    (void)fprintf(out, ", schedule=%s", schedule);
}

static void print_rule(FILE *out, const ls_optimizer *rule) {
    const struct kind *kind = &kinds[rule->kind];
    const struct {
        const char *name;
        bool has;
        float value;
    } fields[] = {{"momentum", kind->momentum, rule->momentum},   {"nesterov", kind->nesterov, rule->nesterov ? 1 : 0},
                  {"beta_1", kind->betas, rule->beta_1},          {"beta_2", kind->betas, rule->beta_2},
                  {"epsilon", kind->epsilon, rule->epsilon},      {"rho", kind->rho, rule->rho},
                  {"centered", kind->rho, rule->centered ? 1 : 0}};
    (void)fprintf(out, "%s(", kind->name);
    print_decimal(out, "learning_rate", rule->learning_rate);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].has) print_decimal(out, fields[i].name, fields[i].value);
    print_others(out, rule);
    (void)fprintf(out, ")");
}

ls_status ls_optimizer_describe(const ls_optimizer *rule, char **text) {
    ls_status status = LS_TEXT(out, print_rule(out, rule), "an optimizer's description", text);
    if (status) return status;
    char *first = strstr(*text, "(, ");
    memmove(first + 1, first + 3, strlen(first + 3) + 1);
    return LS_OK;
}

/* ---- the op ---- */

/* True if name contains one of the words, which are separated by commas. */
static bool is_listed(const char *words, const char *name) {
    char word[96];
    for (const char *at = words; at && *at; at += strcspn(at, ","), at += *at == ',') {
        int length = (int)strcspn(at, ",");
        (void)snprintf(word, sizeof(word), "%.*s", length, at);
        if (length && strstr(name, word)) return true;
    }
    return false;
}

bool ls_optimizer_decays(const ls_optimizer *rule, const struct ls_network_variable *variable) {
    return !is_listed(rule->exclude_from_weight_decay, variable->name);
}

/* Most rules are one loop over the whole blob. Norms and regularisers are per variable, so they need the borders. The
 * trainable variables come first in a network, and the loop ends at the first statistic. */
ls_status ls_optimizer_parts(const ls_optimizer *rule, const struct ls_network *network, struct ls_blob_part **parts,
                             size_t *count) {
    size_t variables = (size_t)ls_network_variable_count(network), made = 0;
    LS_NEW_ARRAY(struct ls_blob_part, list, variables, "an optimizer's list of variables");
    for (int v = 0; v < (int)variables; v++) {
        const struct ls_network_variable *variable = ls_network_variable(network, v);
        if (!variable->trained) break;
        list[made++] = (struct ls_blob_part){.offset = variable->offset,
                                             .count = variable->count,
                                             .decays = ls_optimizer_decays(rule, variable),
                                             .l1 = variable->l1,
                                             .l2 = variable->l2,
                                             .rate = variable->rate};
    }
    *parts = list;
    *count = made;
    return LS_OK;
}

ls_status ls_optimizer_build(struct ls_device *device, const struct ls_optimizer_step *step,
                             const struct ls_optimizer_blobs *blobs, struct ls_op *op) {
    int needed = ls_optimizer_moments(&step->rule);
    if (blobs->count > INT64_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "optimizer: %zu parameters are more than a tensor can hold", blobs->count);
    ls_shape shape = LS_SHAPE((int64_t)blobs->count);
    struct ls_op made = {.kind = ls_optimizer_op(&step->rule),
                         .step = step,
                         .variables = blobs->parts,
                         .variable_count = blobs->part_count};
    made.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){blobs->parameters, LS_FLOAT32, shape};
    made.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){blobs->gradients, LS_FLOAT32, shape};
    for (int i = 0; i < needed; i++)
        made.tensors[LS_ARG_MOMENT_1 + i] = (struct ls_tensor){blobs->moments[i], LS_FLOAT32, shape};
    ls_status status = device->ops->build(device, &made);
    if (!status) *op = made;
    return status;
}
