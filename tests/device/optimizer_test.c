/* The optimizer loops against the oracle over many steps and odd counts; equal bits wherever the memory lies. */
#include "device/op_fixture.h"
#include "device/reference.h"
#include "harness.h"

static const struct rule {
    ls_optimizer rule;
    struct reference_rule oracle;
} rules[] = {
    {{LS_OPTIMIZER_SGD, .learning_rate = 0.1F}, {.rate = 0.1}},
    {{LS_OPTIMIZER_SGD, .learning_rate = 0.1F, .momentum = 0.9F}, {.rate = 0.1, .momentum = 0.9}},
    {{LS_OPTIMIZER_SGD, .learning_rate = 0.05F, .momentum = 0.5F, .nesterov = true},
     {.rate = 0.05, .momentum = 0.5, .nesterov = true}},
    {{LS_OPTIMIZER_ADAM, .learning_rate = 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F},
     {.adam = true, .rate = 0.01, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7}},
};
#define RULE_COUNT ((int)(sizeof(rules) / sizeof(rules[0])))
static const int64_t counts[] = {1, 15, 16, 17, 1003};

struct state {
    struct pair parameters, gradients, moments[2];
};

static struct state make_state(int64_t count) {
    return (struct state){make_random(1, count), make_random(2, count), {make_zeros(count), make_zeros(count)}};
}

static void free_state(struct state *state) {
    free_pair(&state->parameters);
    free_pair(&state->gradients);
    for (int i = 0; i < 2; i++) free_pair(&state->moments[i]);
}

static struct ls_op state_op(const struct state *state, const struct ls_optimizer_step *step) {
    ls_shape shape = LS_SHAPE(state->parameters.count);
    struct ls_op op = {.kind = step->rule.kind == LS_OPTIMIZER_ADAM ? LS_OP_ADAM : LS_OP_SGD, .step = step};
    op.tensors[LS_ARG_PARAMETERS] = tensor(&state->parameters, shape);
    op.tensors[LS_ARG_GRADIENTS] = tensor(&state->gradients, shape);
    if (op.kind == LS_OP_ADAM || step->rule.momentum > 0)
        op.tensors[LS_ARG_MOMENT_1] = tensor(&state->moments[0], shape);
    if (op.kind == LS_OP_ADAM) op.tensors[LS_ARG_MOMENT_2] = tensor(&state->moments[1], shape);
    return op;
}

static void new_gradients(struct state *state, int iteration) {
    for (int64_t i = 0; i < state->gradients.count; i++) {
        state->gradients.device[i] = (float)ls_random_normal(9, (uint64_t)iteration, (uint64_t)i);
        state->gradients.oracle[i] = (double)state->gradients.device[i];
    }
}

static void run_steps(struct ls_device *device, struct state *state, const struct rule *rule, int steps) {
    struct ls_optimizer_step step = {rule->rule, 0};
    struct ls_op op = state_op(state, &step);
    struct mirror mirror;
    ck_assert_msg(mirror_build(&mirror, device, &op) == LS_OK, "%s", ls_error());
    for (int i = 1; i <= steps; i++) {
        struct reference_update update = {state->parameters.count,  i,
                                          state->parameters.oracle, state->gradients.oracle,
                                          state->moments[0].oracle, state->moments[1].oracle};
        new_gradients(state, i);
        step.iteration = i;
        ck_assert_int_eq(mirror_run(&mirror), LS_OK);
        reference_optimize(&rule->oracle, &update);
    }
    mirror_discard(&mirror);
}

START_TEST(test_oracle) {
    struct ls_device *device = open_device();
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct state state = make_state(counts[c]);
        run_steps(device, &state, &rules[_i], 25);
        assert_pair("parameters", &state.parameters);
        if (state_op(&state, &(struct ls_optimizer_step){rules[_i].rule, 1}).tensors[LS_ARG_MOMENT_1].data)
            assert_pair("moment 1", &state.moments[0]);
        if (rules[_i].oracle.adam) assert_pair("moment 2", &state.moments[1]);
        free_state(&state);
    }
    ls_device_close(device);
}
END_TEST

