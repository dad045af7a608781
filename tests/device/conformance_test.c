/* Every kind of op in every type that it takes, on LOCKSTEP_TEST_DEVICE against the CPU, whose own tests are against
 * the oracle. A kind that has no row here fails. On a GPU images and matrices are such that it divides the work; on an
 * emulated one a share of them, which the seed draws, and with LOCKSTEP_TEST_FULL=1 all: the others are small.
 * LOCKSTEP_TEST_SEED=N repeats a run. */
#include <stdio.h>

#include "base/float_bits.h"
#include "base/half.h"
#include "base/shape.h"
#include "device/gpu.h"
#include "device/conformance_sample.h"
#include "device/op_layers.h"
#include "harness.h"

#define HALF_TOLERANCE 1e-2 /* of the tensor's largest magnitude, as TOLERANCE */
#define VARIANTS       6
#define ACTIVATIONS    9 /* variants of their ops */
#define SHARE          8 /* one in so many is large on an emulated GPU */

static uint64_t seed;

/* ---- products and windows ---- */

static void dense(struct sample *s) {
    int64_t rows = sized(s, 9, 256), in = sized(s, 16, 512) + s->variant, out = sized(s, 8, 128) + s->variant % 2;
    s->op.activation = s->variant % 3 ? LS_LINEAR : LS_RELU, s->op.adds = s->variant / 2 % 2;
    give(s, LS_ARG_X, true, LS_SHAPE(rows, in)), give(s, LS_ARG_DX, true, LS_SHAPE(rows, in));
    give(s, LS_ARG_W, true, LS_SHAPE(in, out)), give(s, LS_ARG_DW, false, LS_SHAPE(in, out));
    give(s, LS_ARG_B, false, LS_SHAPE(out)), give(s, LS_ARG_DB, false, LS_SHAPE(out));
    give(s, LS_ARG_Y, true, LS_SHAPE(rows, out)), give(s, LS_ARG_DY, true, LS_SHAPE(rows, out));
}

static ls_shape windows_of(const struct sample *s, ls_shape image, int64_t channels) {
    for (int i = 0; i < 2; i++) image.dims[i + 1] = ls_op_layers_positions(&s->op.window, i, image.dims[i + 1]);
    image.dims[3] = channels;
    return image;
}

