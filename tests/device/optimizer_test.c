/* The optimizer loops against the oracle over many steps and odd counts; equal bits wherever the memory lies. */
#include "base/status.h"
#include "device/norm.h"
#include "device/op_fixture.h"
#include "device/reference.h"
#include "harness.h"

static const struct rule {
    ls_optimizer rule;
    struct reference_rule oracle;
    float unscale; /* a power of two, or 0 for none */
} rules[] = {
    {{LS_OPTIMIZER_SGD, .learning_rate = 0.1F}, {.rate = 0.1}},
    {{LS_OPTIMIZER_SGD, .learning_rate = 0.1F, .momentum = 0.9F}, {.rate = 0.1, .momentum = 0.9}},
    {{LS_OPTIMIZER_SGD, .learning_rate = 0.05F, .momentum = 0.5F, .nesterov = true},
     {.rate = 0.05, .momentum = 0.5, .nesterov = true}},
    {{LS_OPTIMIZER_ADAM, .learning_rate = 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F},
     {REFERENCE_ADAM, .rate = 0.01, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7}},
    {{LS_OPTIMIZER_ADAM, .learning_rate = 0.01F, .beta_1 = 0.9F, .beta_2 = 0.99F, .epsilon = 1e-2F,
      .torch_epsilon = true},
     {REFERENCE_ADAM, .rate = 0.01, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-2, .torch_epsilon = true}},
    {{LS_OPTIMIZER_RMSPROP, .learning_rate = 0.01F, .rho = 0.9F, .epsilon = 1e-7F},
     {REFERENCE_RMSPROP, .rate = 0.01, .rho = 0.9, .epsilon = 1e-7}},
    {{LS_OPTIMIZER_RMSPROP, .learning_rate = 0.01F, .rho = 0.75F, .epsilon = 1e-3F, .momentum = 0.5F},
     {REFERENCE_RMSPROP, .rate = 0.01, .rho = 0.75, .epsilon = 1e-3, .momentum = 0.5}},
    {{LS_OPTIMIZER_RMSPROP, .learning_rate = 0.01F, .rho = 0.75F, .epsilon = 1e-3F, .centered = true},
     {REFERENCE_RMSPROP, .rate = 0.01, .rho = 0.75, .epsilon = 1e-3, .centered = true}},
    {{LS_OPTIMIZER_RMSPROP, .learning_rate = 0.01F, .rho = 0.75F, .epsilon = 1e-3F, .centered = true, .momentum = 0.5F},
     {REFERENCE_RMSPROP, .rate = 0.01, .rho = 0.75, .epsilon = 1e-3, .centered = true, .momentum = 0.5}},
    {{LS_OPTIMIZER_LAMB, .learning_rate = 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F},
     {REFERENCE_LAMB, .rate = 0.01, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7}},
};
#define RULE_COUNT ((int)(sizeof(rules) / sizeof(rules[0])))
/* Steps that come before a rule. The first entry has none. */
static const struct before {
    ls_optimizer rule;
    struct reference_rule oracle;
    bool penalties;
    float unscale;
} befores[] = {
    {{0}, {0}, false},
    {{0}, {0}, true, 0.5F},
    {{.weight_decay = 0.1F}, {.weight_decay = 0.1}, false},
    {{.clipvalue = 0.5F}, {.clipvalue = 0.5}, true},
    {{.clipnorm = 2}, {.clipnorm = 2}, true, 0.125F},
    {{.global_clipnorm = 3}, {.global_clipnorm = 3}, false},
    {{.global_clipnorm = 1e6F, .weight_decay = 0.01F}, {.global_clipnorm = 1e6, .weight_decay = 0.01}, true},
};
#define BEFORE_COUNT ((int)(sizeof(befores) / sizeof(befores[0])))
static const int64_t counts[] = {1, 15, 16, 17, 1003};

static struct rule join(int rule, int before) {
    struct rule made = rules[rule];
    const struct before *more = &befores[before];
    made.rule.weight_decay = more->rule.weight_decay, made.oracle.weight_decay = more->oracle.weight_decay;
    made.rule.clipvalue = more->rule.clipvalue, made.oracle.clipvalue = more->oracle.clipvalue;
    made.rule.clipnorm = more->rule.clipnorm, made.oracle.clipnorm = more->oracle.clipnorm;
    made.rule.global_clipnorm = more->rule.global_clipnorm;
    made.oracle.global_clipnorm = more->oracle.global_clipnorm;
    made.unscale = more->unscale;
    return made;
}

