/* Attention and positions: against the oracle, which agrees with finite differences; and bits that follow from a row
 * alone. */
#include "device/cpu/lanes.h"
#include "device/op_fixture.h"
#include "device/reference_attention.h"
#include "harness.h"

struct shape {
    int64_t rows, length, width;
    struct ls_attention asked;
};

static const struct shape shapes[] = {
    {1, 1, 1, {1, 1, true}},
    {3, 1, 8, {2, 2, true}},
    {1, 7, 1, {3, 1, true}},
    {2, 33, 8, {4, 2, true, 0, true}},
    {1, 64, 64, {1, 1, true}},
    {2, 65, 8, {3, 3, true, 0, true}},
    {1, 130, 64, {2, 1, true, 0, true}},
    {2, 63, 2, {6, 3, true}},
    {2, 70, 8, {2, 2, true, 1, true}},
    {1, 150, 8, {4, 2, true, 20}},
    {2, 40, 16, {2, 1, true, 1000}},
    {2, 67, 8, {2, 2, false}},
    {1, 129, 6, {4, 2, false, 0, true}},
    {2, 9, 5, {2, 1, true, 3}},
    {2, 70, 64, {2, 1, true, 0, true, 500000}},
    {1, 40, 8, {4, 2, true, 7, true, 1e6F}},
    {1, 33, 6, {1, 1, true, 0, true, 1}},
    {1, 90, 4, {2, 2, true, 0, true, 1e12F}},
};

/* One attention with memory of its own. */
struct trial {
    struct shape shape;
    struct pair x, y, dy, dx, saved;
};

static int64_t pitch_of(const struct shape *s) {
    return (s->asked.heads + 2 * s->asked.kv_heads) * s->width;
}

static struct trial new_trial(const struct shape *shape) {
    int64_t positions = shape->rows * shape->length, in = positions * pitch_of(shape);
    int64_t out = positions * shape->asked.heads * shape->width;
    return (struct trial){*shape,         make_random(1, in),
                          make_pair(out), make_random(2, out),
                          make_pair(in),  make_pair(positions * shape->asked.heads)};
}

static void free_trial(struct trial *t) {
    struct pair *pairs[] = {&t->x, &t->y, &t->dy, &t->dx, &t->saved};
    for (int i = 0; i < 5; i++) free_pair(pairs[i]);
}

static struct ls_op op_of(const struct trial *t, enum ls_op_kind kind) {
    const struct shape *s = &t->shape;
    const ls_shape x = LS_SHAPE(s->rows, s->length, pitch_of(s));
    const ls_shape y = LS_SHAPE(s->rows, s->length, s->asked.heads * s->width);
    struct ls_op op = {.kind = kind, .attention = s->asked};
    op.tensors[LS_ARG_X] = tensor(&t->x, x), op.tensors[LS_ARG_DX] = tensor(&t->dx, x);
    op.tensors[LS_ARG_Y] = tensor(&t->y, y), op.tensors[LS_ARG_DY] = tensor(&t->dy, y);
    op.tensors[LS_ARG_SAVED] = tensor(&t->saved, LS_SHAPE(s->rows, s->asked.heads, s->length));
    return op;
}

static void run_both(struct ls_device *device, const struct trial *t) {
    struct ls_op forward = op_of(t, LS_OP_ATTENTION_FORWARD), backward = op_of(t, LS_OP_ATTENTION_BACKWARD);
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
}

static struct reference_attention oracle_of(const struct trial *t) {
    return (struct reference_attention){t->shape.asked, t->shape.rows, t->shape.length, t->shape.width,
                                        t->x.oracle,    t->y.oracle,   t->dy.oracle,    t->dx.oracle};
}

static void check_shape(const struct shape *shape) {
    struct ls_device *device = open_device();
    struct trial t = new_trial(shape);
    const struct reference_attention oracle = oracle_of(&t);
    reference_attention_run(&oracle);
    run_both(device, &t);
    assert_pair("y", &t.y);
    assert_pair("dx", &t.dx);
    free_trial(&t);
    ls_device_close(device);
}

TEST_EACH(attention_equals_the_oracle, (int)COUNT_OF(shapes)) {
    check_shape(&shapes[_i]);
}

TEST_EACH(random_attentions_equal_the_oracle, 20) {
    uint64_t drawn[7];
    for (uint64_t i = 0; i < 7; i++) drawn[i] = ls_random_bits(11, i, (uint64_t)_i);
    int64_t kv_heads = 1 + (int64_t)(drawn[0] % 3), length = 1 + (int64_t)(drawn[1] % 140);
    bool causal = drawn[2] % 4 != 0, windows = causal && drawn[3] % 2;
    const struct shape shape = {1 + (int64_t)(drawn[4] % 2),
                                length,
                                2 + 2 * (int64_t)(drawn[5] % 20),
                                {kv_heads * (1 + (int64_t)(drawn[6] % 3)), kv_heads, causal,
                                 windows ? 1 + (int64_t)(drawn[3] / 2 % (uint64_t)length) : 0, drawn[0] / 3 % 2 == 0}};
    check_shape(&shape);
}

