/* Activations, sums, scaling, dropout, columns and padding. */
#include "device/op_fixture.h"
#include "device/reference_image.h"
#include "harness.h"

extern void omp_set_num_threads(int count);

static const ls_activation activations[] = {LS_LINEAR, LS_RELU, LS_RELU6,     LS_LEAKY_RELU, LS_SIGMOID,
                                            LS_TANH,   LS_GELU, LS_GELU_TANH, LS_SILU};
#define ACTIVATION_COUNT ((int)(sizeof(activations) / sizeof(activations[0])))
#define COUNT            501

static struct ls_op on_elements(enum ls_op_kind kind, const struct pair *x, const struct pair *y) {
    struct ls_op op = {.kind = kind};
    op.tensors[LS_ARG_X] = tensor(x, LS_SHAPE(x->count));
    op.tensors[LS_ARG_Y] = tensor(y, LS_SHAPE(x->count));
    return op;
}

/* Values from -12 to 12; the slope is that of the function itself. */
TEST_EACH(activations_equal_the_oracle, ACTIVATION_COUNT) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, COUNT), y = make_pair(COUNT), dy = make_random(2, COUNT), dx = make_pair(COUNT);
    for (int i = 0; i < COUNT; i++) {
        x.oracle[i] = (double)(x.device[i] = 4 * x.device[i]);
        y.oracle[i] = reference_activation(activations[_i], x.oracle[i]);
        double above = reference_activation(activations[_i], x.oracle[i] + 1e-6);
        dx.oracle[i] = dy.oracle[i] * (above - reference_activation(activations[_i], x.oracle[i] - 1e-6)) / 2e-6;
    }
    struct ls_op forward = on_elements(LS_OP_ACTIVATION_FORWARD, &x, &y), backward = forward;
    forward.activation = backward.activation = activations[_i];
    forward.alpha = backward.alpha = 0.3F;
    backward.kind = LS_OP_ACTIVATION_BACKWARD;
    backward.tensors[LS_ARG_DY] = tensor(&dy, LS_SHAPE(COUNT));
    backward.tensors[LS_ARG_DX] = tensor(&dx, LS_SHAPE(COUNT));
    assert_ok(run_op(device, &forward));
    assert_pair("y", &y);
    assert_ok(run_op(device, &backward));
    assert_pair("dx", &dx);
    struct pair *pairs[] = {&x, &y, &dy, &dx};
    for (int i = 0; i < 4; i++) free_pair(pairs[i]);
    ls_device_close(device);
}

/* Each value has its own tolerance: the error is small where the function is small. */
TEST_EACH(tails_of_smooth_activations_are_exact, 3) {
    static const ls_activation smooth[] = {LS_GELU, LS_GELU_TANH, LS_SILU};
    static const double least[] = {-12, -4.5, -80}; /* beyond, tanh's argument, a float32, decides */
    struct ls_device *device = open_device();
    struct pair x = make_pair(COUNT), y = make_pair(COUNT);
    for (int i = 0; i < COUNT; i++) {
        x.device[i] = (float)(least[_i] + i * (10 - least[_i]) / COUNT);
        y.oracle[i] = reference_activation(smooth[_i], (double)x.device[i]);
    }
    struct ls_op op = on_elements(LS_OP_ACTIVATION_FORWARD, &x, &y);
    op.activation = smooth[_i];
    assert_ok(run_op(device, &op));
    for (int i = 0; i < COUNT; i++)
        if (!(fabs((double)y.device[i] - y.oracle[i]) <= 2e-5 * fabs(y.oracle[i])))
            ck_abort_msg("at %g is %.9g, but must be %.9g", (double)x.device[i], (double)y.device[i], y.oracle[i]);
    free_pair(&x), free_pair(&y);
    ls_device_close(device);
}