#define PARTS 3
struct state {
    struct pair parameters, gradients, moments[LS_MAX_MOMENTS];
    struct ls_blob_part parts[PARTS];
    struct reference_part oracles[PARTS];
    int part_count; /* 0: the rule is told of no variables */
};

static struct state make_state(int64_t count) {
    return (struct state){.parameters = make_random(1, count),
                          .gradients = make_random(2, count),
                          .moments = {make_zeros(count), make_zeros(count), make_zeros(count)}};
}

static void free_state(struct state *state) {
    free_pair(&state->parameters);
    free_pair(&state->gradients);
    for (int i = 0; i < LS_MAX_MOMENTS; i++) free_pair(&state->moments[i]);
}

/* Three variables, of which the middle one has a gap before it and after it and the last one is the largest. */
static void add_parts(struct state *state, bool penalties) {
    int64_t count = state->parameters.count, at[PARTS][2] = {{0, 16}, {32, 5}, {48, count - 48}};
    state->part_count = PARTS;
    for (int i = 0; i < PARTS; i++) {
        float l1 = penalties ? 0.01F * (float)i : 0, l2 = penalties ? 0.02F * (float)(2 - i) : 0;
        state->parts[i] = (struct ls_blob_part){(size_t)at[i][0], (size_t)at[i][1], i != 1, l1, l2};
        state->oracles[i] = (struct reference_part){at[i][0], at[i][1], i != 1, (double)l1, (double)l2};
    }
    for (int64_t i = 16; i < 48; i++)
        if (i < 32 || i >= 37) state->parameters.device[i] = 0, state->parameters.oracle[i] = 0;
}

static const enum ls_op_kind kinds[] = {[LS_OPTIMIZER_SGD] = LS_OP_SGD,
                                        [LS_OPTIMIZER_ADAM] = LS_OP_ADAM,
                                        [LS_OPTIMIZER_RMSPROP] = LS_OP_RMSPROP,
                                        [LS_OPTIMIZER_LAMB] = LS_OP_LAMB};

static int moments_of(const ls_optimizer *rule) {
    if (rule->kind == LS_OPTIMIZER_RMSPROP) return 1 + rule->centered + (rule->momentum > 0);
    return rule->kind == LS_OPTIMIZER_SGD ? rule->momentum > 0 : 2;
}

static struct ls_op state_op(const struct state *state, const struct ls_optimizer_step *step) {
    ls_shape shape = LS_SHAPE(state->parameters.count);
    struct ls_op op = {.kind = kinds[step->rule.kind],
                       .step = step,
                       .variables = state->parts,
                       .variable_count = (size_t)state->part_count};
    op.tensors[LS_ARG_PARAMETERS] = tensor(&state->parameters, shape);
    op.tensors[LS_ARG_GRADIENTS] = tensor(&state->gradients, shape);
    for (int i = 0; i < moments_of(&step->rule); i++)
        op.tensors[LS_ARG_MOMENT_1 + i] = tensor(&state->moments[i], shape);
    return op;
}

static struct reference_update state_update(const struct state *state, int iteration) {
    return (struct reference_update){
        .count = state->parameters.count,
        .iteration = iteration,
        .parameters = state->parameters.oracle,
        .gradients = state->gradients.oracle,
        .moments = {state->moments[0].oracle, state->moments[1].oracle, state->moments[2].oracle},
        .parts = state->oracles,
        .part_count = state->part_count};
}

/* Gaps have none. The oracle's are not scaled. */
static void new_gradients(struct state *state, int iteration, float unscale) {
    for (int64_t i = 0; i < state->gradients.count; i++) {
        bool gap = state->part_count && i >= 16 && i < 48 && (i < 32 || i >= 37);
        state->gradients.device[i] = gap ? 0 : (float)ls_random_normal(9, (uint64_t)iteration, (uint64_t)i);
        state->gradients.oracle[i] = (double)state->gradients.device[i];
        if (unscale != 0) state->gradients.device[i] /= unscale;
    }
}