/* Of the sum of y dy, by each element of x. */
TEST_EACH(the_oracle_agrees_with_finite_differences, 4) {
    static const struct shape small[] = {{1, 5, 4, {4, 2, true, 0, true}},
                                         {2, 4, 2, {2, 2, true, 2}},
                                         {1, 6, 3, {2, 1, false}},
                                         {1, 4, 4, {1, 1, false, 0, true, 3.5F}}};
    struct trial t = new_trial(&small[_i]);
    struct reference_attention run = oracle_of(&t), forward = run;
    forward.dy = NULL;
    reference_attention_run(&run);
    for (int64_t i = 0; i < t.x.count; i++) {
        double held = t.x.oracle[i], sums[2] = {0};
        for (int side = 0; side < 2; side++) {
            t.x.oracle[i] = held + (side ? 1e-5 : -1e-5);
            reference_attention_run(&forward);
            for (int64_t k = 0; k < t.y.count; k++) sums[side] += t.y.oracle[k] * t.dy.oracle[k];
        }
        t.x.oracle[i] = held;
        double slope = (sums[1] - sums[0]) / 2e-5;
        ck_assert_msg(fabs(slope - t.dx.oracle[i]) <= 1e-8, "x[%lld]: slope %.12g, gradient %.12g", (long long)i, slope,
                      t.dx.oracle[i]);
    }
    free_trial(&t);
}

/* ---- bits ---- */

static struct ls_device *open_threads(int threads) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    assert_ok(ls_devices_open("cpu:0", threads, devices, &count));
    assert_ok(devices[0]->ops->enter(devices[0], &(struct ls_thread_state){0}));
    return devices[0];
}

static void assert_bits(const char *what, const struct pair *one, const float *other) {
    for (int64_t i = 0; i < one->count; i++)
        if (memcmp(&one->device[i], &other[i], sizeof(float)) != 0)
            ck_abort_msg("%s[%lld] is %.9g, and %.9g", what, (long long)i, (double)one->device[i], (double)other[i]);
}

static void assert_same(const struct trial *one, const struct trial *other) {
    assert_bits("y", &one->y, other->y.device);
    assert_bits("saved", &one->saved, other->saved.device);
    assert_bits("dx", &one->dx, other->dx.device);
}

TEST_EACH(the_number_of_threads_changes_no_bit, (int)COUNT_OF(shapes)) {
    struct trial one = new_trial(&shapes[_i]);
    struct ls_device *device = open_threads(1);
    run_both(device, &one);
    ls_device_close(device);
    for (int threads = 2; threads <= 4; threads++) {
        struct trial more = new_trial(&shapes[_i]);
        device = open_threads(threads);
        run_both(device, &more);
        assert_same(&one, &more);
        free_trial(&more);
        ls_device_close(device);
    }
    free_trial(&one);
}

/* Memory in another place, too. */
TEST_EACH(a_row_alone_has_its_bits, (int)COUNT_OF(shapes)) {
    struct shape many = shapes[_i], single = shapes[_i];
    many.rows = 5, single.rows = 1;
    struct ls_device *device = open_device();
    struct trial all = new_trial(&many), one = new_trial(&single);
    run_both(device, &all);
    for (int64_t row = 0; row < many.rows; row++) {
        memcpy(one.x.device, all.x.device + row * one.x.count, (size_t)one.x.count * sizeof(float));
        memcpy(one.dy.device, all.dy.device + row * one.dy.count, (size_t)one.dy.count * sizeof(float));
        run_both(device, &one);
        assert_bits("y", &one.y, all.y.device + row * one.y.count);
        assert_bits("saved", &one.saved, all.saved.device + row * one.saved.count);
        assert_bits("dx", &one.dx, all.dx.device + row * one.dx.count);
    }
    free_trial(&all), free_trial(&one);
    ls_device_close(device);
}

TEST(a_position_behind_changes_nothing_before) {
    static const struct shape shape = {1, 100, 8, {2, 1, true, 0, true}};
    struct ls_device *device = open_device();
    struct trial one = new_trial(&shape), other = new_trial(&shape);
    int64_t kept = 77 * shape.asked.heads * shape.width;
    for (int64_t i = 77 * pitch_of(&shape); i < other.x.count; i++) other.x.device[i] += 3;
    run_both(device, &one), run_both(device, &other);
    ck_assert_int_eq(memcmp(one.y.device, other.y.device, (size_t)kept * sizeof(float)), 0);
    ck_assert_int_ne(memcmp(one.y.device, other.y.device, (size_t)one.y.count * sizeof(float)), 0);
    free_trial(&one), free_trial(&other);
    ls_device_close(device);
}