/* The formulas decide about values far out, the infinite and no number. */
TEST_EACH(smooth_activations_of_extremes, 3) {
    static const ls_activation smooth[] = {LS_GELU, LS_GELU_TANH, LS_SILU};
    static const float far[] = {-0.0F, 0, 1e-30F, -200, 200, -1e10F, 1e10F, INFINITY, NAN};
    static const float wanted[] = {0, 0, 0.5e-30F, 0, 200, 0, 1e10F, INFINITY, NAN};
    struct ls_device *device = open_device();
    struct pair x = make_pair(COUNT_OF(far)), y = make_pair(x.count);
    memcpy(x.device, far, sizeof(far));
    struct ls_op op = on_elements(LS_OP_ACTIVATION_FORWARD, &x, &y);
    op.activation = smooth[_i];
    assert_ok(run_op(device, &op));
    for (int64_t i = 0; i < x.count; i++)
        ck_assert_msg(isnan(wanted[i]) ? isnan(y.device[i])
                                       : y.device[i] == wanted[i] || fabsf(y.device[i] - wanted[i]) <= 1e-36F,
                      "of %g it is %g", (double)far[i], (double)y.device[i]);
    free_pair(&x), free_pair(&y);
    ls_device_close(device);
}

TEST(an_activation_without_its_value_is_refused) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, COUNT), dx = make_pair(COUNT);
    struct ls_op op = {.kind = LS_OP_ACTIVATION_BACKWARD, .activation = LS_GELU};
    op.tensors[LS_ARG_DY] = tensor(&x, LS_SHAPE(COUNT)), op.tensors[LS_ARG_DX] = tensor(&dx, LS_SHAPE(COUNT));
    op.tensors[LS_ARG_X].shape = LS_SHAPE(COUNT);
    assert_refused(device->ops->build(device, &op), "activation backward: argument x is missing");
    op.activation = (ls_activation)(LS_SILU + 1);
    assert_refused(device->ops->build(device, &op), "is no ls_activation");
    free_pair(&x), free_pair(&dx);
    ls_device_close(device);
}

TEST(softmax_equals_the_oracle) {
    struct ls_device *device = open_device();
    const int64_t columns = 7, rows = 3;
    struct pair x = make_random(1, 21), y = make_pair(21), dy = make_random(2, 21), dx = make_pair(21);
    x.device[0] = 200, x.oracle[0] = 200; /* must not overflow */
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, inner = 0, largest = 0;
        for (int64_t i = r * columns; i < (r + 1) * columns; i++) largest = fmax(largest, x.oracle[i]);
        for (int64_t i = r * columns; i < (r + 1) * columns; i++) sum += exp(x.oracle[i] - largest);
        for (int64_t i = r * columns; i < (r + 1) * columns; i++) y.oracle[i] = exp(x.oracle[i] - largest) / sum;
        for (int64_t i = r * columns; i < (r + 1) * columns; i++) inner += y.oracle[i] * dy.oracle[i];
        for (int64_t i = r * columns; i < (r + 1) * columns; i++) dx.oracle[i] = y.oracle[i] * (dy.oracle[i] - inner);
    }
    struct ls_op forward = {.kind = LS_OP_ACTIVATION_FORWARD, .activation = LS_SOFTMAX};
    forward.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(rows, columns));
    forward.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(rows, columns));
    struct ls_op backward = forward;
    backward.kind = LS_OP_ACTIVATION_BACKWARD;
    backward.tensors[LS_ARG_DY] = tensor(&dy, LS_SHAPE(rows, columns));
    backward.tensors[LS_ARG_DX] = tensor(&dx, LS_SHAPE(rows, columns));
    assert_ok(run_op(device, &forward));
    assert_pair("y", &y);
    assert_ok(run_op(device, &backward));
    assert_pair("dx", &dx);
    struct pair *pairs[] = {&x, &y, &dy, &dx};
    for (int i = 0; i < 4; i++) free_pair(pairs[i]);
    ls_device_close(device);
}

TEST(sums_products_and_scaling_are_exact) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, COUNT), w = make_random(2, COUNT), y = make_pair(COUNT);
    struct ls_op add = on_elements(LS_OP_ADD, &x, &y), scale = on_elements(LS_OP_SCALE, &x, &x);
    add.tensors[LS_ARG_W] = tensor(&w, LS_SHAPE(COUNT));
    assert_ok(run_op(device, &add));
    for (int i = 0; i < COUNT; i++) ck_assert(y.device[i] == x.device[i] + w.device[i]);
    add.kind = LS_OP_MULTIPLY;
    assert_ok(run_op(device, &add));
    for (int i = 0; i < COUNT; i++) ck_assert(y.device[i] == x.device[i] * w.device[i]);
    scale.alpha = 0.5F, scale.beta = -1;
    assert_ok(run_op(device, &scale));
    for (int i = 0; i < COUNT; i++) ck_assert(x.device[i] == (float)x.oracle[i] * 0.5F - 1);
    free_pair(&x), free_pair(&w), free_pair(&y);
    ls_device_close(device);
}