/* The first of the step's iterations is not the rule's first one. */
#define SKIPPED 3
static void run_steps(struct ls_device *device, struct state *state, const struct rule *rule, int steps) {
    struct ls_optimizer_step step = {.rule = rule->rule, .skipped = SKIPPED, .unscale = rule->unscale};
    struct ls_op op = state_op(state, &step);
    struct mirror mirror;
    assert_ok(mirror_build(&mirror, device, &op));
    for (int i = 1; i <= steps; i++) {
        const struct reference_update update = state_update(state, i);
        new_gradients(state, i, rule->unscale);
        step.iteration = SKIPPED + i;
        assert_ok(mirror_run(&mirror));
        reference_optimize(&rule->oracle, &update);
    }
    mirror_discard(&mirror);
}

static void check_state(const struct state *state, const ls_optimizer *rule) {
    static const char *const names[] = {"moment 1", "moment 2", "moment 3"};
    assert_pair("parameters", &state->parameters);
    for (int i = 0; i < moments_of(rule); i++) assert_pair(names[i], &state->moments[i]);
}

TEST_EACH(every_rule_equals_the_oracle, RULE_COUNT) {
    struct ls_device *device = open_device();
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct state state = make_state(counts[c]);
        run_steps(device, &state, &rules[_i], 25);
        check_state(&state, &rules[_i].rule);
        free_state(&state);
    }
    ls_device_close(device);
}

/* Every rule with all that may come before it, over variables of several chunks. */
TEST_EACH(clipping_and_penalties_equal_the_oracle, RULE_COUNT) {
    struct ls_device *device = open_device();
    for (int before = 0; before < BEFORE_COUNT; before++) {
        const struct rule rule = join(_i, before);
        struct state state = make_state(9001);
        add_parts(&state, befores[before].penalties);
        run_steps(device, &state, &rule, 5);
        check_state(&state, &rule.rule);
        for (int i = 16; i < 48; i++) ck_assert((i >= 32 && i < 37) || state.parameters.device[i] == 0);
        free_state(&state);
    }
    ls_device_close(device);
}

/* The state's parameters and moments, one behind the other. */
static void copy_state(const struct state *state, int moments, float *copy) {
    size_t count = (size_t)state->parameters.count;
    memcpy(copy, state->parameters.device, count * sizeof(*copy));
    for (int m = 0; m < moments; m++)
        memcpy(copy + (1 + (size_t)m) * count, state->moments[m].device, count * sizeof(*copy));
}

/* Fails at the join of so many sums a chunk. */
static ls_status refuse_width(void *context, const double *chunks, size_t count, int width, double *squares,
                              double *total) {
    (void)chunks, (void)count;
    if (width == *(const int *)context) return ls_fail(LS_UNAVAILABLE, "nobody joins norms");
    memset(squares, 0, PARTS * (size_t)width * sizeof(*squares));
    memset(total, 0, (size_t)width * sizeof(*total));
    return LS_OK;
}

/* With all that may come before a rule. A run that fails leaves all as it was: at either join. */
TEST_EACH(a_run_keeps_what_was_before_it, RULE_COUNT) {
    enum { COUNT = 9001 };
    struct ls_device *device = open_device();
    static float wanted[(1 + LS_MAX_MOMENTS) * COUNT], kept[(1 + LS_MAX_MOMENTS) * COUNT];
    for (int b = 0; b < (device->host_memory ? BEFORE_COUNT : 0); b++) {
        const struct rule rule = join(_i, b);
        struct ls_optimizer_step step = {.rule = rule.rule, .unscale = rule.unscale};
        int moments = moments_of(&rule.rule);
        size_t size = (1 + (size_t)moments) * COUNT * sizeof(float);
        struct state state = make_state(COUNT);
        add_parts(&state, befores[b].penalties);
        struct ls_op op = state_op(&state, &step);
        op.before = kept;
        for (step.iteration = 1; step.iteration < 4; step.iteration++) {
            new_gradients(&state, (int)step.iteration, rule.unscale);
            copy_state(&state, moments, wanted);
            assert_ok(run_op(device, &op));
            ck_assert_mem_eq(kept, wanted, size);
            ck_assert_mem_ne(state.parameters.device, kept, COUNT * sizeof(float));
        }
        for (int width = 1; width <= 2; width++) {
            const struct ls_norms norms = {refuse_width, &width};
            bool joins = width == 2 ? rule.rule.kind == LS_OPTIMIZER_LAMB
                                    : rule.rule.clipnorm > 0 || rule.rule.global_clipnorm > 0;
            op.norms = &norms;
            copy_state(&state, moments, wanted);
            if (!joins) continue;
            ck_assert_int_eq(run_op(device, &op), LS_UNAVAILABLE);
            copy_state(&state, moments, kept);
            ck_assert_mem_eq(kept, wanted, size);
        }
        free_state(&state);
    }
    ls_device_close(device);
}

