/* What each kind of op reaches on a device, at sizes of MobileNetV2 and ResNet-50: one JSON line an op, with the time
 * of a run, the bytes that it cannot but move (each tensor once for each time that it must be read or written) and its
 * floating-point operations (of products; others are counted as none).
 *
 * usage: roofline DEVICE BATCH [RUNS [TEXT]], such as roofline gpu:0 256 20 depthwise: those with the text in their
 * names */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/shape.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

#define WARM_RUNS  3         /* at most */
#define TIMED_RUNS 20        /* unless they are given */
#define PARAMETERS 25610216  /* of ResNet-50 with its statistics left out, about */
#define PATTERN    (1 << 20) /* values that tensors are filled with, again and again */
#define MAX_PIECES LS_OP_TENSORS

struct bench {
    struct ls_device *device;
    int64_t batch;
    int runs;         /* timed ones, of each op */
    const char *text; /* in the names of those that are measured */
    ls_dtype dtype;   /* of activations */
    float *scale;     /* host memory for ops */
    struct ls_loss_sums *sums;
    double *value;
    struct ls_optimizer_step *step;
    uint32_t *pattern; /* host memory, PATTERN of them */
};

/* An op with memory of its own for every tensor. */
struct made {
    struct ls_op op;
    void *pieces[MAX_PIECES + 1]; /* the last is the workspace */
    double bytes;
};

/* ---- tensors ---- */

/* Numbers between 1 and 2 as float32, and in any 16-bit type finite ones. */
static ls_status fill(const struct bench *bench, void *memory, size_t size) {
    ls_status status = LS_OK;
    for (size_t at = 0, whole = PATTERN * sizeof(*bench->pattern); !status && at < size; at += whole)
        status = bench->device->ops->copy_in(bench->device, (char *)memory + at, bench->pattern,
                                             size - at < whole ? size - at : whole);
    return status;
}

/* times: how often a run must move it. */
static ls_status give(const struct bench *bench, struct made *made, int place, ls_dtype dtype, ls_shape shape,
                      int times) {
    size_t size = (size_t)ls_shape_count(&shape) * ls_dtype_size(dtype);
    ls_status status = bench->device->ops->allocate(bench->device, size, &made->pieces[place]);
    if (!status && dtype != LS_INT32) status = fill(bench, made->pieces[place], size); /* labels stay 0 */
    made->op.tensors[place] = (struct ls_tensor){made->pieces[place], dtype, shape, 0, 0};
    made->bytes += (double)size * times;
    return status;
}

static void release(const struct bench *bench, struct made *made) {
    for (int i = 0; i <= MAX_PIECES; i++)
        if (made->pieces[i]) bench->device->ops->release(bench->device, made->pieces[i]);
}

/* ---- measuring ---- */

static ls_status run_often(const struct bench *bench, const struct ls_op *op, int times, double *seconds) {
    ls_status status = ls_device_synchronize(bench->device);
    int64_t begun = ls_now();
    for (int i = 0; !status && i < times; i++) status = op->run(op);
    if (!status) status = ls_device_synchronize(bench->device);
    *seconds = (double)(ls_now() - begun) / 1e9 / times;
    return status;
}

static ls_status time_op(const struct bench *bench, const char *name, struct made *made, double operations) {
    struct ls_op *op = &made->op;
    double seconds = 0;
    int warm = bench->runs < WARM_RUNS ? bench->runs : WARM_RUNS;
    ls_status status = bench->device->ops->build(bench->device, op);
    if (status) return status;
    if (op->workspace_size)
        status = bench->device->ops->allocate(bench->device, op->workspace_size, &made->pieces[MAX_PIECES]);
    op->workspace = made->pieces[MAX_PIECES];
    if (!status) status = run_often(bench, op, warm, &seconds);
    if (!status) status = run_often(bench, op, bench->runs, &seconds);
    bench->device->ops->discard(bench->device, op);
    if (!status)
        (void)printf(
            "{\"op\": \"%s\", \"type\": \"%s\", \"microseconds\": %.3f, \"bytes\": %.0f, \"operations\": %.0f}\n", name,
            ls_dtype_name(bench->dtype), seconds * 1e6, made->bytes, operations);
    return status;
}

/* ---- the ops ---- */

struct image_case {
    const char *name;
    enum ls_op_kind kind;
    int64_t size, channels, filters, kernel, stride, groups;
};

