/* Optimizers with all that may be asked of them, and schedules, as Keras computes them: over two variables, since some
 * rules look at each. */
#include "golden/golden.h"
#include "harness.h"
#include "model/model_fixture.h"
#include "model/optimizer.h"

#define BLOB 32 /* kernel (3, 4) at 0, bias (5) at 16 */
static const struct ls_blob_part parts[] = {{.offset = 0, .count = 12, .decays = true},
                                            {.offset = 16, .count = 5, .decays = true}};
static const struct ls_blob_part kernel_decays[] = {{.offset = 0, .count = 12, .decays = true},
                                                    {.offset = 16, .count = 5}};
static const char *const variables[] = {"kernel", "bias"};

static const struct {
    const char *name;
    ls_optimizer rule;
    const struct ls_blob_part *parts;
} rules[] = {
    {"adamw", ls_adamw(0.01F, .weight_decay = 0.1F), parts},
    {"adamw_excluded", ls_adamw(0.01F, .weight_decay = 0.1F), kernel_decays},
    {"rmsprop", ls_rmsprop(0.01F), parts},
    {"rmsprop_momentum", ls_rmsprop(0.01F, .rho = 0.8F, .momentum = 0.5F, .epsilon = 1e-4F), parts},
    {"rmsprop_centered", ls_rmsprop(0.01F, .centered = true, .epsilon = 1e-3F), parts},
    {"rmsprop_both", ls_rmsprop(0.01F, .momentum = 0.9F, .centered = true, .epsilon = 1e-3F), parts},
    {"lamb", ls_lamb(0.01F), parts},
    {"lamb_decay", ls_lamb(0.01F, .weight_decay = 0.05F), parts},
    {"sgd_decay", ls_sgd(0.05F, .momentum = 0.9F, .weight_decay = 0.1F), parts},
    {"clipvalue", ls_sgd(0.05F, .clipvalue = 0.3F), parts},
    {"clipnorm", ls_adam(0.01F, .clipnorm = 0.5F), parts},
    {"global_clipnorm", ls_sgd(0.05F, .momentum = 0.9F, .global_clipnorm = 0.7F), parts},
    {"accumulated", ls_adam(0.01F, .gradient_accumulation_steps = 4, .global_clipnorm = 0.7F), parts},
    {"exponential", ls_sgd(0.1F, .schedule = {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 10, .decay_rate = 0.5F}),
     parts},
    {"cosine_warm",
     ls_adam(0.01F, .schedule = {.kind = LS_COSINE_DECAY, .decay_steps = 14, .alpha = 0.1F, .warmup_steps = 8}), parts},
};

struct trained {
    struct ls_device *device;
    struct golden *golden;
    float *parameters, *gradients, *gathered, *moments[LS_MAX_MOMENTS];
    float scale;
    struct ls_optimizer_step step;
    struct ls_op update, merge;
};

static void read_variables(const struct golden *golden, const char *what, int64_t row, float *blob) {
    for (int v = 0; v < 2; v++) {
        const struct golden_tensor *recorded = golden_find(golden, "%s/%s", what, variables[v]);
        memcpy(blob + parts[v].offset, recorded->values + row * (int64_t)parts[v].count,
               parts[v].count * sizeof(float));
    }
}

static struct ls_tensor blob_tensor(float *blob) {
    return (struct ls_tensor){blob, LS_FLOAT32, LS_SHAPE(BLOB), 0};
}

static void open_trained(int rule, struct trained *t) {
    *t = (struct trained){.device = open_cpu(), .golden = golden_open("rules.txt"), .step = {.rule = rules[rule].rule}};
    float **blobs[] = {&t->parameters, &t->gradients, &t->gathered, &t->moments[0], &t->moments[1], &t->moments[2]};
    for (size_t i = 0; i < COUNT_OF(blobs); i++) *blobs[i] = new_floats(BLOB);
    assert_ok(ls_optimizer_resolve(&t->step.rule));
    t->scale = 1 / (float)t->step.rule.gradient_accumulation_steps;
    struct ls_optimizer_blobs blob = {BLOB, t->parameters, t->gradients, {NULL}, rules[rule].parts, 2};
    for (int i = 0; i < ls_optimizer_moments(&t->step.rule); i++) blob.moments[i] = t->moments[i];
    assert_ok(ls_optimizer_build(t->device, &t->step, &blob, &t->update));
    t->merge = (struct ls_op){.kind = LS_OP_MERGE, .alpha = 1, .scale = &t->scale};
    t->merge.tensors[LS_ARG_X] = blob_tensor(t->gathered);
    t->merge.tensors[LS_ARG_Y] = blob_tensor(t->gradients);
    assert_ok(t->device->ops->build(t->device, &t->merge));
    read_variables(t->golden, "initial", 0, t->parameters);
}

