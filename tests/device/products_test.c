/* Dense layers and convolutions on a GPU, a real or the emulated one, as only a GPU has them: in 16 bits, in TF32 and
 * in any order, against the oracle on inputs that are rounded alike. The other tests compare float32. */
#include "base/half.h"
#include "device/gpu.h"
#include "device/op_fixture.h"
#include "device/reference.h"
#include "device/reference_image.h"
#include "harness.h"

/* A tensor on the device, and its numbers in double for the oracle, rounded to its type. */
struct numbers {
    void *memory;
    ls_dtype dtype;
    double *oracle;
    int64_t count;
};

static size_t bytes_of(ls_dtype dtype) {
    return dtype == LS_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

static uint16_t to_bits(float value, ls_dtype dtype) {
    return dtype == LS_BFLOAT16 ? ls_half_bfloat16_from_float(value) : ls_half_from_float(value);
}

static float from_bits(uint16_t bits, ls_dtype dtype) {
    return dtype == LS_BFLOAT16 ? ls_half_bfloat16_to_float(bits) : ls_half_to_float(bits);
}

static void *pack(const double *values, ls_dtype dtype, int64_t count) {
    float *singles = ls_alloc((size_t)count * sizeof(float));
    uint16_t *halves = (uint16_t *)(void *)singles;
    ck_assert_ptr_nonnull(singles);
    for (int64_t i = 0; i < count; i++)
        if (dtype == LS_FLOAT32)
            singles[i] = (float)values[i];
        else
            halves[i] = to_bits((float)values[i], dtype);
    return singles;
}

/* Random ones for a stream above 0, else no numbers, which must be overwritten. */
static struct numbers make_numbers(struct ls_device *device, ls_dtype dtype, uint64_t stream, int64_t count) {
    struct numbers made = {NULL, dtype, ls_alloc((size_t)count * sizeof(double)), count};
    ck_assert_ptr_nonnull(made.oracle);
    for (int64_t i = 0; i < count; i++) {
        float value = stream ? (float)ls_random_normal(7, stream, (uint64_t)i) : NAN;
        made.oracle[i] = (double)(dtype == LS_FLOAT32 ? value : from_bits(to_bits(value, dtype), dtype));
    }
    void *packed = pack(made.oracle, dtype, count);
    assert_ok(device->ops->allocate(device, (size_t)count * bytes_of(dtype), &made.memory));
    assert_ok(device->ops->copy_in(device, made.memory, packed, (size_t)count * bytes_of(dtype)));
    ls_free(packed);
    return made;
}

static void free_numbers(struct ls_device *device, struct numbers *numbers) {
    device->ops->release(device, numbers->memory);
    ls_free(numbers->oracle);
}

static double *fetch(struct ls_device *device, const struct numbers *numbers) {
    size_t size = (size_t)numbers->count * bytes_of(numbers->dtype);
    float *singles = ls_alloc(size);
    const uint16_t *halves = (const uint16_t *)(const void *)singles;
    double *made = ls_alloc((size_t)numbers->count * sizeof(double));
    ck_assert(singles && made);
    assert_ok(device->ops->copy_out(device, singles, numbers->memory, size));
    for (int64_t i = 0; i < numbers->count; i++)
        made[i] = (double)(numbers->dtype == LS_FLOAT32 ? singles[i] : from_bits(halves[i], numbers->dtype));
    ls_free(singles);
    return made;
}

/* tolerance: of the largest magnitude. */
static void assert_near(struct ls_device *device, const char *what, const struct numbers *numbers, double tolerance) {
    double *values = fetch(device, numbers), largest = 0;
    for (int64_t i = 0; i < numbers->count; i++) largest = fmax(largest, fabs(numbers->oracle[i]));
    for (int64_t i = 0; i < numbers->count; i++)
        if (!(fabs(values[i] - numbers->oracle[i]) <= tolerance * largest))
            ck_abort_msg("%s[%lld] is %.9g, but must be %.9g", what, (long long)i, values[i], numbers->oracle[i]);
    ls_free(values);
}

static struct ls_tensor at(const struct numbers *numbers, ls_shape shape) {
    return (struct ls_tensor){.data = numbers->memory, .dtype = numbers->dtype, .shape = shape};
}

/* It holds no numbers, is as large as the op wants, and not better aligned than tensors are. */
static struct numbers make_workspace(struct ls_device *device, struct ls_op *op) {
    int64_t shift = LS_ALIGNMENT / sizeof(float), count = (int64_t)(op->workspace_size / sizeof(float));
    struct numbers made = make_numbers(device, LS_FLOAT32, 0, shift + count);
    op->workspace = (float *)made.memory + shift;
    return made;
}

/* Builds, runs and discards. */
static void run_on(struct ls_device *device, struct ls_op *op) {
    assert_ok(device->ops->build(device, op));
    struct numbers workspace = make_workspace(device, op);
    assert_ok(op->run(op));
    assert_ok(ls_device_synchronize(device));
    device->ops->discard(device, op);
    free_numbers(device, &workspace);
}

/* The largest errors of a type's results. 16 bits are rounded once or twice, and sums of their products are float32. */
static const struct kind {
    ls_dtype dtype;
    bool tf32, nondeterministic;
    double stored, summed;
} kinds[] = {{LS_BFLOAT16, false, false, 1e-2, 1e-5}, {LS_FLOAT16, false, false, 2e-3, 1e-5},
             {LS_FLOAT32, true, false, 2e-3, 2e-3},   {LS_BFLOAT16, false, true, 1e-2, 1e-5},
             {LS_FLOAT32, false, true, 1e-5, 1e-5},   {LS_FLOAT32, false, false, 1e-5, 1e-5}};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* ---- dense ---- */

static const struct size {
    int64_t rows, in, out;
    bool relu;
} sizes[] = {{3, 1030, 5, false}, {33, 64, 24, false}, {33, 64, 24, true}, {4, 100, 10, false}, {7, 5, 3, true},
             {1, 9, 6, false},    {6, 200, 1, false},  {300, 8, 7, true},  {1100, 8, 16, true}};
#define SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

enum { X, W, B, Y, DY, DX, DW, DB, TENSORS };

static void make_dense(struct ls_device *device, const struct size *s, ls_dtype type, struct numbers made[TENSORS]) {
    made[X] = make_numbers(device, type, 1, s->rows * s->in);
    made[W] = make_numbers(device, type, 2, s->in * s->out);
    made[B] = make_numbers(device, LS_FLOAT32, 3, s->out);
    made[Y] = make_numbers(device, type, 0, s->rows * s->out);
    made[DY] = make_numbers(device, type, 4, s->rows * s->out);
    made[DX] = make_numbers(device, type, 0, s->rows * s->in);
    made[DW] = make_numbers(device, LS_FLOAT32, 0, s->in * s->out);
    made[DB] = make_numbers(device, LS_FLOAT32, 0, s->out);
}

static struct ls_op dense_op(const struct size *s, const struct numbers n[TENSORS], enum ls_op_kind kind,
                             const struct kind *way) {
    struct ls_op op = {.kind = kind,
                       .activation = s->relu ? LS_RELU : LS_LINEAR,
                       .tf32 = way->tf32,
                       .nondeterministic = way->nondeterministic};
    op.tensors[LS_ARG_X] = at(&n[X], LS_SHAPE(s->rows, s->in));
    op.tensors[LS_ARG_W] = at(&n[W], LS_SHAPE(s->in, s->out));
    op.tensors[LS_ARG_B] = at(&n[B], LS_SHAPE(s->out));
    op.tensors[LS_ARG_Y] = at(&n[Y], LS_SHAPE(s->rows, s->out));
    op.tensors[LS_ARG_DY] = at(&n[DY], LS_SHAPE(s->rows, s->out));
    op.tensors[LS_ARG_DX] = at(&n[DX], LS_SHAPE(s->rows, s->in));
    op.tensors[LS_ARG_DW] = at(&n[DW], LS_SHAPE(s->in, s->out));
    op.tensors[LS_ARG_DB] = at(&n[DB], LS_SHAPE(s->out));
    return op;
}

TEST_EACH(dense_layers_equal_the_oracle, (SIZES * KINDS)) {
    const struct size *s = &sizes[_i / KINDS];
    const struct kind *kind = &kinds[_i % KINDS];
    struct ls_device *device = open_device();
    struct numbers n[TENSORS];
    make_dense(device, s, kind->dtype, n);
    struct reference_dense oracle = {s->rows,     s->in,       s->out,       s->relu,      n[X].oracle,  n[W].oracle,
                                     n[B].oracle, n[Y].oracle, n[DY].oracle, n[DX].oracle, n[DW].oracle, n[DB].oracle};
    struct ls_op forward = dense_op(s, n, LS_OP_DENSE_FORWARD, kind);
    struct ls_op backward = dense_op(s, n, LS_OP_DENSE_BACKWARD, kind);
    run_on(device, &forward);
    reference_dense_forward(&oracle);
    assert_near(device, "y", &n[Y], kind->stored);
    double *y = fetch(device, &n[Y]);
    memcpy(n[Y].oracle, y, (size_t)n[Y].count * sizeof(double)); /* the same mask near 0 */
    ls_free(y);
    run_on(device, &backward);
    reference_dense_backward(&oracle);
    assert_near(device, "dx", &n[DX], kind->stored);
    assert_near(device, "dw", &n[DW], kind->summed);
    assert_near(device, "db", &n[DB], 1e-5);
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    ls_device_close(device);
}

/* ---- convolutions ---- */

/* Of one position; of three channels, padded unevenly and strided; of groups; dilated; with gaps between windows; each
 * channel by itself; of groups that cuDNN may not have: of three channels, dilated and strided, of one filter; of four
 * channels and filters that it may not have over squares. Of those that are products over windows: strided over one
 * position, with padding too; of many filters. */
static const struct shape {
    int64_t rows, size[2], channels, filters, groups, kernel[2], stride, dilation, before, after;
} shapes[] = {
    {2, {5, 4}, 24, 16, 1, {1, 1}, 1, 1, 0, 0},  {2, {5, 4}, 7, 5, 1, {1, 1}, 1, 1, 0, 0},
    {2, {8, 6}, 3, 16, 1, {3, 3}, 2, 1, 0, 1},   {1, {9, 7}, 17, 33, 1, {3, 3}, 1, 1, 1, 1},
    {2, {6, 6}, 8, 12, 4, {3, 3}, 1, 1, 1, 1},   {1, {11, 9}, 6, 5, 1, {3, 3}, 1, 2, 2, 2},
    {2, {9, 9}, 4, 6, 1, {3, 3}, 2, 2, 2, 2},    {1, {7, 7}, 4, 4, 1, {2, 2}, 3, 1, 1, 0},
    {1, {4, 4}, 40, 36, 1, {3, 3}, 1, 1, 1, 1},  {2, {7, 6}, 16, 16, 16, {3, 3}, 2, 1, 0, 1},
    {2, {6, 5}, 9, 6, 3, {3, 3}, 1, 1, 1, 1},    {2, {9, 9}, 16, 24, 2, {3, 3}, 2, 2, 2, 2},
    {1, {5, 5}, 6, 2, 2, {2, 2}, 1, 1, 0, 1},    {2, {8, 6}, 4, 5, 1, {3, 3}, 2, 1, 0, 1},
    {2, {7, 6}, 8, 20, 1, {1, 1}, 2, 1, 0, 0},   {1, {6, 5}, 5, 7, 1, {1, 1}, 3, 1, 1, 0},
    {2, {6, 5}, 12, 128, 1, {3, 3}, 1, 1, 1, 1}, {1, {5, 7}, 3, 256, 1, {3, 2}, 2, 1, 0, 1},
};
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static int64_t positions(const struct shape *s, int axis) {
    return (s->size[axis] + s->before + s->after - (s->kernel[axis] - 1) * s->dilation - 1) / s->stride + 1;
}

static void make_images(struct ls_device *device, const struct shape *s, ls_dtype type, struct numbers made[TENSORS]) {
    int64_t in = s->rows * s->size[0] * s->size[1] * s->channels;
    int64_t out = s->rows * positions(s, 0) * positions(s, 1) * s->filters;
    int64_t kernel = s->kernel[0] * s->kernel[1] * s->channels / s->groups * s->filters;
    made[X] = make_numbers(device, type, 1, in);
    made[W] = make_numbers(device, type, 2, kernel);
    made[B] = make_numbers(device, LS_FLOAT32, 3, s->filters);
    made[Y] = make_numbers(device, type, 0, out);
    made[DY] = make_numbers(device, type, 4, out);
    made[DX] = make_numbers(device, type, 0, in);
    made[DW] = make_numbers(device, LS_FLOAT32, 0, kernel);
    made[DB] = make_numbers(device, LS_FLOAT32, 0, s->filters);
}

static struct ls_op image_op(const struct shape *s, const struct numbers n[TENSORS], enum ls_op_kind kind,
                             const struct kind *way) {
    ls_shape in = LS_SHAPE(s->rows, s->size[0], s->size[1], s->channels);
    ls_shape out = LS_SHAPE(s->rows, positions(s, 0), positions(s, 1), s->filters);
    ls_shape kernel = LS_SHAPE(s->kernel[0], s->kernel[1], s->channels / s->groups, s->filters);
    struct ls_op op = {.kind = kind,
                       .tf32 = way->tf32,
                       .nondeterministic = way->nondeterministic,
                       .window = {{s->kernel[0], s->kernel[1]},
                                  {s->stride, s->stride},
                                  {s->dilation, s->dilation},
                                  {s->before, s->before},
                                  {s->after, s->after},
                                  s->groups}};
    op.tensors[LS_ARG_X] = at(&n[X], in);
    op.tensors[LS_ARG_W] = at(&n[W], kernel);
    op.tensors[LS_ARG_B] = at(&n[B], LS_SHAPE(s->filters));
    op.tensors[LS_ARG_Y] = at(&n[Y], out);
    op.tensors[LS_ARG_DY] = at(&n[DY], out);
    op.tensors[LS_ARG_DX] = at(&n[DX], in);
    op.tensors[LS_ARG_DW] = at(&n[DW], kernel);
    op.tensors[LS_ARG_DB] = at(&n[DB], LS_SHAPE(s->filters));
    return op;
}

static struct reference_image image_oracle(const struct shape *s, const struct numbers n[TENSORS]) {
    return (struct reference_image){.rows = s->rows,
                                    .size = {s->size[0], s->size[1]},
                                    .channels = s->channels,
                                    .filters = s->filters,
                                    .groups = s->groups,
                                    .kernel = {s->kernel[0], s->kernel[1]},
                                    .strides = {s->stride, s->stride},
                                    .dilation = {s->dilation, s->dilation},
                                    .before = {s->before, s->before},
                                    .out = {positions(s, 0), positions(s, 1)},
                                    .x = n[X].oracle,
                                    .w = n[W].oracle,
                                    .b = n[B].oracle,
                                    .y = n[Y].oracle,
                                    .dy = n[DY].oracle,
                                    .dx = n[DX].oracle,
                                    .dw = n[DW].oracle,
                                    .db = n[DB].oracle};
}

/* On every tensor, against the oracle. */
static void check_convolution(const struct shape *s, const struct kind *kind) {
    struct ls_device *device = open_device();
    struct numbers n[TENSORS];
    make_images(device, s, kind->dtype, n);
    struct reference_image oracle = image_oracle(s, n);
    for (int k = LS_OP_CONVOLUTION_FORWARD; k <= LS_OP_CONVOLUTION_BACKWARD_WEIGHTS; k++) {
        struct ls_op op = image_op(s, n, (enum ls_op_kind)k, kind);
        run_on(device, &op);
    }
    reference_convolution_forward(&oracle);
    reference_convolution_backward(&oracle);
    assert_near(device, "y", &n[Y], kind->stored);
    assert_near(device, "dx", &n[DX], kind->stored);
    assert_near(device, "dw", &n[DW], kind->stored); /* cuDNN's comes in the images' type */
    assert_near(device, "db", &n[DB], 1e-5);
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    ls_device_close(device);
}

TEST_EACH(convolutions_equal_the_oracle, (SHAPES * KINDS)) {
    check_convolution(&shapes[_i / KINDS], &kinds[_i % KINDS]);
}

/* The first convolutions of networks, over squares of the image: of even and odd sizes, with `same` and `valid` padding
 * and with one that only comes first. */
#define FIRST_CHANNELS 4
#define FIRST_KERNELS  4
TEST_EACH(first_convolutions_equal_the_oracle, (FIRST_KERNELS * FIRST_CHANNELS * KINDS)) {
    static const int64_t kernels[FIRST_KERNELS][2] = {{3, 3}, {5, 5}, {7, 7}, {2, 5}};
    static const int64_t all[][2] = {{8, 12}, {9, 7}, {10, 9}};
    const int64_t *kernel = kernels[_i / KINDS / FIRST_CHANNELS], channels = _i / KINDS % FIRST_CHANNELS + 1;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int64_t same = kernel[0] - 2 + all[i][0] % 2; /* of both sides */
        const int64_t pads[][2] = {{0, 0}, {same / 2, same - same / 2}, {1, 0}};
        for (size_t p = 0; p < sizeof(pads) / sizeof(pads[0]); p++) {
            const struct shape s = {
                2, {all[i][0], all[i][1]}, channels, 6, 1, {kernel[0], kernel[1]}, 2, 1, pads[p][0], pads[p][1]};
            check_convolution(&s, &kinds[_i % KINDS]);
        }
    }
}

