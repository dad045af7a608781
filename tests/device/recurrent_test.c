/* LSTM and GRU: against the oracle, which agrees with finite differences; bits that follow from a row and its block
 * alone; and what is left out. */
#include "device/op_fixture.h"
#include "device/reference_recurrent.h"
#include "harness.h"

struct shape {
    enum ls_cell cell;
    int64_t rows, length, units;
    bool last, biased; /* last: y of the last position; biased: of an LSTM too */
};

static const struct shape shapes[] = {
    {LS_CELL_LSTM, 1, 1, 1, false, false},   {LS_CELL_GRU, 1, 1, 1, false, true},
    {LS_CELL_LSTM, 3, 1, 5, true, false},    {LS_CELL_GRU, 1, 7, 1, true, true},
    {LS_CELL_LSTM, 1, 9, 4, false, true},    {LS_CELL_GRU, 8, 5, 16, false, false},
    {LS_CELL_LSTM, 9, 6, 33, true, false},   {LS_CELL_GRU, 17, 4, 30, true, true},
    {LS_CELL_LSTM, 33, 3, 64, false, false}, {LS_CELL_GRU, 2, 40, 6, false, true},
    {LS_CELL_LSTM, 2, 50, 3, true, true},
};
#define SHAPE_COUNT ((int)(sizeof(shapes) / sizeof(shapes[0])))

/* One layer with memory of its own. The oracle's y and dy have all positions, and all of dy is 0 but for the last ones
 * where that is asked for. */
struct trial {
    struct shape shape;
    struct pair x, w, b, y, saved, before, dy, dx, dr;
};

static int64_t columns_of(const struct shape *s) {
    return ls_cell_gates(s->cell) * s->units;
}

/* Weights as small as a layer's: with large ones an error grows with each position. */
static struct pair make_weights(int64_t units, int64_t columns) {
    struct pair w = make_random(2, units * columns);
    for (int64_t i = 0; i < w.count; i++) w.oracle[i] = (double)(w.device[i] /= 2 * sqrtf((float)units));
    return w;
}

static struct trial new_trial(const struct shape *s) {
    int64_t positions = s->rows * s->length, columns = columns_of(s), outputs = s->last ? s->rows : positions;
    return (struct trial){.shape = *s,
                          .x = make_random(1, positions * columns),
                          .w = make_weights(s->units, columns),
                          .b = make_random(3, columns),
                          .y = make_pair(outputs * s->units),
                          .saved = make_pair(positions * ls_cell_saved(s->cell) * s->units),
                          .before = make_pair(positions * s->units),
                          .dy = make_random(4, outputs * s->units),
                          .dx = make_pair(positions * columns),
                          .dr = make_pair(positions * columns)};
}

static void free_trial(struct trial *t) {
    struct pair *pairs[] = {&t->x, &t->w, &t->b, &t->y, &t->saved, &t->before, &t->dy, &t->dx, &t->dr};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) free_pair(pairs[i]);
}

static struct ls_op op_of(const struct trial *t, enum ls_op_kind kind) {
    const struct shape *s = &t->shape;
    bool back = kind == LS_OP_RECURRENT_BACKWARD;
    const ls_shape in = LS_SHAPE(s->rows, s->length, columns_of(s)), all = LS_SHAPE(s->rows, s->length, s->units);
    const ls_shape out = s->last ? LS_SHAPE(s->rows, s->units) : all;
    struct ls_op op = {.kind = kind, .cell = s->cell};
    op.tensors[LS_ARG_W] = tensor(&t->w, LS_SHAPE(s->units, columns_of(s)));
    op.tensors[LS_ARG_SAVED] = tensor(&t->saved, LS_SHAPE(s->rows, s->length, ls_cell_saved(s->cell) * s->units));
    op.tensors[LS_ARG_R] = tensor(&t->before, all);
    op.tensors[back ? LS_ARG_DX : LS_ARG_X] = tensor(back ? &t->dx : &t->x, in);
    op.tensors[back ? LS_ARG_DY : LS_ARG_Y] = tensor(back ? &t->dy : &t->y, out);
    if (back && s->cell == LS_CELL_GRU) op.tensors[LS_ARG_DR] = tensor(&t->dr, in);
    if (!back && s->biased) op.tensors[LS_ARG_B] = tensor(&t->b, LS_SHAPE(columns_of(s)));
    return op;
}

static void run_both(struct ls_device *device, const struct trial *t) {
    struct ls_op forward = op_of(t, LS_OP_RECURRENT_FORWARD), backward = op_of(t, LS_OP_RECURRENT_BACKWARD);
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
}