static ls_status convolution(const struct bench *bench, const struct image_case *c) {
    int64_t out = (c->size + c->stride - 1) / c->stride, before = c->kernel / 2, B = bench->batch;
    bool both = c->kind == LS_OP_DEPTHWISE_BACKWARD, data = both || c->kind == LS_OP_CONVOLUTION_BACKWARD_DATA;
    bool weights = both || c->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    int64_t after = (out - 1) * c->stride + c->kernel - c->size - before;
    struct made made = {.op = {.kind = c->kind,
                               .window = {.kernel = {c->kernel, c->kernel},
                                          .strides = {c->stride, c->stride},
                                          .dilation = {1, 1},
                                          .before = {before, before},
                                          .after = {after > 0 ? after : 0, after > 0 ? after : 0},
                                          .groups = c->groups}}};
    ls_shape w = LS_SHAPE(c->kernel, c->kernel, c->channels / c->groups, c->filters);
    ls_shape x = LS_SHAPE(B, c->size, c->size, c->channels), y = LS_SHAPE(B, out, out, c->filters);
    ls_status status = give(bench, &made, data || weights ? LS_ARG_DY : LS_ARG_Y, bench->dtype, y, 1);
    if (!status && (both || !data)) status = give(bench, &made, LS_ARG_X, bench->dtype, x, 1);
    if (!status && data) status = give(bench, &made, LS_ARG_DX, bench->dtype, x, 1);
    if (!status && (both || !weights)) status = give(bench, &made, LS_ARG_W, bench->dtype, w, 1);
    if (!status && weights) status = give(bench, &made, LS_ARG_DW, LS_FLOAT32, w, 1);
    double operations = (both ? 4.0 : 2.0) * (double)(B * out * out) * (double)ls_shape_count(&w);
    if (!status) status = time_op(bench, c->name, &made, operations);
    release(bench, &made);
    return status;
}

/* Statistics need all of x before any of y: two passes. */
static ls_status batch_norm(const struct bench *bench, const struct image_case *c) {
    bool forward = c->kind == LS_OP_BATCH_NORM_FORWARD, backward = c->kind == LS_OP_BATCH_NORM_BACKWARD;
    ls_shape x = LS_SHAPE(bench->batch, c->size, c->size, c->channels), channels = LS_SHAPE(c->channels);
    struct made made = {
        .op = {.kind = c->kind, .activation = LS_RELU6, .momentum = 0.99F, .epsilon = 1e-3F, .scale = bench->scale}};
    ls_status status = give(bench, &made, LS_ARG_X, bench->dtype, x, forward || backward ? 2 : 1);
    if (!status) status = give(bench, &made, LS_ARG_SAVED, LS_FLOAT32, LS_SHAPE(2, c->channels), 1);
    for (int i = LS_ARG_GAMMA; !status && i <= LS_ARG_BETA; i++)
        status = give(bench, &made, i, LS_FLOAT32, channels, 1);
    if (!status && !backward) status = give(bench, &made, LS_ARG_Y, bench->dtype, x, 1);
    static const int moving[] = {LS_ARG_MEAN, LS_ARG_VARIANCE, LS_ARG_DMEAN, LS_ARG_DVARIANCE};
    for (int i = 0; !status && forward && i < 4; i++) status = give(bench, &made, moving[i], LS_FLOAT32, channels, 1);
    if (!status && backward) status = give(bench, &made, LS_ARG_DY, bench->dtype, x, 2);
    if (!status && backward) status = give(bench, &made, LS_ARG_DX, bench->dtype, x, 1);
    for (int i = LS_ARG_DGAMMA; !status && backward && i <= LS_ARG_DBETA; i++)
        status = give(bench, &made, i, LS_FLOAT32, channels, 1);
    if (!status && backward) status = give(bench, &made, LS_ARG_SHIFTS, LS_FLOAT32, LS_SHAPE(2, c->channels), 1);
    if (!status) status = time_op(bench, c->name, &made, 0);
    release(bench, &made);
    return status;
}

static ls_status elements(const struct bench *bench, const struct image_case *c) {
    ls_shape x = LS_SHAPE(bench->batch, c->size, c->size, c->channels);
    struct made made = {.op = {.kind = c->kind, .alpha = 0.5F, .beta = 1}};
    ls_status status = give(bench, &made, LS_ARG_X, bench->dtype, x, 1);
    if (!status && c->kind == LS_OP_ADD) status = give(bench, &made, LS_ARG_W, bench->dtype, x, 1);
    if (!status) status = give(bench, &made, LS_ARG_Y, bench->dtype, x, 1);
    if (!status) status = time_op(bench, c->name, &made, 0);
    release(bench, &made);
    return status;
}

