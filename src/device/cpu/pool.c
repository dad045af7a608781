/* Maximum and average pooling: windows never include positions outside the image. Of several equal maxima the first,
 * line by line, gets the gradient. Mirrors tf.nn.max_pool2d and tf.nn.avg_pool2d. */
#include <string.h>

#include "base/clones.h"
#include "device/cpu/cpu.h"

struct pool {
    const struct ls_op *op;
    const ls_shape *in, *out;
};
/* The part of a window that lies in the image: lines and columns [begin, end) by a step. */
struct part {
    int64_t begin[2], end[2], step[2];
};

static struct part part_at(const struct pool *pool, int64_t h, int64_t w) {
    const struct ls_window *window = &pool->op->window;
    const int64_t at[2] = {h, w};
    struct part part;
    for (int i = 0; i < 2; i++) {
        int64_t step = window->dilation[i], size = pool->in->dims[i + 1];
        int64_t begin = at[i] * window->strides[i] - window->before[i], end = begin + window->kernel[i] * step;
        if (begin < 0) begin += (-begin + step - 1) / step * step;
        part.begin[i] = begin;
        part.end[i] = end < size ? end : size;
        part.step[i] = step;
    }
    return part;
}

static int64_t extent(const struct part *part, int axis) {
    int64_t length = part->end[axis] - part->begin[axis];
    return length <= 0 ? 0 : (length + part->step[axis] - 1) / part->step[axis];
}

static int64_t offset_of(const struct pool *pool, int64_t row, int64_t h, int64_t w) {
    return ((row * pool->in->dims[1] + h) * pool->in->dims[2] + w) * pool->in->dims[3];
}

LS_CLONES static void pool_maximum(float *restrict y, const float *restrict x, int64_t count) {
    for (int64_t c = 0; c < count; c++) y[c] = x[c] > y[c] || x[c] != x[c] ? x[c] : y[c]; /* NaN stays */
}

LS_CLONES static void pool_add(float *restrict y, const float *restrict x, float factor, int64_t count) {
    for (int64_t c = 0; c < count; c++) y[c] += x[c] * factor;
}

LS_CLONES static void pool_scale(float *y, float factor, int64_t count) {
    for (int64_t c = 0; c < count; c++) y[c] *= factor;
}

/* Adds the gradient of the window to its present element, if x is the maximum there and no earlier element was. left
 * holds dy at first, then the part of dy that is still to be given. */
LS_CLONES static void pool_give(float *restrict dx, const float *restrict x, const float *restrict y,
                                float *restrict left, int64_t count) {
    for (int64_t c = 0; c < count; c++) {
        float given = x[c] == y[c] ? left[c] : 0;
        dx[c] += given;
        left[c] = x[c] == y[c] ? 0 : left[c];
    }
}

static void forward_at(const struct pool *pool, int64_t row, const struct part *part, float *y) {
    const float *x = pool->op->tensors[LS_ARG_X].data;
    int64_t channels = pool->in->dims[3];
    bool first = true;
    for (int64_t h = part->begin[0]; h < part->end[0]; h += part->step[0])
        for (int64_t w = part->begin[1]; w < part->end[1]; w += part->step[1], first = false) {
            const float *at = x + offset_of(pool, row, h, w);
            if (first)
                memcpy(y, at, (size_t)channels * sizeof(float));
            else if (pool->op->pool == LS_POOL_MAX)
                pool_maximum(y, at, channels);
            else
                pool_add(y, at, 1, channels);
        }
    if (first) memset(y, 0, (size_t)channels * sizeof(float));
    if (!first && pool->op->pool == LS_POOL_AVERAGE)
        pool_scale(y, 1 / (float)(extent(part, 0) * extent(part, 1)), channels);
}

static void forward_lines(void *context, int64_t begin, int64_t end) {
    const struct pool *pool = context;
    int64_t height = pool->out->dims[1], width = pool->out->dims[2], channels = pool->out->dims[3];
    float *y = pool->op->tensors[LS_ARG_Y].data;
    for (int64_t line = begin; line < end; line++)
        for (int64_t w = 0; w < width; w++) {
            struct part part = part_at(pool, line % height, w);
            forward_at(pool, line / height, &part, y + (line * width + w) * channels);
        }
}

ls_status ls_cpu_pool_forward(const struct ls_op *op) {
    struct pool pool = {op, &op->tensors[LS_ARG_X].shape, &op->tensors[LS_ARG_Y].shape};
    ls_team_run(pool.out->dims[0] * pool.out->dims[1], 1, forward_lines, &pool);
    return LS_OK;
}

/* left: [channels], to work with. */
static void backward_at(const struct pool *pool, int64_t row, const struct part *part, int64_t from, float *left) {
    const struct ls_tensor *t = pool->op->tensors;
    int64_t channels = pool->in->dims[3];
    bool maximum = pool->op->pool == LS_POOL_MAX;
    const float *dy = (const float *)t[LS_ARG_DY].data + from;
    float share = 1 / (float)(extent(part, 0) * extent(part, 1));
    if (maximum) memcpy(left, dy, (size_t)channels * sizeof(float));
    for (int64_t h = part->begin[0]; h < part->end[0]; h += part->step[0])
        for (int64_t w = part->begin[1]; w < part->end[1]; w += part->step[1]) {
            int64_t at = offset_of(pool, row, h, w);
            float *dx = (float *)t[LS_ARG_DX].data + at;
            if (maximum)
                pool_give(dx, (const float *)t[LS_ARG_X].data + at, (const float *)t[LS_ARG_Y].data + from, left,
                          channels);
            else
                pool_add(dx, dy, share, channels);
        }
}

static void backward_rows(void *context, int64_t begin, int64_t end) {
    const struct pool *pool = context;
    int64_t height = pool->out->dims[1], width = pool->out->dims[2], channels = pool->out->dims[3];
    int64_t size = pool->in->dims[1] * pool->in->dims[2] * channels;
    for (int64_t row = begin; row < end; row++) {
        memset((float *)pool->op->tensors[LS_ARG_DX].data + row * size, 0, (size_t)size * sizeof(float));
        for (int64_t h = 0; h < height; h++)
            for (int64_t w = 0; w < width; w++) {
                struct part part = part_at(pool, h, w);
                backward_at(pool, row, &part, ((row * height + h) * width + w) * channels,
                            (float *)pool->op->workspace + row * channels);
            }
    }
}

ls_status ls_cpu_pool_build(struct ls_device *device, struct ls_op *op) {
    const ls_shape *dx = &op->tensors[LS_ARG_DX].shape;
    (void)device;
    if (op->kind == LS_OP_POOL_BACKWARD) op->workspace_size = (size_t)(dx->dims[0] * dx->dims[3]) * sizeof(float);
    return LS_OK;
}

ls_status ls_cpu_pool_backward(const struct ls_op *op) {
    struct pool pool = {op, &op->tensors[LS_ARG_DX].shape, &op->tensors[LS_ARG_DY].shape};
    ls_team_run(pool.in->dims[0], 1, backward_rows, &pool);
    return LS_OK;
}