/* ---- what is promised beside numbers ---- */

static void clear(struct ls_device *device, const struct numbers *numbers) {
    size_t size = (size_t)numbers->count * bytes_of(numbers->dtype);
    void *zeros = ls_alloc(size);
    ck_assert_ptr_nonnull(zeros);
    assert_ok(device->ops->copy_in(device, numbers->memory, zeros, size));
    ls_free(zeros);
}

/* Frees wanted. */
static void assert_bits(struct ls_device *device, const char *what, const struct numbers *numbers, double *wanted) {
    double *values = fetch(device, numbers);
    if (memcmp(values, wanted, (size_t)numbers->count * sizeof(double))) ck_abort_msg("%s has other bits", what);
    ls_free(values);
    ls_free(wanted);
}

/* That one; all are freed. */
static double *fetch_of(struct ls_device *device, struct numbers n[TENSORS], int which) {
    double *made = fetch(device, &n[which]);
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    return made;
}

/* Which results: of dense layers y, of convolutions dx. The first size is too deep for a GPU's kernels of small layers.
 */
static double *dense_again(struct ls_device *device, const struct kind *way) {
    const struct size *s = &sizes[0];
    struct numbers n[TENSORS];
    make_dense(device, s, LS_FLOAT32, n);
    struct ls_op op = dense_op(s, n, LS_OP_DENSE_FORWARD, way);
    run_on(device, &op);
    return fetch_of(device, n, Y);
}