/* A norm that is no number makes everything none, so that it is seen; that of one variable leaves the others alone. */
TEST(norms_that_are_no_numbers_are_seen) {
    struct ls_device *device = open_device();
    for (int all = 0; all < 2; all++) {
        struct ls_optimizer_step step = {{LS_OPTIMIZER_SGD, .learning_rate = 0.1F}, 1};
        *(all ? &step.rule.global_clipnorm : &step.rule.clipnorm) = 1;
        struct state state = make_state(64);
        add_parts(&state, false);
        state.gradients.device[33] = NAN;
        struct ls_op op = state_op(&state, &step);
        assert_ok(run_op(device, &op));
        for (int i = 0; i < 16; i++) ck_assert_int_eq(isnan(state.parameters.device[i]) != 0, all);
        for (int i = 32; i < 37; i++) ck_assert(isnan(state.parameters.device[i]));
        free_state(&state);
    }
    ls_device_close(device);
}

TEST(the_penalty_equals_the_oracle) {
    struct ls_device *device = open_device();
    struct state state = make_state(9001);
    add_parts(&state, true);
    double value = -1, wanted = 0;
    struct ls_op op = {.kind = LS_OP_PENALTY, .value = &value, .variables = state.parts, .variable_count = PARTS};
    const struct reference_update update = state_update(&state, 1);
    op.tensors[LS_ARG_PARAMETERS] = tensor(&state.parameters, LS_SHAPE(state.parameters.count));
    assert_ok(run_op(device, &op));
    wanted = reference_penalty(&update);
    ck_assert_double_le(fabs(value - wanted), 1e-12 * wanted);
    free_state(&state);
    ls_device_close(device);
}

