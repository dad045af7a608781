/* Convolutions and pools against the oracle over shapes chosen to hurt, and the oracle's gradients against finite
 * differences; equal bits again and with several threads for what does not promise less. */
#include "device/op_fixture.h"
#include "device/reference_image.h"
#include "harness.h"

extern void omp_set_num_threads(int count);

/* {rows, height, width, channels, filters, groups, kernel, strides, dilation, padding before, padding after} */
static const struct shape {
    int64_t rows, size[2], channels, filters, groups, kernel[2], stride, dilation, before, after;
} shapes[] = {
    {1, {1, 1}, 1, 1, 1, {1, 1}, 1, 1, 0, 0},      {2, {1, 1}, 5, 7, 1, {1, 1}, 1, 1, 0, 0},
    {1, {1, 1}, 3, 2, 1, {3, 3}, 1, 1, 1, 1},      {2, {7, 5}, 3, 16, 1, {3, 3}, 2, 1, 0, 1},
    {3, {8, 8}, 16, 24, 1, {1, 1}, 1, 1, 0, 0},    {2, {9, 7}, 17, 33, 1, {3, 3}, 1, 1, 1, 1},
    {1, {5, 5}, 4, 6, 1, {2, 3}, 3, 1, 0, 0},      {2, {3, 3}, 4, 4, 1, {1, 1}, 5, 1, 0, 0},
    {1, {11, 9}, 6, 5, 1, {3, 3}, 1, 2, 2, 2},     {1, {12, 12}, 8, 8, 1, {3, 2}, 2, 3, 1, 2},
    {2, {6, 6}, 8, 12, 4, {3, 3}, 1, 1, 1, 1},     {1, {5, 7}, 6, 9, 3, {3, 3}, 2, 1, 1, 1},
    {2, {7, 7}, 32, 32, 32, {3, 3}, 1, 1, 1, 1},   {1, {8, 8}, 24, 24, 24, {3, 3}, 2, 1, 0, 1},
    {2, {9, 5}, 13, 13, 13, {3, 3}, 2, 1, 1, 1},   {1, {6, 6}, 5, 10, 5, {3, 3}, 1, 1, 0, 0},
    {1, {10, 10}, 16, 16, 16, {5, 5}, 1, 2, 4, 4}, {1, {15, 15}, 3, 6, 1, {5, 5}, 1, 1, 0, 0},
    {2, {5, 7}, 8, 8, 8, {3, 3}, 1, 1, 0, 0},      {3, {9, 11}, 12, 12, 12, {3, 3}, 1, 1, 2, 2},
    {2, {7, 10}, 8, 8, 8, {3, 3}, 2, 1, 1, 0},     {1, {6, 8}, 40, 40, 40, {3, 3}, 2, 1, 0, 0},
    {2, {9, 6}, 16, 16, 16, {3, 3}, 2, 1, 2, 2},   {2, {4, 3}, 144, 144, 144, {3, 3}, 1, 1, 1, 1},
    {2, {5, 14}, 24, 24, 24, {3, 3}, 1, 1, 1, 1},  {1, {7, 8}, 40, 40, 40, {3, 3}, 1, 1, 1, 1},
    {1, {9, 21}, 8, 8, 8, {3, 3}, 1, 1, 0, 2},     {1, {3, 4}, 24, 24, 24, {3, 3}, 1, 1, 3, 0},
    {2, {7, 9}, 24, 24, 24, {3, 3}, 2, 1, 1, 1},   {1, {13, 8}, 40, 40, 40, {3, 3}, 2, 1, 0, 1},
    {1, {5, 16}, 8, 8, 8, {3, 3}, 2, 1, 1, 1},     {1, {2, 3}, 8, 8, 8, {3, 3}, 2, 1, 3, 3},
    {1, {9, 9}, 8, 8, 8, {3, 3}, 3, 1, 1, 1},      {4, {7, 7}, 160, 320, 1, {1, 1}, 1, 1, 0, 0},
};
#define SHAPE_COUNT ((int)(sizeof(shapes) / sizeof(shapes[0])))

struct image {
    struct reference_image oracle;
    struct ls_window window;
    struct pair x, w, b, y, dy, dx, dw, db;
};

static int64_t positions(const struct shape *s, int axis) {
    return (s->size[axis] + s->before + s->after - (s->kernel[axis] - 1) * s->dilation - 1) / s->stride + 1;
}