static double *image_again(struct ls_device *device, const struct kind *way) {
    const struct shape *s = &shapes[3];
    struct numbers n[TENSORS];
    make_images(device, s, LS_FLOAT32, n);
    struct ls_op op = image_op(s, n, LS_OP_CONVOLUTION_BACKWARD_DATA, way);
    run_on(device, &op);
    return fetch_of(device, n, DX);
}

static bool same_again(bool images, const struct kind *first, const struct kind *second) {
    struct ls_device *device = open_device();
    double *(*again)(struct ls_device * device, const struct kind *way) = images ? image_again : dense_again;
    const struct shape *s = &shapes[3];
    size_t count = (size_t)(images ? s->rows * s->size[0] * s->size[1] * s->channels : sizes[0].rows * sizes[0].out);
    double *a = again(device, first), *b = again(device, second);
    bool same = !memcmp(a, b, count * sizeof(double));
    ls_free(a);
    ls_free(b);
    ls_device_close(device);
    return same;
}

static const struct kind plain = {.dtype = LS_FLOAT32}, rounded = {.dtype = LS_FLOAT32, .tf32 = true},
                         any_order = {.dtype = LS_FLOAT32, .nondeterministic = true};

/* Equal bits again, and others in TF32: float32 is not rounded unasked. */
TEST_EACH(float32_is_not_rounded_unasked, 2) {
    ck_assert(same_again(_i, &plain, &plain));
    ck_assert(!same_again(_i, &plain, &rounded));
}

