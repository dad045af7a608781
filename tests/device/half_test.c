/* Ops on images in bfloat16 and float16, on a device that has them, against the CPU's in float32 on the same rounded
 * numbers. Results in 16 bits are rounded once. Results in float32 are as exact as ever. */
#include "base/half.h"
#include "base/shape.h"
#include "device/op_fixture.h"
#include "device/op_layers.h"
#include "harness.h"

#define HALF_TOLERANCE 1e-2 /* of the tensor's largest magnitude */

static const ls_dtype types[] = {LS_BFLOAT16, LS_FLOAT16};

static struct ls_device *open_one(const char *name) {
    struct ls_device *device;
    int count = 0;
    assert_ok(ls_devices_open(name, 1, &device, &count));
    assert_ok(device->ops->enter(device, &(struct ls_thread_state){0}));
    return device;
}

static uint16_t narrow(float value, ls_dtype type) {
    return type == LS_FLOAT16 ? ls_half_from_float(value) : ls_half_bfloat16_from_float(value);
}

static float widen(uint16_t bits, ls_dtype type) {
    return type == LS_FLOAT16 ? ls_half_to_float(bits) : ls_half_bfloat16_to_float(bits);
}

/* ---- an op in 16 bits ---- */

/* A copy of the op's tensors: those at the places (which end with -1) of type, the others float32. */
struct half {
    struct ls_op op;
    ls_dtype type;
};

static bool has(const int *places, int place) {
    while (*places >= 0 && *places != place) places++;
    return *places == place;
}

/* Rounds the op's own numbers too. */
static struct half make_half(const struct ls_op *op, ls_dtype type, const int *places) {
    struct half half = {*op, type};
    for (int t = 0; t < LS_OP_TENSORS; t++) {
        struct ls_tensor *tensor = &half.op.tensors[t];
        float *from = tensor->data;
        if (!from) continue;
        int64_t count = ls_shape_count(&tensor->shape);
        if (has(places, t)) tensor->dtype = type;
        void *made = ls_alloc_aligned((size_t)count * ls_dtype_size(tensor->dtype));
        ck_assert_ptr_nonnull(made);
        tensor->data = made;
        if (!has(places, t)) memcpy(made, from, (size_t)count * sizeof(float));
        for (int64_t i = 0; has(places, t) && i < count; i++) {
            ((uint16_t *)made)[i] = narrow(from[i], type);
            from[i] = widen(((uint16_t *)made)[i], type);
        }
    }
    return half;
}

static double value_at(const struct ls_tensor *tensor, int64_t i) {
    if (tensor->dtype == LS_FLOAT32) return (double)((const float *)tensor->data)[i];
    return (double)widen(((const uint16_t *)tensor->data)[i], tensor->dtype);
}

static void compare(const struct ls_op *op, const struct half *half, int place) {
    const struct ls_tensor *is = &half->op.tensors[place];
    const float *must = op->tensors[place].data;
    double largest = 0, tolerance = is->dtype == LS_FLOAT32 ? TOLERANCE : HALF_TOLERANCE;
    int64_t count = must ? ls_shape_count(&is->shape) : 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)must[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(value_at(is, i) - (double)must[i]) <= tolerance * largest))
            ck_abort_msg("%s in %s: argument %d, element %lld is %.9g, but must be %.9g", ls_op_name(op->kind),
                         ls_dtype_name(half->type), place, (long long)i, value_at(is, i), (double)must[i]);
}

/* Runs the op on the CPU, and in 16 bits on the device under test. */
static void check(const struct ls_op *op, ls_dtype type, const int *places) {
    struct ls_device *cpu = open_one("cpu:0"), *device = open_device();
    struct ls_op plain = *op;
    struct half half = make_half(op, type, places);
    assert_ok(run_op(device, &half.op));
    assert_ok(run_op(cpu, &plain));
    for (int t = 0; t < LS_OP_TENSORS; t++) {
        compare(op, &half, t);
        ls_free(half.op.tensors[t].data);
    }
    ls_device_close(device);
    ls_device_close(cpu);
}