static void close_trained(struct trained *t) {
    float *blobs[] = {t->parameters, t->gradients, t->gathered, t->moments[0], t->moments[1], t->moments[2]};
    t->device->ops->discard(t->device, &t->update);
    t->device->ops->discard(t->device, &t->merge);
    for (size_t i = 0; i < COUNT_OF(blobs); i++) ls_free(blobs[i]);
    ls_device_close(t->device);
    golden_close(t->golden);
}

/* A batch's gradients; updates where they complete a step. */
static void train(struct trained *t, int64_t batch, float rate) {
    int64_t steps = t->step.rule.gradient_accumulation_steps;
    read_variables(t->golden, "gradients", batch, t->gradients);
    if ((batch + 1) % steps) {
        for (int i = 0; i < BLOB; i++) t->gathered[i] += t->gradients[i];
        return;
    }
    if (steps > 1) assert_ok(t->merge.run(&t->merge));
    memset(t->gathered, 0, BLOB * sizeof(float));
    t->step.rule.learning_rate = ls_rate_schedule_rate(&t->step.rule.schedule, rate, t->step.iteration++);
    assert_ok(t->update.run(&t->update));
}

TEST_EACH(every_rule_equals_keras, COUNT_OF(rules)) {
    struct trained t;
    open_trained(_i, &t);
    int64_t batches = golden_find(t.golden, "gradients/bias")->shape.dims[0];
    for (int64_t batch = 0; batch < batches; batch++) {
        train(&t, batch, rules[_i].rule.learning_rate);
        for (int v = 0; v < 2; v++) {
            const struct golden_tensor *rows = golden_find(t.golden, "%s/%s", rules[_i].name, variables[v]);
            assert_near(rules[_i].name, t.parameters + parts[v].offset, rows->values + batch * (int64_t)parts[v].count,
                        (int64_t)parts[v].count, 2e-6);
        }
    }
    for (int i = 0; i < BLOB; i++) ck_assert((i >= 12 && i < 16) || i >= 21 ? t.parameters[i] == 0 : 1);
    close_trained(&t);
}

/* The velocity of torch.optim.SGD has no learning rate inside: w -= rate v, v = momentum v + g. With the correction
 * both are the same for rates that change; without it they are not. */
TEST(corrected_momentum_is_that_of_gradients_alone) {
    const float rates[] = {0.01F, 0.02F, 0.03F, 0.03F, 0.2F, 0.001F, 0.1F};
    double away = 0;
    for (int corrected = 0; corrected < 2; corrected++) {
        struct trained t;
        double w[BLOB], v[BLOB] = {0};
        open_trained(8, &t);
        t.step.rule.weight_decay = 0;
        for (int i = 0; i < BLOB; i++) w[i] = (double)t.parameters[i];
        for (size_t k = 0; k < COUNT_OF(rates); k++) {
            read_variables(t.golden, "gradients", (int64_t)k, t.gradients);
            for (int i = 0; i < BLOB; i++) {
                v[i] = 0.9 * v[i] + (double)t.gradients[i];
                w[i] -= (double)rates[k] * v[i];
            }
            t.step.last_rate = corrected ? t.step.rule.learning_rate * (k > 0) : 0;
            t.step.rule.learning_rate = rates[k];
            t.step.iteration++;
            assert_ok(t.update.run(&t.update));
            for (int i = 0; i < BLOB; i++) away = fmax(away, fabs(w[i] - (double)t.parameters[i]));
            if (corrected) ck_assert_double_le(away, 1e-6);
        }
        if (!corrected) ck_assert_double_ge(away, 1e-2);
        away = 0;
        close_trained(&t);
    }
}