/* What MobileNetV2 and ResNet-50 have: 3 by 3, depthwise with stride 2, 1 by 1, the first one; and groups, dilation. */
static void convolution(struct sample *s) {
    static const struct ls_window all[VARIANTS] = {
        {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 0},
        {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, {{7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1},
        {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}, {{3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 1}};
    bool depthwise = s->variant == 1, first = s->variant == 3;
    int64_t size = sized(s, 6, 28), channels = first ? 3 : sized(s, 8, 64),
            filters = depthwise ? channels : sized(s, 8, 64);
    s->op.window = all[s->variant];
    if (depthwise) s->op.window.groups = channels;
    const int64_t *kernel = s->op.window.kernel;
    ls_shape x = LS_SHAPE(sized(s, 2, 8), size, size, channels), y = windows_of(s, x, filters);
    ls_shape w = LS_SHAPE(kernel[0], kernel[1], channels / s->op.window.groups, filters);
    if (s->op.kind != LS_OP_CONVOLUTION_BACKWARD_DATA) give(s, LS_ARG_X, true, x);    /* what a kind does not read */
    if (s->op.kind != LS_OP_CONVOLUTION_BACKWARD_WEIGHTS) give(s, LS_ARG_W, true, w); /* is not there */
    give(s, LS_ARG_DX, true, x), give(s, LS_ARG_DW, false, w);
    give(s, LS_ARG_B, false, LS_SHAPE(filters)), give(s, LS_ARG_DB, false, LS_SHAPE(filters));
    give(s, LS_ARG_Y, true, y), give(s, LS_ARG_DY, true, y);
}

/* 3 by 3 with both strides and both paddings, which have a kernel of their own; 5 by 5, and more filters than channels.
 */
static void depthwise(struct sample *s) {
    static const struct ls_window all[VARIANTS] = {
        {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0}, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 0},
        {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0}, {{5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 0},
        {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0}, {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {2, 2}, 0}};
    int64_t size = sized(s, 7, 28) + s->variant % 2, channels = sized(s, 24, 96), filters = channels;
    if (s->variant == 4) filters *= 2;
    s->op.window = all[s->variant];
    s->op.window.groups = channels;
    ls_shape x = LS_SHAPE(sized(s, 2, 8), size, size + s->variant / 3, channels), y = windows_of(s, x, filters);
    ls_shape w = LS_SHAPE(s->op.window.kernel[0], s->op.window.kernel[1], 1, filters);
    give(s, LS_ARG_X, true, x), give(s, LS_ARG_DX, true, x);
    give(s, LS_ARG_W, true, w), give(s, LS_ARG_DW, false, w);
    give(s, LS_ARG_DY, true, y), give(s, LS_ARG_DB, false, LS_SHAPE(filters));
}

/* Backward y must be what comes of x. */
static void pool(struct sample *s) {
    int64_t size = sized(s, 6, 28), kernel = s->variant / 2 == 2 ? size : 3 - s->variant / 2;
    struct ls_device *cpu = open_cpu();
    s->op.pool = s->variant % 2 ? LS_POOL_AVERAGE : LS_POOL_MAX;
    s->op.window = (struct ls_window){{kernel, kernel}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1};
    ls_shape x = LS_SHAPE(sized(s, 2, 8), size, size, sized(s, 8, 64) + s->variant / 2),
             y = windows_of(s, x, x.dims[3]);
    give(s, LS_ARG_X, true, x), give(s, LS_ARG_DX, true, x);
    give(s, LS_ARG_Y, true, y), give(s, LS_ARG_DY, true, y);
    struct ls_op forward = s->op;
    forward.kind = LS_OP_POOL_FORWARD;
    assert_ok(run_op(cpu, &forward));
    ls_device_close(cpu);
}

static void pad(struct sample *s) {
    ls_shape small = LS_SHAPE(2, sized(s, 5, 28), 7, 8 + s->variant), large = small;
    s->op.window = (struct ls_window){{1, 1}, {1, 1}, {1, 1}, {0, 2}, {1, 3}, 1};
    large.dims[1] += 1, large.dims[2] += 5;
    give(s, LS_ARG_X, true, s->op.kind == LS_OP_PAD ? small : large);
    give(s, LS_ARG_Y, true, s->op.kind == LS_OP_PAD ? large : small);
}

/* ---- batch norm; without an activation, whose kinks would let rounding decide ---- */

static void batch_norm(struct sample *s) {
    int64_t rows = sized(s, 49, 3000) + s->variant, channels = sized(s, 16, 96) + s->variant % 2;
    static const int images[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX};
    static const int vectors[] = {LS_ARG_GAMMA,     LS_ARG_BETA,   LS_ARG_MEAN, LS_ARG_DMEAN,
                                  LS_ARG_DVARIANCE, LS_ARG_DGAMMA, LS_ARG_DBETA};
    s->op.epsilon = 0.001F, s->op.momentum = 0.9F;
    s->op.fused = s->variant % 2;
    s->scale = 1 / (float)rows;
    for (int i = 0; i < 4; i++) give(s, images[i], true, LS_SHAPE(rows, channels));
    for (int i = 0; i < 7; i++) give(s, vectors[i], false, LS_SHAPE(channels));
    give_positive(s, LS_ARG_VARIANCE, LS_SHAPE(channels));
    give_positive(s, LS_ARG_SAVED, LS_SHAPE(2, channels));
    give(s, LS_ARG_SHIFTS, false, LS_SHAPE(2, channels));
}

/* Both kinds, with and without gamma and beta; one column, and thousands. */
static void layer_norm(struct sample *s) {
    static const int64_t columns[VARIANTS] = {16, 17, 48, 1, 4099, 8192};
    bool many = s->variant >= 4, plain = s->variant == 2;
    int64_t rows = sized(s, 9, many ? 70 : 3000) + s->variant;
    ls_shape x = LS_SHAPE(rows, sized(s, 1 + columns[s->variant] % 20, columns[s->variant]));
    static const int values[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX};
    static const int vectors[] = {LS_ARG_GAMMA, LS_ARG_BETA, LS_ARG_DGAMMA, LS_ARG_DBETA};
    s->op.epsilon = 0.001F, s->op.centered = s->variant % 2 == 0;
    for (int i = 0; i < 4; i++) give(s, values[i], true, x);
    for (int i = plain ? 2 : 0; i < 4; i++) give(s, vectors[i], false, LS_SHAPE(x.dims[1]));
    give_positive(s, LS_ARG_SAVED, LS_SHAPE(rows, 2));
}

/* ---- elements ---- */

static void activation(struct sample *s) {
    static const ls_activation kinds[ACTIVATIONS] = {LS_RELU,    LS_RELU6, LS_LEAKY_RELU, LS_SIGMOID, LS_TANH,
                                                     LS_SOFTMAX, LS_GELU,  LS_GELU_TANH,  LS_SILU};
    ls_shape shape = LS_SHAPE(sized(s, 21, 3001), sized(s, 7, 100));
    s->op.activation = kinds[s->variant];
    give(s, LS_ARG_X, true, shape), give(s, LS_ARG_Y, true, shape);
    give(s, LS_ARG_DY, true, shape), give(s, LS_ARG_DX, true, shape);
}

static void elements(struct sample *s) {
    ls_shape shape = LS_SHAPE(sized(s, 17, 4001), 16 + s->variant);
    s->op.random = (struct ls_randomness){1, 2, 3};
    give(s, LS_ARG_X, true, shape), give(s, LS_ARG_Y, true, shape), give(s, LS_ARG_W, true, shape);
}

static void merge(struct sample *s) {
    ls_shape shape = LS_SHAPE(sized(s, 17, 100001) + s->variant);
    give(s, LS_ARG_X, false, shape), give(s, LS_ARG_Y, false, shape);
}

static void columns(struct sample *s) {
    ls_shape narrow = LS_SHAPE(sized(s, 5, 3000), 8 + s->variant), wide = LS_SHAPE(narrow.dims[0], 24 + s->variant);
    s->op.column = 4 + 4 * (s->variant % 2);
    give(s, LS_ARG_X, true, s->op.kind == LS_OP_PLACE ? narrow : wide);
    give(s, LS_ARG_Y, true, s->op.kind == LS_OP_PLACE ? wide : narrow);
}

static void cast(struct sample *s) {
    ls_shape shape = LS_SHAPE(sized(s, 33, 100001) + s->variant);
    give(s, LS_ARG_X, s->variant % 2, shape), give(s, LS_ARG_Y, s->variant % 2 == 0, shape);
}

/* Bytes are labels below 256. */
static void expand(struct sample *s) {
    int64_t rows = sized(s, 11, 40001), channels = 1 + s->variant % 3;
    const ls_shape shape = LS_SHAPE(rows, s->variant == 5 ? 7 : channels);
    uint8_t *bytes = ls_alloc_aligned((size_t)ls_shape_count(&shape));
    ck_assert_ptr_nonnull(bytes);
    for (int64_t i = 0; i < ls_shape_count(&shape); i++) bytes[i] = (uint8_t)ls_random_bits(7, 4, (uint64_t)i);
    s->op.tensors[LS_ARG_X] = (struct ls_tensor){bytes, LS_UINT8, shape};
    give(s, LS_ARG_W, false, LS_SHAPE(s->variant == 5 ? 1 : channels, 256)), give(s, LS_ARG_Y, true, shape);
}

static void infinite(struct sample *s) {
    float *values = give(s, LS_ARG_X, false, LS_SHAPE(sized(s, 33, 100001)));
    for (int i = 0; i < 5 * s->variant; i += 3) values[i] = i % 2 ? NAN : -INFINITY;
}

static void report(struct sample *s) {
    s->op.report = s->told;
    s->sums = (struct ls_loss_sums){.loss = 2.5 + s->variant, .correct = 3, .rows = 7};
    give(s, LS_ARG_Y, false, LS_SHAPE(LS_REPORT_OTHERS + 1));
}

/* ---- losses ---- */

static void outputs(struct sample *s) {
    int64_t rows = sized(s, 5, 513), classes = sized(s, 10, 1000);
    bool sparse = s->variant % 2,
         probabilities = s->op.kind == LS_OP_CROSSENTROPY || s->op.kind == LS_OP_BINARY_CROSSENTROPY;
    float *logits = give(s, LS_ARG_LOGITS, false, LS_SHAPE(rows, classes));
    float *labels = give(s, LS_ARG_LABELS, false, LS_SHAPE(rows, classes));
    for (int64_t i = 0; probabilities && i < rows * classes; i++) logits[i] = 1 / (1 + expf(-logits[i]));
    for (int64_t i = 0; i < rows * classes; i++) labels[i] = i % classes == i / classes % classes;
    if (sparse) ls_free(labels), give_labels(s, LS_ARG_LABELS, rows, classes);
    if (s->op.kind != LS_OP_METRIC) give(s, LS_ARG_DLOGITS, false, LS_SHAPE(rows, classes));
    if (s->variant / 2 % 2) give(s, LS_ARG_WEIGHTS, false, LS_SHAPE(rows));
    static const ls_metric metrics[VARIANTS / 2] = {
        {LS_METRIC_TOP_K, .k = 3}, {LS_METRIC_BINARY_ACCURACY, .threshold = 0.5F}, {LS_METRIC_MEAN_ABSOLUTE_ERROR}};
    s->op.metric = metrics[s->variant / 2], s->op.alpha = 0.1F * (float)(s->variant / 2);
    s->op.adds = s->variant % 3 == 1, s->sums.loss = 30.5, s->sums.correct = 4, s->value = 2.25;
}

static void one_hot(struct sample *s) {
    int64_t rows = sized(s, 5, 513), classes = 10 + s->variant;
    give_labels(s, LS_ARG_LABELS, rows, classes);
    give(s, LS_ARG_ONE_HOT, false, LS_SHAPE(rows, classes));
}

/* Ids repeat, and some rows are taken by nobody. */
static void embedding(struct sample *s) {
    int64_t rows = sized(s, 5, 64), count = 3 + s->variant, ids = sized(s, 7, 1000), width = sized(s, 4, 33);
    float *x = give(s, LS_ARG_X, false, LS_SHAPE(rows, count));
    if (s->variant % 2) s->op.tensors[LS_ARG_X].dtype = LS_INT32;
    for (int64_t i = 0; i < rows * count; i++) {
        uint64_t id = ls_random_bits(7, 3, (uint64_t)i) % (uint64_t)ids;
        x[i] = s->variant % 2 ? ls_float_bits_value((uint32_t)id) : (float)id;
    }
    s->op.adds = s->variant / 2 % 2, give(s, LS_ARG_W, true, LS_SHAPE(ids, width));
    give(s, LS_ARG_DW, false, LS_SHAPE(ids, width));
    give(s, LS_ARG_Y, true, LS_SHAPE(rows, count, width)), give(s, LS_ARG_DY, true, LS_SHAPE(rows, count, width));
}

/* ---- sequences ---- */

/* Groups, rope, windows, and positions that fill no block. Backward y and saved must be what comes of x. */
static void attention(struct sample *s) {
    static const struct ls_attention all[VARIANTS] = {{2, 2, true},    {4, 2, true, 0, true},
                                                      {3, 1, true, 5}, {2, 1, false, 0, true, 500000},
                                                      {1, 1, true, 1}, {2, 2, true, 300}};
    int64_t rows = sized(s, 2, 3), length = sized(s, 9, 131) + s->variant, width = sized(s, 4, 32);
    struct ls_device *cpu = open_cpu();
    s->op.attention = all[s->variant];
    int64_t heads = s->op.attention.heads, channels = (heads + 2 * s->op.attention.kv_heads) * width;
    give(s, LS_ARG_X, true, LS_SHAPE(rows, length, channels));
    give(s, LS_ARG_DX, true, LS_SHAPE(rows, length, channels));
    give(s, LS_ARG_Y, true, LS_SHAPE(rows, length, heads * width));
    give(s, LS_ARG_DY, true, LS_SHAPE(rows, length, heads * width));
    give(s, LS_ARG_SAVED, false, LS_SHAPE(rows, heads, length));
    struct ls_op forward = s->op;
    forward.kind = LS_OP_ATTENTION_FORWARD;
    assert_ok(run_op(cpu, &forward));
    ls_device_close(cpu);
}

/* One position and several, with groups, rope and windows. */
static void decode(struct sample *s) {
    static const struct ls_attention all[VARIANTS] = {{2, 2, true},    {4, 2, true, 0, true},
                                                      {3, 1, true, 5}, {2, 1, true, 50, true, 7e5F},
                                                      {1, 1, true, 1}, {2, 2, true, 300}};
    int64_t rows = sized(s, 2, 3), length = sized(s, 9, 131) + s->variant, width = sized(s, 4, 32);
    int64_t count = s->variant % 2 ? 1 : length / 2;
    s->op.attention = all[s->variant];
    int64_t heads = s->op.attention.heads, keys = s->op.attention.kv_heads;
    give(s, LS_ARG_X, true, LS_SHAPE(rows, count, (heads + 2 * keys) * width));
    give(s, LS_ARG_Y, true, LS_SHAPE(rows, count, heads * width));
    give(s, LS_ARG_KEPT, false, LS_SHAPE(rows, 2, keys, length, width));
    give_place(s, length - count);
}

static void position(struct sample *s) {
    ls_shape shape = LS_SHAPE(sized(s, 3, 16), sized(s, 5, 129) + s->variant, sized(s, 8, 96));
    bool back = s->op.kind == LS_OP_POSITION_BACKWARD;
    give(s, back ? LS_ARG_DY : LS_ARG_X, true, shape);
    give(s, back ? LS_ARG_DB : LS_ARG_B, false, LS_SHAPE(shape.dims[1], shape.dims[2]));
    if (!back) give(s, LS_ARG_Y, true, shape);
    if (back || s->variant < 2) return;
    ls_free(s->op.tensors[LS_ARG_B].data);
    give(s, LS_ARG_B, false, LS_SHAPE(shape.dims[1] + s->variant, shape.dims[2]));
    give_place(s, s->variant);
}

/* Both cells, all positions and the last one; one unit, and one position. Backward saved and r must be what comes of x.
 */
static void recurrent(struct sample *s) {
    int64_t rows = sized(s, 5, 70), length = s->variant == 4 ? 1 : sized(s, 4, 9) + s->variant;
    int64_t units = s->variant == 5 ? 1 : sized(s, 6, 64) + s->variant;
    bool back = s->op.kind == LS_OP_RECURRENT_BACKWARD;
    struct ls_device *cpu = open_cpu();
    s->op.cell = s->variant % 2 ? LS_CELL_GRU : LS_CELL_LSTM;
    int64_t columns = ls_cell_gates(s->op.cell) * units, saved = ls_cell_saved(s->op.cell) * units;
    const ls_shape all = LS_SHAPE(rows, length, units), in = LS_SHAPE(rows, length, columns);
    const ls_shape out = s->variant / 2 % 2 ? LS_SHAPE(rows, units) : all;
    give(s, LS_ARG_X, true, in), give(s, LS_ARG_Y, true, out);
    float *w = give(s, LS_ARG_W, true, LS_SHAPE(units, columns));
    for (int64_t i = 0; i < units * columns; i++) w[i] /= 2 * sqrtf((float)units); /* else errors grow with positions */
    if (s->variant % 3) give(s, LS_ARG_B, false, LS_SHAPE(columns));
    give(s, LS_ARG_SAVED, false, LS_SHAPE(rows, length, saved)), give(s, LS_ARG_R, true, all);
    struct ls_op forward = s->op;
    forward.kind = LS_OP_RECURRENT_FORWARD;
    if (back) assert_ok(run_op(cpu, &forward));
    if (back) give(s, LS_ARG_DY, true, out), give(s, LS_ARG_DX, true, in);
    if (back && s->op.cell == LS_CELL_GRU) give(s, LS_ARG_DR, true, in);
    ls_device_close(cpu);
}

/* ---- optimizers ---- */

static void optimizer(struct sample *s) {
    int64_t count = sized(s, 67, 100003) + s->variant;
    s->part = (struct ls_blob_part){0, (size_t)count, true, 0.01F, 0.02F};
    s->op.variables = &s->part, s->op.variable_count = 1;
    s->step.rule = (ls_optimizer){.learning_rate = 0.01F,
                                  .momentum = 0.5F,
                                  .beta_1 = 0.9F,
                                  .beta_2 = 0.999F,
                                  .rho = 0.9F,
                                  .epsilon = 1e-3F,
                                  .weight_decay = 0.01F,
                                  .clipnorm = (float)(s->variant % 2),
                                  .torch_epsilon = s->variant % 2 == 0,
                                  .nesterov = s->variant % 3 == 0};
    give(s, LS_ARG_PARAMETERS, false, LS_SHAPE(count)), give(s, LS_ARG_GRADIENTS, false, LS_SHAPE(count));
    for (int i = 0; i < 2; i++) give_positive(s, LS_ARG_MOMENT_1 + i, LS_SHAPE(count));
}

static void momentum(struct sample *s) {
    optimizer(s);
    ls_free(s->op.tensors[LS_ARG_MOMENT_2].data);
    s->op.tensors[LS_ARG_MOMENT_2] = (struct ls_tensor){0};
}

typedef void make_fn(struct sample *s);
static make_fn *const makers[LS_OP_KIND_COUNT] = {
    [LS_OP_DENSE_FORWARD] = dense,
    [LS_OP_DENSE_BACKWARD] = dense,
    [LS_OP_CONVOLUTION_FORWARD] = convolution,
    [LS_OP_CONVOLUTION_BACKWARD_DATA] = convolution,
    [LS_OP_CONVOLUTION_BACKWARD_WEIGHTS] = convolution,
    [LS_OP_DEPTHWISE_BACKWARD] = depthwise,
    [LS_OP_POOL_FORWARD] = pool,
    [LS_OP_POOL_BACKWARD] = pool,
    [LS_OP_BATCH_NORM_FORWARD] = batch_norm,
    [LS_OP_BATCH_NORM_INFERENCE] = batch_norm,
    [LS_OP_BATCH_NORM_AGAIN] = batch_norm,
    [LS_OP_BATCH_NORM_BACKWARD] = batch_norm,
    [LS_OP_BATCH_NORM_BACKWARD_DATA] = batch_norm,
    [LS_OP_LAYER_NORM_FORWARD] = layer_norm,
    [LS_OP_LAYER_NORM_BACKWARD] = layer_norm,
    [LS_OP_ACTIVATION_FORWARD] = activation,
    [LS_OP_ACTIVATION_BACKWARD] = activation,
    [LS_OP_ADD] = elements,
    [LS_OP_MULTIPLY] = elements,
    [LS_OP_SCALE] = elements,
    [LS_OP_DROPOUT] = elements,
    [LS_OP_PLACE] = columns,
    [LS_OP_TAKE] = columns,
    [LS_OP_EMBEDDING_FORWARD] = embedding,
    [LS_OP_EMBEDDING_BACKWARD] = embedding,
    [LS_OP_ATTENTION_FORWARD] = attention,
    [LS_OP_ATTENTION_BACKWARD] = attention,
    [LS_OP_ATTENTION_DECODE] = decode,
    [LS_OP_POSITION_FORWARD] = position,
    [LS_OP_POSITION_BACKWARD] = position,
    [LS_OP_RECURRENT_FORWARD] = recurrent,
    [LS_OP_RECURRENT_BACKWARD] = recurrent,
    [LS_OP_PAD] = pad,
    [LS_OP_CROP] = pad,
    [LS_OP_SOFTMAX_CROSSENTROPY] = outputs,
    [LS_OP_CROSSENTROPY] = outputs,
    [LS_OP_SIGMOID_CROSSENTROPY] = outputs,
    [LS_OP_BINARY_CROSSENTROPY] = outputs,
    [LS_OP_SQUARED_ERROR] = outputs,
    [LS_OP_ABSOLUTE_ERROR] = outputs,
    [LS_OP_HUBER] = outputs,
    [LS_OP_METRIC] = outputs,
    [LS_OP_ONE_HOT] = one_hot,
    [LS_OP_MERGE] = merge,
    [LS_OP_SGD] = momentum,
    [LS_OP_ADAM] = optimizer,
    [LS_OP_RMSPROP] = optimizer,
    [LS_OP_LAMB] = optimizer,
    [LS_OP_PENALTY] = momentum,
    [LS_OP_CAST] = cast,
    [LS_OP_EXPAND] = expand,
    [LS_OP_FINITE] = infinite,
    [LS_OP_REPORT] = report,
};

/* ---- two of each ---- */

static void make(struct sample *s, enum ls_op_kind kind, int variant, bool large) {
    *s = (struct sample){
        .op = {.kind = kind, .alpha = 0.3F, .beta = 2}, .variant = variant, .large = large, .scale = 0.25F};
    s->step.iteration = 5;
    makers[kind](s);
    s->op.scale = &s->scale, s->op.sums = &s->sums, s->op.value = &s->value;
    s->op.step = &s->step;
}

static void release(struct sample *s) {
    for (int t = 0; t < LS_OP_TENSORS; t++) ls_free(s->op.tensors[t].data);
}

static float widen(uint16_t bits, ls_dtype type) {
    return type == LS_FLOAT16 ? ls_half_to_float(bits) : ls_half_bfloat16_to_float(bits);
}

/* Brings what is stored to a 16-bit type, in place; or rounds it only. */
static void round_stored(struct sample *s, ls_dtype type, bool narrow) {
    for (int t = 0; t < LS_OP_TENSORS; t++) {
        struct ls_tensor *tensor = &s->op.tensors[t];
        if (!tensor->data || !s->stored[t]) continue;
        for (int64_t i = 0; i < ls_shape_count(&tensor->shape); i++) {
            float *value = (float *)tensor->data + i;
            uint16_t bits = type == LS_FLOAT16 ? ls_half_from_float(*value) : ls_half_bfloat16_from_float(*value);
            if (narrow)
                memcpy((char *)tensor->data + (size_t)i * sizeof(bits), &bits, sizeof(bits));
            else
                *value = widen(bits, type);
        }
        if (narrow) tensor->dtype = type;
    }
}

static double value_at(const struct ls_tensor *tensor, int64_t i) {
    if (tensor->dtype == LS_FLOAT32) return (double)((const float *)tensor->data)[i];
    return (double)widen(((const uint16_t *)tensor->data)[i], tensor->dtype);
}

/* True where the kind may leave anything. */
static bool is_spent(enum ls_op_kind kind, int place) {
    if (kind == LS_OP_DENSE_BACKWARD) return place == LS_ARG_DY;
    return kind >= LS_OP_SGD && kind <= LS_OP_LAMB && place == LS_ARG_GRADIENTS;
}

static void compare(const struct sample *must, const struct sample *is, int place, double tolerance) {
    const struct ls_tensor *one = &must->op.tensors[place], *other = &is->op.tensors[place];
    double largest = 0;
    if (!one->data || one->dtype == LS_INT32 || one->dtype == LS_UINT8 || is_spent(must->op.kind, place)) return;
    int64_t count = ls_shape_count(&one->shape);
    for (int64_t i = 0; i < count; i++)
        if (isfinite(value_at(one, i))) largest = fmax(largest, fabs(value_at(one, i)));
    for (int64_t i = 0; i < count; i++) {
        double a = value_at(one, i), b = value_at(other, i);
        bool same = isfinite(a) ? fabs(a - b) <= tolerance * largest : isnan(a) ? isnan(b) : a == b;
        if (!same)
            ck_abort_msg("%s, %s, variant %d%s: argument %d, element %lld of %lld is %.9g, but must be %.9g",
                         ls_op_name(must->op.kind), ls_dtype_name(other->dtype), must->variant,
                         must->large ? ", large" : "", place, (long long)i, (long long)count, b, a);
    }
}

static bool emulated(void) {
    char text[1024];
    ls_gpu_kind.describe(text, sizeof(text));
    return strstr(text, "emulated") != NULL;
}

/* An emulated GPU is slow: with everything large it takes half a minute. */
static bool is_large(const struct ls_device *device, enum ls_op_kind kind, int variant, ls_dtype type) {
    uint64_t number = ((uint64_t)kind * ACTIVATIONS + (uint64_t)variant) * (LS_BOOL + 1) + (uint64_t)type;
    if (device->host_memory) return false;
    if (!emulated() || (is_full() && !SANITIZED)) return true;
    return ls_random_bits(seed, 0, number) % SHARE == 0;
}

static void check(struct ls_device *cpu, struct ls_device *device, enum ls_op_kind kind, int variant, ls_dtype type) {
    struct sample must, is;
    bool large = is_large(device, kind, variant, type);
    make(&must, kind, variant, large), make(&is, kind, variant, large);
    if (type != LS_FLOAT32) round_stored(&must, type, false), round_stored(&is, type, true);
    assert_ok(run_op(cpu, &must.op));
    ck_assert_msg(run_op(device, &is.op) == LS_OK, "variant %d: %s", variant, ls_error());
    double tolerance = type == LS_FLOAT32 ? TOLERANCE : HALF_TOLERANCE;
    for (int t = 0; t < LS_OP_TENSORS; t++) compare(&must, &is, t, tolerance);
    ck_assert_double_le(fabs(must.sums.loss - is.sums.loss), TOLERANCE * fabs(must.sums.loss));
    ck_assert_int_eq(must.sums.correct, is.sums.correct);
    ck_assert_double_le(fabs(must.value - is.value), TOLERANCE * fabs(must.value));
    release(&must), release(&is);
}

static int variants_of(enum ls_op_kind kind) {
    return kind == LS_OP_ACTIVATION_FORWARD || kind == LS_OP_ACTIVATION_BACKWARD ? ACTIVATIONS : VARIANTS;
}

TEST_EACH(every_type_of_the_kind_equals_the_cpu, LS_OP_KIND_COUNT) {
    static const ls_dtype types[] = {LS_FLOAT32, LS_BFLOAT16, LS_FLOAT16};
    enum ls_op_kind kind = (enum ls_op_kind)_i;
    struct ls_device *cpu = open_cpu(), *device = open_device();
    ck_assert_msg(makers[kind] != NULL, "'%s' has no row in %s", ls_op_name(kind), __FILE__);
    struct sample s;
    make(&s, kind, 0, false);
    bool stores = false;
    for (int t = 0; t < LS_OP_TENSORS; t++) stores |= s.stored[t];
    release(&s);
    for (int t = 0; t < (stores && !device->host_memory ? 3 : 1); t++)
        for (int variant = 0; variant < variants_of(kind); variant++) check(cpu, device, kind, variant, types[t]);
    ls_device_close(device);
    ls_device_close(cpu);
}

int main(void) {
    seed = first_seed();
    return RUN_TESTS("conformance", .seconds = 120);
}
