/* Optimizers: defaults, errors, descriptions, and 100 steps as TensorFlow recorded them. */
#include "golden/golden.h"
#include "harness.h"
#include "model/model_fixture.h"

static const struct {
    const char *name;
    ls_optimizer rule;
} recorded[] = {
    {"sgd", ls_sgd(0.01F)},
    {"momentum", ls_sgd(0.01F, .momentum = 0.9F)},
    {"nesterov", ls_sgd(0.01F, .momentum = 0.9F, .nesterov = true)},
    {"adam", ls_adam(0.001F)},
    {"adam_other", ls_adam(0.01F, .beta_1 = 0.8F, .beta_2 = 0.99F, .epsilon = 1e-4F)},
};

/* Relative to how far a parameter has gone as well as to where it is. */
static void check_step(const struct golden *golden, const char *name, const float *parameters, int64_t step) {
    const struct golden_tensor *initial = golden_find(golden, "initial"), *wanted = golden_find(golden, "%s", name);
    const float *row = wanted->values + (step - 1) * initial->count;
    for (int64_t i = 0; i < initial->count; i++) {
        double is = (double)parameters[i], must = (double)row[i];
        ck_assert_msg(fabs(is - must) <= 1e-5 * fmax(fabs(must), 0.01), "%s, step %lld, [%lld]: %.9g, must be %.9g",
                      name, (long long)step, (long long)i, is, must);
    }
}

TEST_EACH(a_hundred_steps_equal_tensorflow, COUNT_OF(recorded)) {
    struct golden *golden = golden_open("optimizers.txt");
    struct ls_device *device = open_cpu();
    const struct golden_tensor *initial = golden_find(golden, "initial"), *given = golden_find(golden, "gradients");
    int64_t count = initial->count, steps = given->shape.dims[0];
    float *parameters = new_floats(count), *gradients = new_floats(count);
    float *moments[2] = {new_floats(count), new_floats(count)};
    struct ls_optimizer_step step = {recorded[_i].rule, 0};
    struct ls_op op;
    assert_ok(ls_optimizer_resolve(&step.rule));
    const struct ls_optimizer_blobs blobs = {(size_t)count, parameters, gradients, {moments[0], moments[1]}, NULL, 0};
    assert_ok(ls_optimizer_build(device, &step, &blobs, &op));
    memcpy(parameters, initial->values, (size_t)count * sizeof(float));
    ck_assert_int_eq(steps, 100);
    for (step.iteration = 1; step.iteration <= steps; step.iteration++) {
        memcpy(gradients, given->values + (step.iteration - 1) * count, (size_t)count * sizeof(float));
        assert_ok(op.run(&op));
        check_step(golden, recorded[_i].name, parameters, step.iteration);
    }
    device->ops->discard(device, &op);
    float *held[] = {parameters, gradients, moments[0], moments[1]};
    for (size_t i = 0; i < COUNT_OF(held); i++) ls_free(held[i]);
    ls_device_close(device);
    golden_close(golden);
}

TEST(defaults_are_those_of_keras) {
    ls_optimizer rule = ls_adam(0.5F);
    assert_ok(ls_optimizer_resolve(&rule));
    ck_assert(rule.beta_1 == 0.9F && rule.beta_2 == 0.999F && rule.epsilon == 1e-7F);
    assert_ok(ls_optimizer_resolve(&rule)); /* again changes nothing */
    ck_assert(rule.beta_1 == 0.9F && rule.beta_2 == 0.999F && rule.epsilon == 1e-7F);
    ck_assert_int_eq(ls_optimizer_moments(&rule), 2);
    rule = (ls_optimizer)ls_sgd(0.5F);
    assert_ok(ls_optimizer_resolve(&rule));
    ck_assert_int_eq(ls_optimizer_moments(&rule), 0);
    rule.momentum = 0.1F;
    ck_assert_int_eq(ls_optimizer_moments(&rule), 1);
}