/* An element's bits do not depend on its place: the vector loop and its tail agree. */
TEST_EACH(bits_do_not_depend_on_the_place, RULE_COUNT) {
    struct ls_device *device = open_device();
    struct state whole = make_state(67), tail = make_state(67), view;
    struct ls_optimizer_step step = {rules[_i].rule, 3};
    view = tail;
    struct pair *pairs[] = {&view.parameters, &view.gradients, &view.moments[0], &view.moments[1], &view.moments[2]};
    for (int i = 0; i < 5; i++) pairs[i]->device += 5, pairs[i]->count -= 5;
    struct ls_op first = state_op(&whole, &step), second = state_op(&view, &step);
    assert_ok(run_op(device, &first));
    assert_ok(run_op(device, &second));
    ck_assert_int_eq(memcmp(whole.parameters.device + 5, view.parameters.device, 62 * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(whole.moments[0].device + 5, view.moments[0].device, 62 * sizeof(float)), 0);
    free_state(&whole);
    free_state(&tail);
    ls_device_close(device);
}

/* Gradients of a scaled loss, with its inverse, are as good as those of the loss itself, to the bit; and steps that
 * were not applied do not count in bias corrections. */
TEST_EACH(a_scaled_loss_gives_the_same_bits, RULE_COUNT) {
    struct ls_device *device = open_device();
    struct state plain = make_state(33), scaled = make_state(33);
    struct ls_optimizer_step step = {rules[_i].rule, 3}, later = {rules[_i].rule, 8, .skipped = 5, .unscale = 0x1p-15F};
    struct ls_blob_part part = {.count = 33, .l1 = 0.01F, .l2 = 0.02F};
    step.rule.global_clipnorm = later.rule.global_clipnorm = 0.5F;
    struct ls_op first = state_op(&plain, &step), second = state_op(&scaled, &later);
    first.variables = second.variables = &part;
    first.variable_count = second.variable_count = 1;
    for (int64_t i = 0; i < 33; i++) scaled.gradients.device[i] *= 0x1p15F;
    assert_ok(run_op(device, &first));
    assert_ok(run_op(device, &second));
    ck_assert_mem_eq(plain.parameters.device, scaled.parameters.device, 33 * sizeof(float));
    ck_assert_mem_eq(plain.moments[1].device, scaled.moments[1].device, 33 * sizeof(float));
    free_state(&plain);
    free_state(&scaled);
    ls_device_close(device);
}

/* The numbers of a variable with a rate of its own are those of the whole trained with that rate. */
TEST_EACH(a_part_has_its_own_rate, RULE_COUNT) {
    const float rate = 0.1F;
    struct ls_device *device = open_device();
    struct state mixed = make_state(1003), slow = make_state(1003), usual = make_state(1003);
    struct ls_optimizer_step step = {rules[_i].rule, 1}, slower = step;
    struct state *const states[] = {&mixed, &slow, &usual};
    step.rule.weight_decay = slower.rule.weight_decay = 0.1F;
    slower.rule.learning_rate *= rate;
    for (int i = 0; i < 3; i++) add_parts(states[i], false);
    mixed.parts[1].rate = rate;
    struct ls_op one = state_op(&mixed, &step), two = state_op(&slow, &slower), three = state_op(&usual, &step);
    for (; step.iteration < 4; slower.iteration = ++step.iteration) {
        for (int i = 0; i < 3; i++) new_gradients(states[i], (int)step.iteration, 0);
        assert_ok(run_op(device, &one));
        assert_ok(run_op(device, &two));
        assert_ok(run_op(device, &three));
    }
    for (size_t i = 0; i < 1003; i++) {
        double got = (double)mixed.parameters.device[i];
        double wanted = (double)(i >= 32 && i < 37 ? &slow : &usual)->parameters.device[i];
        ck_assert_msg(fabs(got - wanted) <= 1e-6 * fabs(wanted), "[%zu] is %.9g, but must be %.9g", i, got, wanted);
    }
    for (int i = 0; i < 3; i++) free_state(states[i]);
    ls_device_close(device);
}

/* A run that was captured takes the numbers of each renewal, and gives the bits of a run that was not. */
/* Variables of one op, whose ends and rates fall anywhere in the blocks that threads take, have the bits that each has
 * in an op of its own. */
#define MIXED 5
static void draw_parts(struct state *state, struct ls_blob_part parts[MIXED], uint64_t seed) {
    size_t at = 0;
    for (int i = 0; i < MIXED; i++) {
        uint64_t bits = ls_random_bits(31, seed, (uint64_t)i);
        parts[i] = (struct ls_blob_part){at, 1 + bits % 9000, bits >> 20 & 1, .rate = bits >> 21 & 1 ? 0.25F : 0};
        at += (parts[i].count + 1023) / 1024 * 1024;
    }
    *state = make_state((int64_t)at);
    for (int i = 0; i < MIXED; i++)
        for (size_t gap = parts[i].offset + parts[i].count; gap % 1024; gap++)
            state->parameters.device[gap] = state->gradients.device[gap] = 0;
}

static struct state view_of(const struct state *state, const struct ls_blob_part *part) {
    struct state view = *state;
    struct pair *pairs[] = {&view.parameters, &view.gradients, &view.moments[0], &view.moments[1], &view.moments[2]};
    for (int i = 0; i < 5; i++) pairs[i]->device += part->offset, pairs[i]->count = (int64_t)part->count;
    return view;
}

TEST_EACH(blocks_change_no_bit, getenv("LOCKSTEP_TEST_DEVICE") ? 0 : 4 * RULE_COUNT) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    struct state whole, parted;
    struct ls_blob_part parts[MIXED];
    int count;
    assert_ok(ls_devices_open("cpu:0", 2, devices, &count));
    assert_ok(devices[0]->ops->enter(devices[0], &(struct ls_thread_state){0}));
    draw_parts(&whole, parts, (uint64_t)_i);
    draw_parts(&parted, parts, (uint64_t)_i);
    struct ls_optimizer_step step = {rules[_i / 4].rule, 3};
    step.rule.weight_decay = 0.1F, step.rule.clipnorm = 2;
    struct ls_op op = state_op(&whole, &step);
    op.variables = parts, op.variable_count = MIXED;
    assert_ok(run_op(devices[0], &op));
    for (int i = 0; i < MIXED; i++) {
        const struct state view = view_of(&parted, &parts[i]);
        struct ls_blob_part own = parts[i];
        own.offset = 0;
        op = state_op(&view, &step);
        op.variables = &own, op.variable_count = 1;
        assert_ok(run_op(devices[0], &op));
    }
    ck_assert_mem_eq(whole.parameters.device, parted.parameters.device, (size_t)whole.parameters.count * sizeof(float));
    ck_assert_mem_eq(whole.moments[0].device, parted.moments[0].device, (size_t)whole.parameters.count * sizeof(float));
    free_state(&whole);
    free_state(&parted);
    ls_device_close(devices[0]);
}