/* Scores that no exponential holds: the first key takes all. */
TEST(large_scores_stay_finite) {
    static const struct shape shape = {1, 3, 1, {1, 1, true}};
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shape);
    const float x[] = {300, 300, 5, 300, -300, 6, 300, 100, 7};
    memcpy(t.x.device, x, sizeof(x));
    run_both(device, &t);
    for (int i = 0; i < 3; i++) ck_assert_double_le(fabs((double)t.y.device[i] - 5), 1e-6);
    for (int i = 0; i < 9; i++) ck_assert(isfinite(t.dx.device[i]));
    ck_assert_double_le(fabs((double)t.saved.device[2] - 90000), 0.01);
    free_trial(&t);
    ls_device_close(device);
}

TEST(what_is_no_number_is_seen) {
    static const struct shape shape = {1, 20, 2, {1, 1, true}};
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shape);
    t.x.device[3 * pitch_of(&shape)] = NAN; /* of a query */
    run_both(device, &t);
    for (int i = 0; i < 40; i++) ck_assert_int_eq(isnan(t.y.device[i]) != 0, i / 2 == 3);
    free_trial(&t);
    ls_device_close(device);
}

/* ---- positions ---- */

TEST_EACH(positions_are_exact, 3) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {3, 150, 130}};
    int64_t rows = sizes[_i][0], count = sizes[_i][1] * sizes[_i][2];
    const ls_shape shape = LS_SHAPE(rows, sizes[_i][1], sizes[_i][2]), table = LS_SHAPE(sizes[_i][1], sizes[_i][2]);
    struct ls_device *device = open_device();
    struct pair x = make_random(1, rows * count), b = make_random(2, count), y = make_pair(rows * count);
    struct pair db = make_pair(count);
    struct ls_op forward = {.kind = LS_OP_POSITION_FORWARD}, backward = {.kind = LS_OP_POSITION_BACKWARD};
    forward.tensors[LS_ARG_X] = tensor(&x, shape), forward.tensors[LS_ARG_Y] = tensor(&y, shape);
    forward.tensors[LS_ARG_B] = tensor(&b, table), backward.tensors[LS_ARG_DB] = tensor(&db, table);
    backward.tensors[LS_ARG_DY] = tensor(&x, shape);
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    for (int64_t i = 0; i < rows * count; i++) ck_assert(y.device[i] == x.device[i] + b.device[i % count]);
    for (int64_t i = 0; i < count; i++) {
        float sum = x.device[i];
        for (int64_t r = 1; r < rows; r++) sum += x.device[r * count + i];
        ck_assert(db.device[i] == sum);
    }
    free_pair(&x), free_pair(&b), free_pair(&y), free_pair(&db);
    ls_device_close(device);
}

/* ---- the exponential ---- */

TEST(exponentials_are_within_a_few_units) {
    for (int i = 0; i <= 175000; i++) {
        float x = (float)i / 1000 - 87;
        double is = (double)ls_lanes_exp(x), must = exp((double)x);
        ck_assert_msg(fabs(is - must) <= 3e-7 * must, "exp(%.9g) is %.9g, but must be %.9g", (double)x, is, must);
    }
    ck_assert(ls_lanes_exp(0) == 1 && ls_lanes_exp(-88) == 0 && ls_lanes_exp(-INFINITY) == 0);
    ck_assert(isinf(ls_lanes_exp(89)) && isinf(ls_lanes_exp(INFINITY)) && isnan(ls_lanes_exp(NAN)));
}

/* ---- misuse ---- */

TEST(misuse_is_named) {
    static const struct {
        struct ls_attention asked;
        const char *text;
    } rows[] = {{{0, 1, true}, "attention forward: 1 kv_heads do not divide 0 heads"},
                {{3, 2, true}, "2 kv_heads do not divide 3 heads"},
                {{5, 5, true}, "5 heads and twice 5 kv_heads do not divide 12 channels"},
                {{4, 4, true, 0, true}, "a head of 1 channels has no pairs for rope"},
                {{2, 2, false, 3}, "window 3 must be 0, or above it where it is causal"},
                {{2, 2, true, -1}, "window -1 must be 0"},
                {{1, 1, true, 0, false, 100}, "rope_theta 100 must be 1 to 1e+12 beside rope, or 0"},
                {{1, 1, true, 0, true, 0.5F}, "rope_theta 0.5 must be 1 to"}};
    static const struct shape shape = {2, 5, 2, {2, 2, true}};
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shape);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ls_op op = op_of(&t, LS_OP_ATTENTION_FORWARD);
        op.attention = rows[i].asked;
        assert_refused(device->ops->build(device, &op), rows[i].text);
    }
    struct ls_op op = op_of(&t, LS_OP_ATTENTION_BACKWARD);
    op.tensors[LS_ARG_SAVED].data = NULL;
    assert_refused(device->ops->build(device, &op), "attention backward: argument saved is missing");
    op = op_of(&t, LS_OP_POSITION_FORWARD);
    op.tensors[LS_ARG_B] = op.tensors[LS_ARG_Y];
    assert_refused(device->ops->build(device, &op), "position forward: argument b has shape");
    free_trial(&t);
    ls_device_close(device);
}

TESTS("attention", .seconds = 60)