/* ---- batch norm ---- */

static const struct size {
    int64_t rows, channels;
} sizes[] = {{49, 16}, {300, 5}, {1000, 40}, {40, 1280}, {100, 8}, {4099, 8}, {1371, 24}, {1000, 33}};
#define SIZE_COUNT ((int)(sizeof(sizes) / sizeof(sizes[0])))
static const int norm_places[] = {LS_ARG_X, LS_ARG_R, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, LS_ARG_DR, -1};

enum { IMAGES = 6, VECTORS = 8 };
struct norm {
    struct ls_op op; /* forward, but for what kinds take away and add */
    float scale;
    struct pair images[IMAGES], vectors[VECTORS], saved, shifts;
};

static void make_norm(struct norm *n, struct size size, bool residual) {
    static const int vectors[VECTORS] = {LS_ARG_GAMMA, LS_ARG_BETA,      LS_ARG_MEAN,   LS_ARG_VARIANCE,
                                         LS_ARG_DMEAN, LS_ARG_DVARIANCE, LS_ARG_DGAMMA, LS_ARG_DBETA};
    int64_t rows = size.rows, channels = size.channels;
    *n = (struct norm){.op = {.activation = LS_RELU6, .epsilon = 0.001F, .momentum = 0.9F},
                       .scale = 1 / (float)rows,
                       .saved = make_zeros(2 * channels),
                       .shifts = make_zeros(2 * channels)};
    n->op.scale = &n->scale;
    for (int i = 0; i < IMAGES; i++) {
        n->images[i] = make_random((uint64_t)i, rows * channels);
        n->op.tensors[norm_places[i]] = tensor(&n->images[i], LS_SHAPE(rows, channels));
    }
    for (int i = 0; i < VECTORS; i++) {
        n->vectors[i] = make_random(9 + (uint64_t)i, channels);
        n->op.tensors[vectors[i]] = tensor(&n->vectors[i], LS_SHAPE(channels));
    }
    for (int64_t c = 0; c < channels; c++) n->vectors[3].device[c] *= n->vectors[3].device[c];
    for (int64_t i = 0; i < rows * channels; i++) n->images[0].device[i] += 3;
    n->op.tensors[LS_ARG_SAVED] = tensor(&n->saved, LS_SHAPE(2, channels));
    n->op.tensors[LS_ARG_SHIFTS] = tensor(&n->shifts, LS_SHAPE(2, channels));
    if (!residual) n->op.tensors[LS_ARG_R].data = n->op.tensors[LS_ARG_DR].data = NULL;
}

static void free_norm(struct norm *n) {
    for (int i = 0; i < IMAGES; i++) free_pair(&n->images[i]);
    for (int i = 0; i < VECTORS; i++) free_pair(&n->vectors[i]);
    free_pair(&n->saved), free_pair(&n->shifts);
}

TEST_EACH(batch_normalization_is_near_float32, 2 * SIZE_COUNT) {
    static const enum ls_op_kind kinds[] = {LS_OP_BATCH_NORM_FORWARD, LS_OP_BATCH_NORM_AGAIN,
                                            LS_OP_BATCH_NORM_BACKWARD};
    struct norm n;
    for (int residual = 0; residual < 2; residual++) {
        make_norm(&n, sizes[_i / 2], residual);
        for (int k = 0; k < 3; k++) { /* each with what the CPU made in the one before */
            n.op.kind = kinds[k];
            check(&n.op, types[_i % 2], norm_places);
        }
        n.op.kind = LS_OP_BATCH_NORM_BACKWARD_DATA;
        n.op.tensors[LS_ARG_DR].data = NULL;
        check(&n.op, types[_i % 2], norm_places);
        n.op.kind = LS_OP_BATCH_NORM_INFERENCE;
        check(&n.op, types[_i % 2], norm_places);
        free_norm(&n);
    }
}

/* ---- windows ---- */