TEST_EACH(a_captured_update_gives_the_same_bits, getenv("LOCKSTEP_TEST_DEVICE") ? RULE_COUNT : 0) {
    struct ls_device *device = open_device();
    struct state plain = make_state(33), captured = make_state(33);
    struct ls_optimizer_step step = {rules[_i].rule, 1};
    struct ls_op first = state_op(&plain, &step), second = state_op(&captured, &step);
    struct mirror one, other;
    assert_ok(mirror_build(&one, device, &first));
    assert_ok(mirror_build(&other, device, &second));
    mirror_enter(&other);
    struct ls_program *program = compile_op(device, &other.op);
    for (; step.iteration < 4; step.iteration++, step.rule.learning_rate /= 3) {
        assert_ok(mirror_run(&one));
        mirror_enter(&other);
        assert_ok(other.op.renew(&other.op));
        assert_ok(program->run(program));
        assert_ok(mirror_leave(&other));
    }
    ck_assert_mem_eq(plain.parameters.device, captured.parameters.device, 33 * sizeof(float));
    program->drop(program);
    mirror_discard(&one), mirror_discard(&other);
    free_state(&plain), free_state(&captured);
    ls_device_close(device);
}

/* Gaps in a blob: no gradient, no moment, no change. */
TEST_EACH(gaps_stay_zero, RULE_COUNT) {
    struct ls_device *device = open_device();
    struct ls_optimizer_step step = {rules[_i].rule, 1};
    struct state state = {make_zeros(32), make_zeros(32), {make_zeros(32), make_zeros(32), make_zeros(32)}};
    struct ls_op op = state_op(&state, &step);
    struct mirror mirror;
    assert_ok(mirror_build(&mirror, device, &op));
    for (int i = 0; i < 3; i++, step.iteration++) assert_ok(mirror_run(&mirror));
    for (int i = 0; i < 32; i++) ck_assert(state.parameters.device[i] == 0 && state.moments[0].device[i] == 0);
    mirror_discard(&mirror);
    free_state(&state);
    ls_device_close(device);
}

TEST(misuse_is_named) {
    struct ls_device *device = open_device();
    struct state state = make_state(8);
    struct ls_optimizer_step adam = {rules[3].rule, 1}, momentum = {rules[1].rule, 1};
    struct ls_op op = state_op(&state, &adam);
    op.tensors[LS_ARG_MOMENT_2].data = NULL;
    assert_refused(device->ops->build(device, &op), "adam: argument moment 2 is missing");
    op = state_op(&state, &momentum);
    op.tensors[LS_ARG_MOMENT_1].data = NULL;
    assert_refused(device->ops->build(device, &op), "sgd: argument moment 1 is missing");
    op = state_op(&state, &momentum);
    op.tensors[LS_ARG_GRADIENTS].shape = LS_SHAPE(7);
    assert_refused(device->ops->build(device, &op), "argument gradients has shape (7), but must have (8)");
    op.step = NULL;
    assert_refused(device->ops->build(device, &op), "step is missing");
    free_state(&state);
    ls_device_close(device);
}

TESTS("optimizer", .seconds = 60)