static void drop(struct ls_device *device, const struct pair *x, const struct pair *y, struct ls_randomness random,
                 int64_t iteration) {
    struct ls_optimizer_step step = {.iteration = iteration};
    struct ls_op op = on_elements(LS_OP_DROPOUT, x, y);
    op.alpha = 0.25F;
    op.random = random;
    op.step = &step;
    assert_ok(run_op(device, &op));
}

/* A function of seed, layer, step, replica and element; not of threads; a quarter is dropped, the mean stays. */
TEST(dropout_follows_seed_step_and_replica) {
    const int64_t count = 100001;
    struct ls_device *device = open_device();
    struct pair x = make_pair(count), y[6];
    const struct ls_randomness usual = {3, 5, 1}, randoms[] = {usual, usual, {4, 5, 1}, {3, 6, 1}, {3, 5, 2}, usual};
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) x.device[i] = 1;
    for (int k = 0; k < 6; k++) {
        y[k] = make_pair(count);
        omp_set_num_threads(1 + k % 2);
        drop(device, &x, &y[k], randoms[k], k == 5 ? 8 : 7);
        int differs = memcmp(y[0].device, y[k].device, (size_t)count * sizeof(float)) != 0;
        ck_assert_int_eq(differs, k > 1);
    }
    for (int64_t i = 0; i < count; i++) {
        ck_assert(y[0].device[i] == 0 || y[0].device[i] == 1 / 0.75F);
        kept += y[0].device[i] != 0;
    }
    ck_assert_double_le(fabs((double)kept / (double)count - 0.75), 0.006);
    for (int k = 0; k < 6; k++) free_pair(&y[k]);
    free_pair(&x);
    ls_device_close(device);
}

TEST(columns_are_placed_and_taken) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, 15), wide = make_zeros(35), back = make_pair(15);
    struct ls_op place = {.kind = LS_OP_PLACE, .column = 2}, take = {.kind = LS_OP_TAKE, .column = 2};
    place.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(5, 3));
    place.tensors[LS_ARG_Y] = take.tensors[LS_ARG_X] = tensor(&wide, LS_SHAPE(5, 7));
    take.tensors[LS_ARG_Y] = tensor(&back, LS_SHAPE(5, 3));
    assert_ok(run_op(device, &place));
    for (int i = 0; i < 35; i++) {
        int row = i / 7, column = i % 7 - 2;
        ck_assert(wide.device[i] == (column >= 0 && column < 3 ? x.device[row * 3 + column] : 0));
    }
    assert_ok(run_op(device, &take));
    ck_assert_int_eq(memcmp(back.device, x.device, 15 * sizeof(float)), 0);
    place.column = 5;
    assert_refused(device->ops->build(device, &place), "place: columns 5 to 7 are not all in 7");
    free_pair(&x), free_pair(&wide), free_pair(&back);
    ls_device_close(device);
}

TEST(padding_and_cropping_are_exact) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, 2 * 3 * 2 * 2), large = make_pair(2 * 4 * 5 * 2), back = make_pair(x.count);
    struct ls_op pad = {.kind = LS_OP_PAD, .window = {{1, 1}, {1, 1}, {1, 1}, {0, 2}, {1, 1}, 1}}, crop = pad;
    crop.kind = LS_OP_CROP;
    pad.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(2, 3, 2, 2));
    pad.tensors[LS_ARG_Y] = crop.tensors[LS_ARG_X] = tensor(&large, LS_SHAPE(2, 4, 5, 2));
    crop.tensors[LS_ARG_Y] = tensor(&back, LS_SHAPE(2, 3, 2, 2));
    assert_ok(run_op(device, &pad));
    for (int i = 0; i < 80; i++) {
        int c = i % 2, w = i / 2 % 5 - 2, h = i / 10 % 4, r = i / 40;
        bool inside = w >= 0 && w < 2 && h < 3;
        ck_assert(large.device[i] == (inside ? x.device[((r * 3 + h) * 2 + w) * 2 + c] : 0));
    }
    assert_ok(run_op(device, &crop));
    ck_assert_int_eq(memcmp(back.device, x.device, (size_t)x.count * sizeof(float)), 0);
    free_pair(&x), free_pair(&large), free_pair(&back);
    ls_device_close(device);
}

TESTS("elements", .seconds = 60)