/* ---- norms and regularisers ---- */

/* Nothing to clip changes no bit; a norm that is not finite is not hidden. */
TEST(clipping_nothing_changes_no_bit) {
    const ls_optimizer wide[] = {ls_sgd(0.1F, .clipvalue = 1e6F), ls_sgd(0.1F, .global_clipnorm = 1e6F)};
    struct trained plain, clipped;
    for (size_t i = 0; i < COUNT_OF(wide); i++) {
        open_trained(0, &plain), open_trained(0, &clipped);
        plain.step.rule = (ls_optimizer)ls_sgd(0.1F), clipped.step.rule = wide[i];
        struct trained *both[] = {&plain, &clipped};
        for (int k = 0; k < 2; k++) {
            const struct ls_optimizer_blobs blobs = {BLOB, both[k]->parameters, both[k]->gradients, {NULL}, parts, 2};
            read_variables(plain.golden, "gradients", 0, both[k]->gradients);
            both[k]->device->ops->discard(both[k]->device, &both[k]->update);
            assert_ok(ls_optimizer_build(both[k]->device, &both[k]->step, &blobs, &both[k]->update));
            assert_ok(both[k]->update.run(&both[k]->update));
        }
        assert_near("wide", clipped.parameters, plain.parameters, BLOB, 1e-7);
        clipped.gradients[3] = INFINITY;
        clipped.step.rule.global_clipnorm = 1, clipped.step.rule.clipvalue = 0;
        assert_ok(clipped.update.run(&clipped.update));
        ck_assert(isnan(clipped.parameters[3]) && isnan(clipped.parameters[16]));
        close_trained(&plain), close_trained(&clipped);
    }
}

/* The penalty's slope, by differences, is what the update takes. */
TEST(the_penalty_and_its_slope_agree) {
    const struct ls_blob_part given[] = {{.offset = 0, .count = 12, .l1 = 0.03F, .l2 = 0.02F},
                                         {.offset = 16, .count = 5}};
    struct ls_optimizer_step step = {ls_sgd(1), 1};
    struct ls_device *device = open_cpu();
    float parameters[BLOB] = {0}, gradients[BLOB] = {0}, before[BLOB], after[BLOB];
    double value = 0;
    struct ls_op update, penalty = {.kind = LS_OP_PENALTY, .value = &value, .variables = given, .variable_count = 2};
    const struct ls_optimizer_blobs blobs = {BLOB, parameters, gradients, {NULL}, given, 2};
    for (int i = 0; i < 21; i++)
        parameters[i] = i == 4 || (i > 11 && i < 16) ? 0 : (float)ls_random_normal(1, 2, (uint64_t)i);
    penalty.tensors[LS_ARG_PARAMETERS] = blob_tensor(parameters);
    assert_ok(ls_optimizer_build(device, &step, &blobs, &update));
    assert_ok(device->ops->build(device, &penalty));
    memcpy(before, parameters, sizeof(before));
    assert_ok(update.run(&update));
    memcpy(after, parameters, sizeof(after));
    for (int i = 0; i < BLOB; i++) {
        memcpy(parameters, before, sizeof(before));
        parameters[i] = before[i] + 1e-3F;
        assert_ok(penalty.run(&penalty));
        double high = value;
        parameters[i] = before[i] - 1e-3F;
        assert_ok(penalty.run(&penalty));
        ck_assert_double_le(fabs((high - value) / 2e-3 - (double)(before[i] - after[i])), 1e-4);
    }
    ck_assert(after[0] != before[0] && after[4] == 0 && after[16] == before[16]);
    penalty.value = NULL;
    assert_refused(device->ops->build(device, &penalty), "penalty: value is missing");
    device->ops->discard(device, &update);
    ls_device_close(device);
}

/* ---- schedules ---- */