/* The emulated libraries name algorithms first whose bits vary at each run; a GPU's may vary. */
TEST_EACH(unordered_sums_may_vary, 2) {
    char text[256];
    ls_gpu_kind.describe(text, sizeof(text));
    if (strstr(text, "emulated")) ck_assert(!same_again(_i, &any_order, &any_order));
}

/* A list of products, captured and replayed, gives the bits that they give one by one. */
TEST_EACH(captured_products_give_the_same_bits, SHAPES) {
    const struct shape *s = &shapes[_i];
    struct ls_device *device = open_device();
    struct numbers n[TENSORS], workspaces[3];
    struct ls_op ops[3];
    struct ls_program *program = NULL;
    make_images(device, s, LS_BFLOAT16, n);
    for (int k = 0; k < 3; k++) {
        ops[k] = image_op(s, n, (enum ls_op_kind)(LS_OP_CONVOLUTION_FORWARD + k), &plain);
        assert_ok(device->ops->build(device, &ops[k]));
        workspaces[k] = make_workspace(device, &ops[k]);
        assert_ok(ops[k].run(&ops[k]));
    }
    double *y = fetch(device, &n[Y]), *dx = fetch(device, &n[DX]), *dw = fetch(device, &n[DW]);
    assert_ok(device->ops->compile(device, (const struct ls_op *[]){&ops[0], &ops[1], &ops[2]}, 3, &program));
    clear(device, &n[Y]), clear(device, &n[DX]), clear(device, &n[DW]);
    for (int again = 0; again < 2; again++) assert_ok(program->run(program));
    assert_bits(device, "y", &n[Y], y), assert_bits(device, "dx", &n[DX], dx), assert_bits(device, "dw", &n[DW], dw);
    program->drop(program);
    for (int k = 0; k < 3; k++) device->ops->discard(device, &ops[k]), free_numbers(device, &workspaces[k]);
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    ls_device_close(device);
}