static const struct {
    ls_optimizer rule;
    const char *message;
} bad[] = {
    {{0}, "kind 0 is no ls_optimizer_kind"},
    {{.kind = (ls_optimizer_kind)7, .learning_rate = 1}, "kind 7"},
    {ls_sgd(0), "learning_rate 0 must be above 0"},
    {ls_sgd(-0.5F), "learning_rate -0.5"},
    {ls_sgd(NAN), "learning_rate nan"},
    {ls_adam(INFINITY), "learning_rate inf"},
    {ls_sgd(0.1F, .momentum = 1), "momentum 1 must be at least 0 and below 1"},
    {ls_sgd(0.1F, .momentum = NAN), "momentum nan"},
    {ls_sgd(0.1F, .beta_1 = 0.5F), "sgd has no beta_1; leave it 0, not 0.5"},
    {ls_sgd(0.1F, .beta_2 = 0.5F), "sgd has no beta_2"},
    {ls_sgd(0.1F, .epsilon = 0.5F), "sgd has no epsilon"},
    {ls_adam(0.1F, .momentum = 0.5F), "adam has no momentum"},
    {ls_adam(0.1F, .nesterov = true), "adam has no nesterov"},
    {ls_lamb(0.1F, .torch_epsilon = true), "lamb has no torch_epsilon"},
    {ls_adam(0.1F, .beta_1 = 1), "beta_1 1 must be at least 0 and below 1"},
    {ls_adam(0.1F, .beta_2 = -0.5F), "beta_2 -0.5"},
    {ls_adam(0.1F, .epsilon = -1), "epsilon -1"},
};

TEST_EACH(bad_rules_are_refused, COUNT_OF(bad)) {
    ls_optimizer rule = bad[_i].rule;
    assert_refused(ls_optimizer_resolve(&rule), bad[_i].message);
    ck_assert(rule.kind == bad[_i].rule.kind && rule.beta_1 == bad[_i].rule.beta_1);
}

static void check_description(ls_optimizer rule, const char *wanted) {
    char *text = NULL;
    assert_ok(ls_optimizer_resolve(&rule));
    assert_ok(ls_optimizer_describe(&rule, &text));
    ck_assert_str_eq(text, wanted);
    ls_free(text);
}

TEST(a_description_names_every_number) {
    check_description((ls_optimizer)ls_sgd(0.01F, .momentum = 0.9F, .nesterov = true),
                      "sgd(learning_rate=0.01, momentum=0.9, nesterov=1)");
    check_description((ls_optimizer)ls_sgd(nextafterf(0.01F, 1)), /* one bit makes another rule */
                      "sgd(learning_rate=0.010000001, momentum=0, nesterov=0)");
    check_description((ls_optimizer)ls_adam(0.001F),
                      "adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07)");
    check_description((ls_optimizer)ls_adamw(0.001F, .exclude_from_weight_decay = "bias", .clipnorm = 2),
                      "adamw(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0.004, "
                      "clipnorm=2, excluded=bias)");
    check_description((ls_optimizer)ls_rmsprop(0.5F, .gradient_accumulation_steps = 3),
                      "rmsprop(learning_rate=0.5, momentum=0, epsilon=1e-07, rho=0.9, centered=0, "
                      "gradient_accumulation_steps=3)");
    check_description((ls_optimizer)ls_lamb(0.5F, .schedule = {LS_PIECEWISE_CONSTANT_DECAY, .boundaries = {3, 7},
                                                               .values = {0.25F, 0.125F}, .warmup_steps = 2}),
                      "lamb(learning_rate=0.5, beta_1=0.9, beta_2=0.999, epsilon=1e-07, "
                      "schedule=piecewise_constant_decay(decay_steps=0, decay_rate=0, staircase=0, alpha=0, "
                      "0.25 after 3, 0.125 after 7, warmup_steps=2, warmup_from=0))");
}

TEST(missing_moments_are_named) {
    struct ls_device *device = open_cpu();
    struct ls_optimizer_step step = {ls_adam(0.1F), 1};
    struct ls_op op;
    float numbers[4] = {0};
    const struct ls_blob_part outside = {.offset = 2, .count = 3};
    struct ls_optimizer_blobs blobs = {4, numbers, numbers, {numbers}, NULL, 0};
    assert_ok(ls_optimizer_resolve(&step.rule));
    assert_refused(ls_optimizer_build(device, &step, &blobs, &op), "moment 2 is missing");
    blobs.count = 0;
    assert_refused(ls_optimizer_build(device, &step, &blobs, &op), "at least one element");
    blobs.count = 4, blobs.parameters = NULL;
    assert_refused(ls_optimizer_build(device, &step, &blobs, &op), "parameters is missing");
    blobs.parameters = numbers, blobs.parts = &outside, blobs.part_count = 1;
    assert_refused(ls_optimizer_build(device, &step, &blobs, &op), "part 0 is not in the parameters");
    ls_device_close(device);
}

TESTS("optimizer", .seconds = 60)