static const struct {
    const char *name;
    float rate;
    ls_rate_schedule schedule;
} schedules[] = {
    {"exponential", 0.1F, {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 10, .decay_rate = 0.5F}},
    {"staircase", 0.1F, {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 7, .decay_rate = 0.9F, .staircase = true}},
    {"cosine", 0.1F, {.kind = LS_COSINE_DECAY, .decay_steps = 20}},
    {"cosine_alpha", 0.2F, {.kind = LS_COSINE_DECAY, .decay_steps = 20, .alpha = 0.1F}},
    {"cosine_warm",
     0.1F,
     {.kind = LS_COSINE_DECAY, .decay_steps = 14, .alpha = 0.1F, .warmup_steps = 8, .warmup_from = 0.01F}},
    {"piecewise",
     0.1F,
     {.kind = LS_PIECEWISE_CONSTANT_DECAY, .boundaries = {5, 12, 20}, .values = {0.05F, 0.01F, 0.001F}}},
};

TEST_EACH(every_schedule_equals_keras, COUNT_OF(schedules)) {
    struct golden *golden = golden_open("rules.txt");
    const struct golden_tensor *recorded = golden_find(golden, "schedule/%s", schedules[_i].name);
    assert_ok(ls_rate_schedule_check(&schedules[_i].schedule));
    for (int64_t step = 0; step < recorded->count; step++) {
        float rate = ls_rate_schedule_rate(&schedules[_i].schedule, schedules[_i].rate, step);
        ck_assert_msg(fabsf(rate - recorded->values[step]) <= 1e-6F * schedules[_i].rate, "step %lld: %g",
                      (long long)step, (double)rate);
    }
    golden_close(golden);
}

static const struct {
    ls_optimizer rule;
    const char *message;
} bad[] = {
    {ls_sgd(1, .schedule = {.kind = (ls_rate_schedule_kind)7}), "schedule: kind 7"},
    {ls_sgd(1, .schedule = {.kind = LS_COSINE_DECAY}), "decay_steps 0 must be 1 or more"},
    {ls_sgd(1, .schedule = {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 2}), "decay_rate 0 must be above 0"},
    {ls_sgd(1, .schedule = {.kind = LS_COSINE_DECAY, .decay_steps = 2, .alpha = 2}), "alpha 2 must be from 0 to 1"},
    {ls_sgd(1, .schedule = {.kind = LS_PIECEWISE_CONSTANT_DECAY}), "boundaries 0"},
    {ls_sgd(1, .schedule = {.kind = LS_PIECEWISE_CONSTANT_DECAY, .boundaries = {3, 2}, .values = {1, 1}}),
     "boundaries 2 must be above the one before"},
    {ls_sgd(1, .schedule = {.kind = LS_PIECEWISE_CONSTANT_DECAY, .boundaries = {3}}), "values 0 must be above 0"},
    {ls_sgd(1, .schedule = {.warmup_steps = -1}), "warmup_steps -1"},
    {ls_sgd(1, .momentum_correction = true), "momentum_correction without momentum"},
    {ls_adam(1, .momentum_correction = true), "adam has no momentum_correction"},
    {ls_sgd(1, .schedule = {.warmup_from = NAN}), "warmup_from nan"},
    {ls_sgd(1, .clipnorm = 1, .clipvalue = 1), "only one of"},
    {ls_sgd(1, .clipnorm = -1), "clipnorm -1"},
    {ls_sgd(1, .weight_decay = -1), "weight_decay -1"},
    {ls_sgd(1, .exclude_from_weight_decay = "bias"), "exclude_from_weight_decay 'bias' without weight_decay"},
    {ls_sgd(1, .gradient_accumulation_steps = -2), "gradient_accumulation_steps -2"},
    {ls_sgd(1, .rho = 0.5F), "sgd has no rho"},
    {ls_lamb(1, .centered = true), "lamb has no centered"},
    {ls_rmsprop(1, .rho = 1), "rho 1 must be at least 0 and below 1"},
};

TEST_EACH(bad_rules_are_refused, COUNT_OF(bad)) {
    ls_optimizer rule = bad[_i].rule;
    assert_refused(ls_optimizer_resolve(&rule), bad[_i].message);
}

TESTS("rules")