TEST(parts_and_large_batches_are_refused) {
    struct ls_device *device = open_device();
    struct numbers n[TENSORS];
    make_images(device, &shapes[2], LS_FLOAT32, n);
    struct ls_op op = image_op(&shapes[2], n, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, &plain);
    op.parts = 2;
    assert_fails(device->ops->build(device, &op), LS_UNIMPLEMENTED,
                 "gpu:0: convolution backward weights: a batch in parts");
    op = image_op(&shapes[2], n, LS_OP_CONVOLUTION_FORWARD, &plain);
    op.tensors[LS_ARG_X].shape.dims[0] = op.tensors[LS_ARG_Y].shape.dims[0] = (int64_t)1 << 31;
    assert_fails(device->ops->build(device, &op), LS_RESOURCE_EXHAUSTED, "make the batch smaller");
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    ls_device_close(device);
}

/* cuDNN takes 2^31 elements at most, products take more. */
TEST(convolutions_of_one_position_are_products) {
    struct ls_device *device = open_device();
    struct numbers n[TENSORS];
    make_images(device, &shapes[0], LS_BFLOAT16, n);
    for (int k = 0; k < 3; k++) {
        struct ls_op op = image_op(&shapes[0], n, (enum ls_op_kind)(LS_OP_CONVOLUTION_FORWARD + k), &plain);
        const int images[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DX, LS_ARG_DY};
        for (int i = 0; i < 4; i++) op.tensors[images[i]].shape.dims[0] = (int64_t)1 << 23;
        op.tensors[LS_ARG_DB].data = NULL; /* its sum has a workspace for each image */
        assert_ok(device->ops->build(device, &op));
        device->ops->discard(device, &op);
    }
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    ls_device_close(device);
}