static ls_status pool(const struct bench *bench, const struct image_case *c) {
    int64_t out = (c->size - c->kernel) / c->stride + 1;
    struct made made = {.op = {.kind = c->kind,
                               .pool = c->stride == c->size ? LS_POOL_AVERAGE : LS_POOL_MAX,
                               .window = {.kernel = {c->kernel, c->kernel},
                                          .strides = {c->stride, c->stride},
                                          .dilation = {1, 1},
                                          .groups = 1}}};
    ls_status status =
        give(bench, &made, LS_ARG_X, bench->dtype, LS_SHAPE(bench->batch, c->size, c->size, c->channels), 1);
    if (!status) status = give(bench, &made, LS_ARG_Y, bench->dtype, LS_SHAPE(bench->batch, out, out, c->channels), 1);
    if (!status) status = time_op(bench, c->name, &made, 0);
    release(bench, &made);
    return status;
}

static ls_status dense(const struct bench *bench, const struct image_case *c) {
    int64_t B = bench->batch;
    bool backward = c->kind == LS_OP_DENSE_BACKWARD;
    struct made made = {.op = {.kind = c->kind}};
    ls_status status = give(bench, &made, LS_ARG_X, bench->dtype, LS_SHAPE(B, c->channels), 1);
    if (!status) status = give(bench, &made, LS_ARG_W, bench->dtype, LS_SHAPE(c->channels, c->filters), 1);
    if (!status && !backward) status = give(bench, &made, LS_ARG_B, LS_FLOAT32, LS_SHAPE(c->filters), 1);
    if (!status && !backward) status = give(bench, &made, LS_ARG_Y, bench->dtype, LS_SHAPE(B, c->filters), 1);
    if (!status && backward) status = give(bench, &made, LS_ARG_DY, bench->dtype, LS_SHAPE(B, c->filters), 1);
    if (!status && backward) status = give(bench, &made, LS_ARG_DX, bench->dtype, LS_SHAPE(B, c->channels), 1);
    if (!status && backward) status = give(bench, &made, LS_ARG_DW, LS_FLOAT32, LS_SHAPE(c->channels, c->filters), 1);
    if (!status && backward) status = give(bench, &made, LS_ARG_DB, LS_FLOAT32, LS_SHAPE(c->filters), 1);
    if (!status)
        status = time_op(bench, c->name, &made, (backward ? 4.0 : 2.0) * (double)(B * c->channels * c->filters));
    release(bench, &made);
    return status;
}

static ls_status loss(const struct bench *bench, const struct image_case *c) {
    ls_shape logits = LS_SHAPE(bench->batch, c->channels);
    struct made made = {.op = {.kind = c->kind, .scale = bench->scale, .sums = bench->sums}};
    ls_status status = give(bench, &made, LS_ARG_LOGITS, LS_FLOAT32, logits, 1);
    if (!status) status = give(bench, &made, LS_ARG_LABELS, LS_INT32, LS_SHAPE(bench->batch), 1);
    if (!status) status = give(bench, &made, LS_ARG_DLOGITS, LS_FLOAT32, logits, 1);
    if (!status) status = time_op(bench, c->name, &made, 0);
    release(bench, &made);
    return status;
}

/* Parameters and moments are read and written. */
static ls_status update(const struct bench *bench, const struct image_case *c) {
    static const struct ls_blob_part all = {.count = PARAMETERS};
    struct made made = {.op = {.kind = c->kind, .step = bench->step, .variables = &all, .variable_count = 1}};
    ls_status status = LS_OK;
    for (int i = LS_ARG_PARAMETERS; !status && i <= LS_ARG_MOMENT_2; i++)
        status = give(bench, &made, i, LS_FLOAT32, LS_SHAPE(PARAMETERS), i == LS_ARG_GRADIENTS ? 1 : 2);
    if (!status) status = time_op(bench, c->name, &made, 0);
    release(bench, &made);
    return status;
}

static ls_status cast(const struct bench *bench, const struct image_case *c) {
    struct made made = {.op = {.kind = c->kind}};
    ls_status status = give(bench, &made, LS_ARG_X, LS_FLOAT32, LS_SHAPE(PARAMETERS), 1);
    if (!status) status = give(bench, &made, LS_ARG_Y, bench->dtype, LS_SHAPE(PARAMETERS), 1);
    if (!status) status = time_op(bench, c->name, &made, 0);
    release(bench, &made);
    return status;
}