static struct image make_image(const struct shape *s, bool pool) {
    int64_t out[2] = {positions(s, 0), positions(s, 1)}, filters = pool ? s->channels : s->filters;
    int64_t inputs = s->rows * s->size[0] * s->size[1] * s->channels, outputs = s->rows * out[0] * out[1] * filters;
    int64_t weights = s->kernel[0] * s->kernel[1] * s->channels / s->groups * filters;
    return (struct image){.oracle = {.rows = s->rows,
                                     .size = {s->size[0], s->size[1]},
                                     .channels = s->channels,
                                     .filters = filters,
                                     .groups = s->groups,
                                     .kernel = {s->kernel[0], s->kernel[1]},
                                     .strides = {s->stride, s->stride},
                                     .dilation = {s->dilation, s->dilation},
                                     .before = {s->before, s->before},
                                     .out = {out[0], out[1]}},
                          .window = {{s->kernel[0], s->kernel[1]},
                                     {s->stride, s->stride},
                                     {s->dilation, s->dilation},
                                     {s->before, s->before},
                                     {s->after, s->after},
                                     s->groups},
                          .x = make_random(1, inputs),
                          .w = make_random(2, weights),
                          .b = make_random(3, filters),
                          .y = make_pair(outputs),
                          .dy = make_random(4, outputs),
                          .dx = make_pair(inputs),
                          .dw = make_pair(weights),
                          .db = make_pair(filters)};
}

static void free_image(struct image *i) {
    struct pair *pairs[] = {&i->x, &i->w, &i->b, &i->y, &i->dy, &i->dx, &i->dw, &i->db};
    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) free_pair(pairs[p]);
}

static void point(struct image *i) {
    struct reference_image *o = &i->oracle;
    o->x = i->x.oracle, o->w = i->w.oracle, o->b = i->b.oracle, o->y = i->y.oracle;
    o->dy = i->dy.oracle, o->dx = i->dx.oracle, o->dw = i->dw.oracle, o->db = i->db.oracle;
}

static struct ls_op image_op(const struct image *i, enum ls_op_kind kind) {
    const struct reference_image *o = &i->oracle;
    struct ls_op op = {.kind = kind, .window = i->window};
    ls_shape in = LS_SHAPE(o->rows, o->size[0], o->size[1], o->channels);
    ls_shape out = LS_SHAPE(o->rows, o->out[0], o->out[1], o->filters);
    ls_shape kernel = LS_SHAPE(o->kernel[0], o->kernel[1], o->channels / o->groups, o->filters);
    op.tensors[LS_ARG_X] = tensor(&i->x, in);
    op.tensors[LS_ARG_W] = tensor(&i->w, kernel);
    op.tensors[LS_ARG_B] = tensor(&i->b, LS_SHAPE(o->filters));
    op.tensors[LS_ARG_Y] = tensor(&i->y, out);
    op.tensors[LS_ARG_DY] = tensor(&i->dy, out);
    op.tensors[LS_ARG_DX] = tensor(&i->dx, in);
    op.tensors[LS_ARG_DW] = tensor(&i->dw, kernel);
    op.tensors[LS_ARG_DB] = tensor(&i->db, LS_SHAPE(o->filters));
    if (kind == LS_OP_CONVOLUTION_BACKWARD_DATA) op.tensors[LS_ARG_X] = (struct ls_tensor){0}; /* it does not read it */
    if (kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS) op.tensors[LS_ARG_W] = (struct ls_tensor){0};
    return op;
}

static void run_kind(struct ls_device *device, const struct image *image, enum ls_op_kind kind) {
    struct ls_op op = image_op(image, kind);
    assert_ok(run_op(device, &op));
}

TEST_EACH(convolutions_equal_the_oracle, SHAPE_COUNT) {
    struct ls_device *device = open_device();
    struct image image = make_image(&shapes[_i], false);
    point(&image);
    run_kind(device, &image, LS_OP_CONVOLUTION_FORWARD);
    run_kind(device, &image, LS_OP_CONVOLUTION_BACKWARD_DATA);
    run_kind(device, &image, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS);
    reference_convolution_forward(&image.oracle);
    reference_convolution_backward(&image.oracle);
    assert_pair("y", &image.y);
    assert_pair("dx", &image.dx);
    assert_pair("dw", &image.dw);
    assert_pair("db", &image.db);
    free_image(&image);
    ls_device_close(device);
}

static bool is_depthwise(const struct shape *shape) {
    return shape->groups > 1 && shape->groups == shape->channels;
}