static const struct shape {
    int64_t rows, size[2], channels, filters, kernel, stride, dilation, before, after;
} shapes[] = {
    {2, {9, 7}, 16, 16, 3, 1, 1, 1, 1}, {2, {7, 8}, 24, 24, 3, 2, 1, 0, 1},  {1, {5, 6}, 13, 13, 3, 1, 1, 1, 1},
    {1, {8, 8}, 8, 8, 5, 1, 2, 4, 4},   {2, {6, 5}, 8, 16, 3, 2, 1, 1, 1},   {2, {7, 7}, 40, 40, 7, 1, 1, 0, 0},
    {3, {6, 6}, 12, 12, 2, 2, 1, 0, 0}, {2, {5, 14}, 24, 24, 3, 1, 1, 1, 1}, {1, {7, 8}, 40, 40, 3, 1, 1, 1, 1},
    {1, {9, 21}, 8, 8, 3, 1, 1, 0, 2},  {2, {7, 9}, 24, 24, 3, 2, 1, 1, 1},  {1, {13, 8}, 40, 40, 3, 2, 1, 0, 1},
    {1, {5, 16}, 8, 8, 3, 2, 1, 1, 1},  {1, {2, 3}, 8, 8, 3, 2, 1, 3, 3},    {1, {3, 4}, 24, 24, 3, 1, 1, 3, 0}};
#define SHAPE_COUNT ((int)(sizeof(shapes) / sizeof(shapes[0])))
static const int image_places[] = {LS_ARG_X, LS_ARG_W, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, -1};

struct image {
    struct ls_op op;
    struct pair x, w, b, y, dy, dx, dw, db;
};

/* Pools have as many filters as channels, which are in a window by themselves. */
static void make_image(struct image *i, const struct shape *s, int64_t filters) {
    struct ls_window *w = &i->op.window;
    i->op = (struct ls_op){.window = {{s->kernel, s->kernel},
                                      {s->stride, s->stride},
                                      {s->dilation, s->dilation},
                                      {s->before, s->before},
                                      {s->after, s->after},
                                      s->channels}};
    ls_shape in = LS_SHAPE(s->rows, s->size[0], s->size[1], s->channels), out = in;
    for (int axis = 0; axis < 2; axis++) out.dims[axis + 1] = ls_op_layers_positions(w, axis, s->size[axis]);
    out.dims[3] = filters;
    ls_shape kernel = LS_SHAPE(s->kernel, s->kernel, 1, filters);
    i->x = make_random(1, ls_shape_count(&in)), i->dx = make_zeros(ls_shape_count(&in));
    i->y = make_zeros(ls_shape_count(&out)), i->dy = make_random(2, ls_shape_count(&out));
    i->w = make_random(3, ls_shape_count(&kernel)), i->dw = make_zeros(ls_shape_count(&kernel));
    i->b = make_random(4, filters), i->db = make_zeros(filters);
    i->op.tensors[LS_ARG_X] = tensor(&i->x, in), i->op.tensors[LS_ARG_DX] = tensor(&i->dx, in);
    i->op.tensors[LS_ARG_Y] = tensor(&i->y, out), i->op.tensors[LS_ARG_DY] = tensor(&i->dy, out);
    i->op.tensors[LS_ARG_W] = tensor(&i->w, kernel), i->op.tensors[LS_ARG_DW] = tensor(&i->dw, kernel);
    i->op.tensors[LS_ARG_B] = tensor(&i->b, LS_SHAPE(filters));
    i->op.tensors[LS_ARG_DB] = tensor(&i->db, LS_SHAPE(filters));
}

static void free_image(struct image *i) {
    struct pair *pairs[] = {&i->x, &i->w, &i->b, &i->y, &i->dy, &i->dx, &i->dw, &i->db};
    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) free_pair(pairs[p]);
}