static const struct {
    ls_status (*measure)(const struct bench *bench, const struct image_case *c);
    struct image_case c;
} cases[] = {
    {elements, {"scale 112x112x96", LS_OP_SCALE, 112, 96, 0, 0, 0, 0}},
    {elements, {"add 56x56x144", LS_OP_ADD, 56, 144, 0, 0, 0, 0}},
    {convolution, {"1x1 56x56 24 to 144", LS_OP_CONVOLUTION_FORWARD, 56, 24, 144, 1, 1, 1}},
    {convolution, {"1x1 56x56 24 to 144, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 56, 24, 144, 1, 1, 1}},
    {convolution, {"1x1 56x56 24 to 144, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 56, 24, 144, 1, 1, 1}},
    {convolution, {"1x1 14x14 1024 to 256", LS_OP_CONVOLUTION_FORWARD, 14, 1024, 256, 1, 1, 1}},
    {convolution, {"1x1/2 56x56 256 to 512", LS_OP_CONVOLUTION_FORWARD, 56, 256, 512, 1, 2, 1}},
    {convolution, {"1x1/2 56x56 256 to 512, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 56, 256, 512, 1, 2, 1}},
    {convolution, {"1x1/2 56x56 256 to 512, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 56, 256, 512, 1, 2, 1}},
    {convolution, {"3x3 56x56 64 to 64", LS_OP_CONVOLUTION_FORWARD, 56, 64, 64, 3, 1, 1}},
    {convolution, {"3x3 56x56 64 to 64, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 56, 64, 64, 3, 1, 1}},
    {convolution, {"3x3 56x56 64 to 64, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 56, 64, 64, 3, 1, 1}},
    {convolution, {"3x3 28x28 128 to 128", LS_OP_CONVOLUTION_FORWARD, 28, 128, 128, 3, 1, 1}},
    {convolution, {"3x3 28x28 128 to 128, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 28, 128, 128, 3, 1, 1}},
    {convolution, {"3x3 28x28 128 to 128, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 28, 128, 128, 3, 1, 1}},
    {convolution, {"3x3 14x14 256 to 256", LS_OP_CONVOLUTION_FORWARD, 14, 256, 256, 3, 1, 1}},
    {convolution, {"3x3 14x14 256 to 256, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 14, 256, 256, 3, 1, 1}},
    {convolution, {"3x3 14x14 256 to 256, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 14, 256, 256, 3, 1, 1}},
    {convolution, {"3x3 7x7 512 to 512", LS_OP_CONVOLUTION_FORWARD, 7, 512, 512, 3, 1, 1}},
    {convolution, {"3x3 7x7 512 to 512, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 7, 512, 512, 3, 1, 1}},
    {convolution, {"3x3 7x7 512 to 512, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 7, 512, 512, 3, 1, 1}},
    {convolution, {"7x7/2 224x224 3 to 64", LS_OP_CONVOLUTION_FORWARD, 224, 3, 64, 7, 2, 1}},
    {convolution, {"7x7/2 224x224 3 to 64, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 224, 3, 64, 7, 2, 1}},
    {convolution, {"depthwise 3x3 56x56x144", LS_OP_CONVOLUTION_FORWARD, 56, 144, 144, 3, 1, 144}},
    {convolution, {"depthwise 3x3 56x56x144, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 56, 144, 144, 3, 1, 144}},
    {convolution, {"depthwise 3x3 56x56x144, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 56, 144, 144, 3, 1, 144}},
    {convolution, {"depthwise 3x3 56x56x144, both", LS_OP_DEPTHWISE_BACKWARD, 56, 144, 144, 3, 1, 144}},
    {convolution, {"depthwise 3x3/2 112x112x96", LS_OP_CONVOLUTION_FORWARD, 112, 96, 96, 3, 2, 96}},
    {convolution, {"depthwise 3x3/2 112x112x96, data", LS_OP_CONVOLUTION_BACKWARD_DATA, 112, 96, 96, 3, 2, 96}},
    {convolution, {"depthwise 3x3/2 112x112x96, weights", LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, 112, 96, 96, 3, 2, 96}},
    {convolution, {"depthwise 3x3/2 112x112x96, both", LS_OP_DEPTHWISE_BACKWARD, 112, 96, 96, 3, 2, 96}},
    {batch_norm, {"batch norm + ReLU6 56x56x144", LS_OP_BATCH_NORM_FORWARD, 56, 144, 0, 0, 0, 0}},
    {batch_norm, {"batch norm + ReLU6, again", LS_OP_BATCH_NORM_AGAIN, 56, 144, 0, 0, 0, 0}},
    {batch_norm, {"batch norm + ReLU6, backward", LS_OP_BATCH_NORM_BACKWARD, 56, 144, 0, 0, 0, 0}},
    {pool, {"max pool 2x2 112x112x64", LS_OP_POOL_FORWARD, 112, 64, 0, 2, 2, 1}},
    {pool, {"global average 7x7x1280", LS_OP_POOL_FORWARD, 7, 1280, 0, 7, 7, 1}},
    {dense, {"dense 2048 to 1000", LS_OP_DENSE_FORWARD, 0, 2048, 1000, 0, 0, 0}},
    {dense, {"dense 2048 to 1000, backward", LS_OP_DENSE_BACKWARD, 0, 2048, 1000, 0, 0, 0}},
    {loss, {"softmax crossentropy, 1000 classes", LS_OP_SOFTMAX_CROSSENTROPY, 0, 1000, 0, 0, 0, 0}},
    {cast, {"cast of 25.6 M parameters", LS_OP_CAST, 0, 0, 0, 0, 0, 0}},
    {update, {"Adam, 25.6 M parameters", LS_OP_ADAM, 0, 0, 0, 0, 0, 0}},
};

static ls_status allocate_host(struct bench *bench) {
    struct ls_device *device = bench->device;
    void *memory = NULL;
    void *pattern = NULL;
    ls_status status = ls_device_allocate_host(device, 4 * 4096, &memory);
    if (!status) bench->scale = memory;
    if (!status) status = ls_device_allocate_host(device, PATTERN * sizeof(*bench->pattern), &pattern);
    bench->pattern = pattern;
    if (status) return status;
    for (uint32_t i = 0; i < PATTERN; i++) bench->pattern[i] = 0x3F803C00U + (i * 2654435761U >> 24);
    bench->sums = (struct ls_loss_sums *)((char *)memory + 4096);
    bench->value = (double *)((char *)memory + 2 * 4096);
    bench->step = (struct ls_optimizer_step *)((char *)memory + 3 * 4096);
    *bench->scale = 1 / (float)bench->batch;
    *bench->step = (struct ls_optimizer_step){.rule = ls_adam(0.001F), .iteration = 1};
    return LS_OK;
}

static ls_status measure_all(struct bench *bench) {
    static const ls_dtype types[] = {LS_FLOAT32, LS_BFLOAT16};
    ls_status status = LS_OK;
    for (size_t t = 0; !status && t < 2; t++) {
        bench->dtype = types[t];
        for (size_t i = 0; !status && i < sizeof(cases) / sizeof(cases[0]); i++) {
            if (!strstr(cases[i].c.name, bench->text)) continue;
            status = cases[i].measure(bench, &cases[i].c);
            if (status == LS_UNIMPLEMENTED) { /* as 16 bits on a CPU: the others may still be */
                (void)fprintf(stderr, "%s, %s: %s\n", cases[i].c.name, ls_dtype_name(bench->dtype), ls_error());
                status = LS_OK;
            }
        }
    }
    return status;
}

int main(int count, char **arguments) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    struct ls_thread_state before;
    int opened = 0;
    int runs = count > 3 ? atoi(arguments[3]) : TIMED_RUNS;
    if (count < 3 || count > 5 || atoll(arguments[2]) < 1 || runs < 1) return 2;
    ls_status status = ls_devices_open(arguments[1], 1, devices, &opened);
    if (status) return ls_exit(status);
    struct bench bench = {
        .device = devices[0], .batch = atoll(arguments[2]), .runs = runs, .text = count > 4 ? arguments[4] : ""};
    status = bench.device->ops->enter(bench.device, &before);
    if (!status) status = allocate_host(&bench);
    if (!status) status = measure_all(&bench);
    if (bench.pattern) ls_device_release_host(bench.device, bench.pattern);
    if (bench.scale) ls_device_release_host(bench.device, bench.scale);
    for (int i = 0; i < opened; i++) ls_device_close(devices[i]);
    return ls_exit(status);
}