/* In one op, and once more with dx in the place of x, to the same bits. */
TEST_EACH(both_gradients_of_a_depthwise_convolution_equal_the_oracle, SHAPE_COUNT) {
    if (!is_depthwise(&shapes[_i])) return;
    struct ls_device *device = open_device();
    struct image image = make_image(&shapes[_i], false);
    struct ls_op op = image_op(&image, LS_OP_DEPTHWISE_BACKWARD);
    point(&image);
    reference_convolution_backward(&image.oracle);
    assert_ok(run_op(device, &op));
    assert_pair("dx", &image.dx);
    assert_pair("dw", &image.dw);
    assert_pair("db", &image.db);
    struct pair dw = make_pair(image.dw.count);
    op.tensors[LS_ARG_DX] = op.tensors[LS_ARG_X];
    op.tensors[LS_ARG_DW].data = dw.device;
    assert_ok(run_op(device, &op));
    ck_assert_int_eq(memcmp(image.dx.device, image.x.device, (size_t)image.dx.count * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(image.dw.device, dw.device, (size_t)dw.count * sizeof(float)), 0);
    free_pair(&dw);
    free_image(&image);
    ls_device_close(device);
}

TEST_EACH(a_bias_is_optional, SHAPE_COUNT) {
    struct ls_device *device = open_device();
    struct image image = make_image(&shapes[_i], false);
    struct ls_op forward = image_op(&image, LS_OP_CONVOLUTION_FORWARD);
    struct ls_op backward = image_op(&image, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS);
    forward.tensors[LS_ARG_B] = backward.tensors[LS_ARG_DB] = (struct ls_tensor){0};
    point(&image);
    image.oracle.b = NULL;
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    reference_convolution_forward(&image.oracle);
    reference_convolution_backward(&image.oracle);
    assert_pair("y", &image.y);
    assert_pair("dw", &image.dw);
    ck_assert(isnan(image.db.device[0]));
    free_image(&image);
    ls_device_close(device);
}

/* The image of a depthwise convolution is aligned to a float only. */
TEST_EACH(misaligned_images_are_computed, SHAPE_COUNT) {
    if (!is_depthwise(&shapes[_i])) return;
    struct ls_device *device = open_device();
    struct image image = make_image(&shapes[_i], false);
    struct pair moved = make_pair(image.x.count + 1);
    struct ls_op forward = image_op(&image, LS_OP_CONVOLUTION_FORWARD);
    struct ls_op backward = image_op(&image, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS);
    point(&image);
    memcpy(moved.device + 1, image.x.device, (size_t)image.x.count * sizeof(float));
    forward.tensors[LS_ARG_X].data = backward.tensors[LS_ARG_X].data = moved.device + 1;
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    reference_convolution_forward(&image.oracle);
    reference_convolution_backward(&image.oracle);
    assert_pair("y", &image.y);
    assert_pair("dw", &image.dw);
    assert_pair("db", &image.db);
    free_pair(&moved);
    free_image(&image);
    ls_device_close(device);
}

static bool pool_possible(const struct shape *s) {
    return s->before < s->kernel[0] && s->before < s->kernel[1] && s->after < s->kernel[0] && s->after < s->kernel[1];
}

TEST_EACH(pools_equal_the_oracle, 2 * SHAPE_COUNT) {
    const struct shape *shape = &shapes[_i / 2];
    if (!pool_possible(shape)) return;
    struct ls_device *device = open_device();
    struct image image = make_image(shape, true);
    struct ls_op forward = image_op(&image, LS_OP_POOL_FORWARD), backward = image_op(&image, LS_OP_POOL_BACKWARD);
    point(&image);
    image.oracle.maximum = _i % 2 == 0;
    forward.pool = backward.pool = image.oracle.maximum ? LS_POOL_MAX : LS_POOL_AVERAGE;
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    reference_pool_forward(&image.oracle);
    reference_pool_backward(&image.oracle);
    assert_pair("y", &image.y);
    assert_pair("dx", &image.dx);
    free_image(&image);
    ls_device_close(device);
}

/* All equal: the first element of each window gets the gradient. */
TEST(the_first_of_equal_maxima_gets_the_gradient) {
    static const struct shape shape = {1, {4, 4}, 2, 2, 1, {2, 2}, 2, 1, 0, 0};
    struct ls_device *device = open_device();
    struct image image = make_image(&shape, true);
    struct ls_op forward = image_op(&image, LS_OP_POOL_FORWARD), backward = image_op(&image, LS_OP_POOL_BACKWARD);
    for (int64_t i = 0; i < image.x.count; i++) image.x.device[i] = 3;
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    for (int64_t i = 0; i < image.x.count; i++) {
        int64_t h = i / 8, w = i / 2 % 4, c = i % 2;
        float wanted = h % 2 || w % 2 ? 0 : image.dy.device[(h / 2 * 2 + w / 2) * 2 + c];
        ck_assert(image.dx.device[i] == wanted);
    }
    free_image(&image);
    ls_device_close(device);
}

/* ---- the oracle itself ---- */

typedef void image_fn(const struct reference_image *image);

static double value(const struct image *image, image_fn *forward) {
    double sum = 0;
    forward(&image->oracle);
    for (int64_t i = 0; i < image->y.count; i++) sum += image->y.oracle[i] * image->dy.oracle[i];
    return sum;
}

static void check_slopes(const struct image *image, image_fn *forward, double *at, const struct pair *gradient) {
    for (int64_t i = 0; i < gradient->count; i += 1 + gradient->count / 20) {
        double held = at[i];
        at[i] = held + 1e-6;
        double above = value(image, forward);
        at[i] = held - 1e-6;
        double below = value(image, forward);
        at[i] = held;
        ck_assert_double_le(fabs((above - below) / 2e-6 - gradient->oracle[i]), 1e-6);
    }
}

TEST_EACH(the_oracles_convolution_agrees_with_differences, SANITIZED ? 1 : SHAPE_COUNT - 1) {
    struct image image = make_image(&shapes[_i], false);
    point(&image);
    reference_convolution_backward(&image.oracle);
    check_slopes(&image, reference_convolution_forward, image.x.oracle, &image.dx);
    check_slopes(&image, reference_convolution_forward, image.w.oracle, &image.dw);
    check_slopes(&image, reference_convolution_forward, image.b.oracle, &image.db);
    free_image(&image);
}

TEST_EACH(the_oracles_pool_agrees_with_differences, 2 * (SANITIZED ? 1 : SHAPE_COUNT - 1)) {
    const struct shape *shape = &shapes[_i / 2];
    if (!pool_possible(shape)) return;
    struct image image = make_image(shape, true);
    point(&image);
    image.oracle.maximum = _i % 2 == 0;
    reference_pool_backward(&image.oracle);
    check_slopes(&image, reference_pool_forward, image.x.oracle, &image.dx);
    free_image(&image);
}

/* ---- bits, and errors ---- */

static struct image run_all(struct ls_device *device, const struct shape *shape, int threads) {
    struct image image = make_image(shape, false);
    omp_set_num_threads(threads);
    for (int kind = LS_OP_CONVOLUTION_FORWARD; kind <= LS_OP_CONVOLUTION_BACKWARD_WEIGHTS; kind++)
        run_kind(device, &image, (enum ls_op_kind)kind);
    return image;
}

TEST_EACH(another_run_gives_the_same_bits, SHAPE_COUNT) {
    for (int threads = 1; threads <= 2; threads++) {
        struct ls_device *device = open_device();
        struct image first = run_all(device, &shapes[_i], threads), second = run_all(device, &shapes[_i], threads);
        ck_assert_int_eq(memcmp(first.y.device, second.y.device, (size_t)first.y.count * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(first.dx.device, second.dx.device, (size_t)first.dx.count * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(first.dw.device, second.dw.device, (size_t)first.dw.count * sizeof(float)), 0);
        free_image(&first);
        free_image(&second);
        ls_device_close(device);
    }
}

TEST(misuse_is_named) {
    struct ls_device *device = open_device();
    struct image image = make_image(&shapes[3], false);
    struct ls_op good = image_op(&image, LS_OP_CONVOLUTION_FORWARD), op = good;
    op.tensors[LS_ARG_Y].shape.dims[1]++;
    assert_refused(device->ops->build(device, &op),
                   "convolution forward: argument y has shape (2, 4, 2, 16), but must");
    op = good;
    op.window.strides[1] = 0;
    assert_refused(device->ops->build(device, &op), "the window is impossible along axis 2");
    op = good;
    op.window.groups = 2;
    assert_refused(device->ops->build(device, &op), "2 groups do not divide 3 channels");
    op = good;
    op.tensors[LS_ARG_W].shape.dims[0] = 2;
    assert_refused(device->ops->build(device, &op), "argument w has shape (2, 3, 3, 16), but must have (3, 3, 3, 16)");
    op = image_op(&image, LS_OP_DEPTHWISE_BACKWARD);
    assert_refused(device->ops->build(device, &op), "depthwise backward: 1 groups are not the 3 channels");
    op = image_op(&image, LS_OP_POOL_FORWARD);
    op.window.before[0] = 3;
    assert_refused(device->ops->build(device, &op), "pool forward: the window is impossible along axis 1");
    free_image(&image);
    ls_device_close(device);
}

TESTS("image", .seconds = 60)