static size_t workspace_of(struct ls_device *device, const struct shape *s, enum ls_op_kind kind) {
    struct numbers n[TENSORS];
    make_images(device, s, LS_BFLOAT16, n);
    struct ls_op op = image_op(s, n, kind, &plain);
    assert_ok(device->ops->build(device, &op));
    device->ops->discard(device, &op);
    for (int i = 0; i < TENSORS; i++) free_numbers(device, &n[i]);
    return op.workspace_size;
}

/* The plan knows of the squares: a window of 2 x 2 of them, 16 numbers each. The image's gradient has none, nor has a
 * convolution that cuDNN refuses. */
TEST(few_channels_take_room_for_squares) {
    static const struct shape s = {8, {64, 64}, 3, 16, 1, {3, 3}, 2, 1, 0, 1},
                              odd = {8, {64, 64}, 3, 15, 1, {3, 3}, 2, 1, 0, 1};
    const size_t squares = 8 * 33 * 33 * 16 * sizeof(uint16_t);
    struct ls_device *device = open_device();
    char text[256];
    ck_assert_uint_ge(workspace_of(device, &s, LS_OP_CONVOLUTION_FORWARD), squares);
    ck_assert_uint_ge(workspace_of(device, &s, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS), squares);
    ls_gpu_kind.describe(text, sizeof(text));
    if (strstr(text, "emulated")) {
        ck_assert_uint_lt(workspace_of(device, &s, LS_OP_CONVOLUTION_BACKWARD_DATA), squares);
        ck_assert_uint_lt(workspace_of(device, &odd, LS_OP_CONVOLUTION_FORWARD), squares);
        ck_assert_uint_lt(workspace_of(device, &odd, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS), squares);
    }
    ls_device_close(device);
}

TESTS("products", .seconds = 60)