/* all: y and dy of all positions. */
static struct reference_recurrent oracle_of(const struct trial *t, double *all) {
    const struct shape *s = &t->shape;
    int64_t outputs = s->rows * s->length * s->units;
    for (int64_t i = 0; i < outputs; i++) {
        int64_t position = i / s->units % s->length, place = i / (s->units * s->length) * s->units + i % s->units;
        all[outputs + i] = !s->last ? t->dy.oracle[i] : position + 1 == s->length ? t->dy.oracle[place] : 0;
    }
    return (struct reference_recurrent){
        s->cell, s->rows,       s->length,    s->units,    t->x.oracle, t->w.oracle, s->biased ? t->b.oracle : NULL,
        all,     all + outputs, t->dx.oracle, t->dr.oracle};
}

/* y and the outputs before, of the oracle's y of all positions. */
static void take_outputs(const struct trial *t, const double *all) {
    const struct shape *s = &t->shape;
    for (int64_t i = 0; i < s->rows * s->length * s->units; i++) {
        int64_t row = i / (s->units * s->length), position = i / s->units % s->length, unit = i % s->units;
        t->before.oracle[i] = position ? all[i - s->units] : 0;
        if (!s->last) t->y.oracle[i] = all[i];
        if (s->last && position + 1 == s->length) t->y.oracle[row * s->units + unit] = all[i];
    }
}

static double *new_outputs(const struct shape *s) {
    double *all = ls_alloc((size_t)(2 * s->rows * s->length * s->units) * sizeof(double));
    ck_assert_ptr_nonnull(all);
    return all;
}

static void check_shape(const struct shape *shape) {
    struct ls_device *device = open_device();
    struct trial t = new_trial(shape);
    double *all = new_outputs(shape);
    const struct reference_recurrent oracle = oracle_of(&t, all);
    reference_recurrent_run(&oracle);
    take_outputs(&t, all);
    run_both(device, &t);
    assert_pair("y", &t.y);
    assert_pair("r", &t.before);
    assert_pair("dx", &t.dx);
    if (shape->cell == LS_CELL_GRU) assert_pair("dr", &t.dr);
    free_trial(&t);
    ls_free(all);
    ls_device_close(device);
}

TEST_EACH(a_layer_equals_the_oracle, SHAPE_COUNT) {
    check_shape(&shapes[_i]);
}

TEST_EACH(random_layers_equal_the_oracle, 20) {
    uint64_t drawn[6], seed = first_seed();
    for (uint64_t i = 0; i < 6; i++) drawn[i] = ls_random_bits(seed, 20 + i, (uint64_t)_i);
    const struct shape shape = {drawn[0] % 2 ? LS_CELL_GRU : LS_CELL_LSTM,
                                1 + (int64_t)(drawn[1] % 20),
                                1 + (int64_t)(drawn[2] % 12),
                                1 + (int64_t)(drawn[3] % 40),
                                drawn[4] % 2 == 0,
                                drawn[5] % 2 == 0};
    check_shape(&shape);
}

/* Of the sum of y dy, by each element of x; and by what a gate gets of the output before, in dr: one more in b. */
TEST_EACH(the_oracle_agrees_with_finite_differences, 4) {
    static const struct shape small[] = {{LS_CELL_LSTM, 1, 5, 3, false, true},
                                         {LS_CELL_GRU, 2, 4, 2, false, true},
                                         {LS_CELL_LSTM, 2, 3, 1, true, true},
                                         {LS_CELL_GRU, 1, 1, 3, true, true}};
    const struct shape *s = &small[_i];
    struct trial t = new_trial(s);
    double *all = new_outputs(s);
    int64_t outputs = s->rows * s->length * s->units, columns = columns_of(s);
    struct reference_recurrent run = oracle_of(&t, all), forward = run;
    forward.dy = NULL;
    reference_recurrent_run(&run);
    for (int64_t i = 0; i < t.x.count + columns; i++) {
        double *at = i < t.x.count ? &t.x.oracle[i] : &t.b.oracle[i - t.x.count], held = *at, sums[2] = {0}, must = 0;
        for (int side = 0; side < 2; side++) {
            *at = held + (side ? 1e-5 : -1e-5);
            reference_recurrent_run(&forward);
            for (int64_t k = 0; k < outputs; k++) sums[side] += all[k] * all[outputs + k];
        }
        *at = held;
        for (int64_t p = 0; i >= t.x.count && p < s->rows * s->length; p++)
            must += t.dr.oracle[p * columns + i - t.x.count];
        if (i < t.x.count) must = t.dx.oracle[i];
        double slope = (sums[1] - sums[0]) / 2e-5;
        ck_assert_msg(fabs(slope - must) <= 1e-8, "%lld: slope %.12g, gradient %.12g", (long long)i, slope, must);
    }
    free_trial(&t);
    ls_free(all);
}

/* ---- bits ---- */

static void assert_bits(const char *what, const struct pair *one, const struct pair *other) {
    for (int64_t i = 0; i < one->count; i++)
        if (memcmp(&one->device[i], &other->device[i], sizeof(float)) != 0)
            ck_abort_msg("%s[%lld] is %.9g, and %.9g", what, (long long)i, (double)one->device[i],
                         (double)other->device[i]);
}