TEST_EACH(depthwise_convolutions_are_near_float32, 2 * SHAPE_COUNT) {
    static const enum ls_op_kind kinds[] = {LS_OP_CONVOLUTION_FORWARD, LS_OP_CONVOLUTION_BACKWARD_DATA,
                                            LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, LS_OP_DEPTHWISE_BACKWARD};
    struct image image;
    make_image(&image, &shapes[_i / 2], shapes[_i / 2].filters);
    for (int k = 0; k < 4; k++) {
        image.op.kind = kinds[k];
        check(&image.op, types[_i % 2], image_places);
    }
    free_image(&image);
}

/* More strips than the threads of all blocks. */
TEST_EACH(a_thread_adds_many_strips_of_a_depthwise_convolution, SANITIZED ? 0 : 2) {
    static const struct shape large[] = {{1, {24, 33}, 2048, 2048, 3, 1, 1, 1, 1},
                                         {2, {48, 34}, 1024, 1024, 3, 2, 1, 0, 1}};
    struct image image;
    make_image(&image, &large[_i], large[_i].filters);
    image.op.kind = LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    check(&image.op, LS_BFLOAT16, image_places);
    free_image(&image);
}

TEST_EACH(pools_are_near_float32, 2 * SHAPE_COUNT) {
    const struct shape *shape = &shapes[_i / 2];
    struct image image;
    if (shape->before >= shape->kernel) return;
    for (int maximum = 0; maximum < 2; maximum++) {
        make_image(&image, shape, shape->channels);
        image.op.pool = maximum ? LS_POOL_MAX : LS_POOL_AVERAGE;
        image.op.kind = LS_OP_POOL_FORWARD;
        check(&image.op, types[_i % 2], image_places);
        image.op.kind = LS_OP_POOL_BACKWARD;
        check(&image.op, types[_i % 2], image_places);
        free_image(&image);
    }
}

TEST_EACH(padding_is_near_float32, 2) {
    static const int64_t channels[] = {16, 3};
    for (int c = 0; c < 2; c++) {
        struct ls_op pad = {.kind = LS_OP_PAD, .window = {{1, 1}, {1, 1}, {1, 1}, {0, 2}, {1, 3}, 1}}, crop = pad;
        ls_shape small = LS_SHAPE(2, 4, 3, channels[c]), large = LS_SHAPE(2, 5, 8, channels[c]);
        struct pair x = make_random(1, ls_shape_count(&small)), y = make_zeros(ls_shape_count(&large));
        struct pair back = make_zeros(x.count);
        crop.kind = LS_OP_CROP;
        pad.tensors[LS_ARG_X] = tensor(&x, small);
        pad.tensors[LS_ARG_Y] = crop.tensors[LS_ARG_X] = tensor(&y, large);
        crop.tensors[LS_ARG_Y] = tensor(&back, small);
        check(&pad, types[_i], image_places);
        check(&crop, types[_i], image_places);
        free_pair(&x), free_pair(&y), free_pair(&back);
    }
}

/* Softmax over 7 columns; a number of elements that no access of 16 bytes divides. */
TEST_EACH(activations_are_near_float32, 2) {
    for (int kind = LS_LINEAR; kind <= LS_SOFTMAX; kind++) {
        const int64_t rows = 43, columns = 7;
        struct pair x = make_random(1, rows * columns), y = make_zeros(x.count);
        struct pair dy = make_random(2, x.count), dx = make_zeros(x.count);
        struct ls_op op = {.kind = LS_OP_ACTIVATION_FORWARD, .activation = (ls_activation)kind, .alpha = 0.3F};
        for (int64_t i = 0; i < x.count; i++) x.device[i] *= 4;
        op.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(rows, columns));
        op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(rows, columns));
        check(&op, types[_i], image_places);
        op.kind = LS_OP_ACTIVATION_BACKWARD;
        op.tensors[LS_ARG_DY] = tensor(&dy, LS_SHAPE(rows, columns));
        op.tensors[LS_ARG_DX] = tensor(&dx, LS_SHAPE(rows, columns));
        check(&op, types[_i], image_places);
        struct pair *pairs[] = {&x, &y, &dy, &dx};
        for (int i = 0; i < 4; i++) free_pair(pairs[i]);
    }
}

TESTS("half", .seconds = 120)