/* An element's bits do not depend on its place: the vector loop and its tail agree. */
START_TEST(test_place) {
    struct ls_device *device = open_device();
    struct state whole = make_state(67), tail = make_state(67), view;
    struct ls_optimizer_step step = {rules[_i].rule, 3};
    view = tail;
    struct pair *pairs[] = {&view.parameters, &view.gradients, &view.moments[0], &view.moments[1]};
    for (int i = 0; i < 4; i++) pairs[i]->device += 5, pairs[i]->count -= 5;
    struct ls_op first = state_op(&whole, &step), second = state_op(&view, &step);
    ck_assert_int_eq(run_op(device, &first), LS_OK);
    ck_assert_int_eq(run_op(device, &second), LS_OK);
    ck_assert_int_eq(memcmp(whole.parameters.device + 5, view.parameters.device, 62 * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(whole.moments[0].device + 5, view.moments[0].device, 62 * sizeof(float)), 0);
    free_state(&whole);
    free_state(&tail);
    ls_device_close(device);
}
END_TEST

/* Gradients of a scaled loss, with its inverse, are as good as those of the loss itself, to the bit; and steps that
 * were not applied do not count in bias corrections. */
START_TEST(test_scaled_loss) {
    struct ls_device *device = open_cpu();
    struct state plain = make_state(33), scaled = make_state(33);
    struct ls_optimizer_step step = {rules[_i].rule, 3}, later = {rules[_i].rule, 8, .skipped = 5, .unscale = 0x1p-15F};
    struct ls_blob_part part = {.count = 33, .l1 = 0.01F, .l2 = 0.02F};
    step.rule.global_clipnorm = later.rule.global_clipnorm = 0.5F;
    struct ls_op first = state_op(&plain, &step), second = state_op(&scaled, &later);
    first.variables = second.variables = &part;
    first.variable_count = second.variable_count = 1;
    for (int64_t i = 0; i < 33; i++) scaled.gradients.device[i] *= 0x1p15F;
    ck_assert_int_eq(run_op(device, &first), LS_OK);
    ck_assert_int_eq(run_op(device, &second), LS_OK);
    ck_assert_mem_eq(plain.parameters.device, scaled.parameters.device, 33 * sizeof(float));
    ck_assert_mem_eq(plain.moments[1].device, scaled.moments[1].device, 33 * sizeof(float));
    free_state(&plain);
    free_state(&scaled);
    ls_device_close(device);
}
END_TEST

/* Gaps in a blob: no gradient, no moment, no change. */
START_TEST(test_gaps_stay_zero) {
    struct ls_device *device = open_device();
    struct ls_optimizer_step step = {rules[_i].rule, 1};
    struct state state = {make_zeros(32), make_zeros(32), {make_zeros(32), make_zeros(32)}};
    struct ls_op op = state_op(&state, &step);
    struct mirror mirror;
    ck_assert_int_eq(mirror_build(&mirror, device, &op), LS_OK);
    for (int i = 0; i < 3; i++, step.iteration++) ck_assert_int_eq(mirror_run(&mirror), LS_OK);
    for (int i = 0; i < 32; i++) ck_assert(state.parameters.device[i] == 0 && state.moments[0].device[i] == 0);
    mirror_discard(&mirror);
    free_state(&state);
    ls_device_close(device);
}
END_TEST

START_TEST(test_misuse) {
    struct ls_device *device = open_device();
    struct state state = make_state(8);
    struct ls_optimizer_step adam = {rules[3].rule, 1}, momentum = {rules[1].rule, 1};
    struct ls_op op = state_op(&state, &adam);
    op.tensors[LS_ARG_MOMENT_2].data = NULL;
    assert_fails(device->ops->build(device, &op), "adam: argument moment 2 is missing");
    op = state_op(&state, &momentum);
    op.tensors[LS_ARG_MOMENT_1].data = NULL;
    assert_fails(device->ops->build(device, &op), "sgd: argument moment 1 is missing");
    op = state_op(&state, &momentum);
    op.tensors[LS_ARG_GRADIENTS].shape = LS_SHAPE(7);
    assert_fails(device->ops->build(device, &op), "argument gradients has shape (7), but must have (8)");
    op.step = NULL;
    assert_fails(device->ops->build(device, &op), "step is missing");
    free_state(&state);
    ls_device_close(device);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("optimizer");
    TCase *tests = tcase_create("optimizer");
    tcase_add_loop_test(tests, test_oracle, 0, RULE_COUNT);
    tcase_add_loop_test(tests, test_place, 0, RULE_COUNT);
    tcase_add_loop_test(tests, test_scaled_loss, 0, RULE_COUNT);
    tcase_add_loop_test(tests, test_gaps_stay_zero, 0, RULE_COUNT);
    tcase_add_test(tests, test_misuse);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