TEST_EACH(the_number_of_threads_changes_no_bit, SHAPE_COUNT) {
    struct trial trials[4];
    for (int i = 0; i < 4; i++) {
        struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
        int count = 0;
        trials[i] = new_trial(&shapes[_i]);
        assert_ok(ls_devices_open("cpu:0", i + 1, devices, &count));
        assert_ok(devices[0]->ops->enter(devices[0], &(struct ls_thread_state){0}));
        run_both(devices[0], &trials[i]);
        ls_device_close(devices[0]);
    }
    for (int i = 1; i < 4; i++) {
        assert_bits("y", &trials[0].y, &trials[i].y), assert_bits("saved", &trials[0].saved, &trials[i].saved);
        assert_bits("dx", &trials[0].dx, &trials[i].dx), assert_bits("dr", &trials[0].dr, &trials[i].dr);
    }
    for (int i = 0; i < 4; i++) free_trial(&trials[i]);
}

/* A forward pass that keeps nothing for backward, and one with all positions in place of the last. */
TEST_EACH(what_is_left_out_changes_nothing_else, SHAPE_COUNT) {
    struct shape other = shapes[_i];
    struct ls_device *device = open_device();
    other.last = !other.last;
    struct trial all = new_trial(&shapes[_i]), part = new_trial(&shapes[_i]), turned = new_trial(&other);
    run_both(device, &all);
    struct ls_op forward = op_of(&part, LS_OP_RECURRENT_FORWARD), whole = op_of(&turned, LS_OP_RECURRENT_FORWARD);
    forward.tensors[LS_ARG_SAVED].data = forward.tensors[LS_ARG_R].data = NULL;
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &whole));
    assert_bits("y", &all.y, &part.y), assert_bits("saved", &all.saved, &turned.saved);
    const struct pair *many = other.last ? &all.y : &turned.y, *few = other.last ? &turned.y : &all.y;
    for (int64_t i = 0; i < few->count; i++) {
        int64_t row = i / other.units, unit = i % other.units;
        ck_assert(few->device[i] == many->device[((row + 1) * other.length - 1) * other.units + unit]);
    }
    free_trial(&all), free_trial(&part), free_trial(&turned);
    ls_device_close(device);
}

TEST(what_is_no_number_is_seen_behind_it_and_in_its_row) {
    static const struct shape shape = {LS_CELL_GRU, 3, 6, 2, false, true};
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shape);
    t.x.device[(1 * 6 + 3) * 6] = NAN;
    run_both(device, &t);
    for (int i = 0; i < 36; i++) {
        bool own = i == (1 * 6 + 3) * 2, behind = i / 12 == 1 && i / 2 % 6 > 3;
        ck_assert_int_eq(isnan(t.y.device[i]) != 0, own || behind);
    }
    free_trial(&t);
    ls_device_close(device);
}

/* Gates that are all open or all shut. */
TEST(large_numbers_stay_finite) {
    static const struct shape shape = {LS_CELL_LSTM, 1, 30, 4, false, false};
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shape);
    for (int64_t i = 0; i < t.x.count; i++) t.x.device[i] *= 1e30F;
    run_both(device, &t);
    for (int64_t i = 0; i < t.y.count; i++) ck_assert(fabsf(t.y.device[i]) <= 1);
    for (int64_t i = 0; i < t.dx.count; i++) ck_assert(isfinite(t.dx.device[i]));
    free_trial(&t);
    ls_device_close(device);
}

TEST(misuse_is_named) {
    static const struct shape shape = {LS_CELL_GRU, 2, 5, 3, false, true};
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shape);
    struct ls_op op = op_of(&t, LS_OP_RECURRENT_FORWARD);
    op.cell = (enum ls_cell)7;
    assert_refused(device->ops->build(device, &op), "recurrent forward: cell 7 is no ls_cell");
    op.cell = LS_CELL_LSTM;
    assert_refused(device->ops->build(device, &op), "recurrent forward: argument w has shape (3, 9)");
    op = op_of(&t, LS_OP_RECURRENT_FORWARD);
    op.tensors[LS_ARG_X].shape.rank = 2;
    assert_refused(device->ops->build(device, &op), "recurrent forward: argument x has shape (2, 5), but must have 3");
    op = op_of(&t, LS_OP_RECURRENT_BACKWARD);
    op.tensors[LS_ARG_DR].data = NULL;
    assert_refused(device->ops->build(device, &op), "recurrent backward: argument dr is missing");
    op = op_of(&t, LS_OP_RECURRENT_BACKWARD);
    op.tensors[LS_ARG_SAVED].data = NULL;
    assert_refused(device->ops->build(device, &op), "recurrent backward: argument saved is missing");
    free_trial(&t);
    ls_device_close(device);
}

TESTS("recurrent", .seconds = 60)
