/* Layer normalization and RMS normalization, over the last axis of each position. Arithmetic is float32. A sum over a
 * position runs in LANES sums side by side for BLOCK elements, whose sums are added in double, in order. Sums over the
 * positions, dgamma and dbeta, run in float32 for CHUNK positions, then in double over the chunks. So neither the
 * number of threads nor the width of vectors changes a bit. Mirrors keras.layers.LayerNormalization and
 * RMSNormalization. */
#include <math.h>

#include "base/clones.h"
#include "base/shape.h"
#include "device/cpu/cpu.h"

#define LANES 16
#define BLOCK 1024  /* elements, a multiple of LANES */
#define CHUNK 64    /* positions */
#define GRAIN 16384 /* elements that are worth a thread */

/* One run. Arrays of a position have [columns]; saved has [positions][2]: mean, inverse. */
struct layer_norm {
    int64_t positions, columns, chunks;
    bool centered;
    float epsilon;
    const float *x, *dy;
    const float *gamma, *beta; /* in the workspace, ones and zeros where the op has none */
    float *saved, *y, *dx;     /* saved: forward may have none; dx: may be NULL */
    float *dgamma, *dbeta;     /* may be NULL */
    float *partials;           /* [chunks][2][columns]: dgamma, dbeta */
};

/* ---- sums over a position ---- */

static inline float joined_lanes(float *lanes) {
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

static inline float block_sum(const float *x, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += x[i + k];
    for (int k = 0; i + k < count; k++) lanes[k] += x[i + k];
    return joined_lanes(lanes);
}

static inline float block_squares(const float *x, float mean, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (int k = 0; i + k < count; k++) lanes[k] += (x[i + k] - mean) * (x[i + k] - mean);
    return joined_lanes(lanes);
}

static inline int64_t block_at(const struct layer_norm *n, int64_t begin) {
    return n->columns - begin < BLOCK ? n->columns - begin : BLOCK;
}

/* ---- forward ---- */

/* The variance is taken around the mean, in a second pass while x is in the cache. */
static inline void moments(const struct layer_norm *n, const float *x, float *mean, float *inverse) {
    double sum = 0, squares = 0, count = (double)n->columns;
    for (int64_t i = 0; n->centered && i < n->columns; i += BLOCK) sum += (double)block_sum(x + i, block_at(n, i));
    *mean = (float)(sum / count);
    for (int64_t i = 0; i < n->columns; i += BLOCK) squares += (double)block_squares(x + i, *mean, block_at(n, i));
    *inverse = (float)(1 / sqrt(squares / count + (double)n->epsilon));
}

LS_CLONES static void layer_norm_apply(const struct layer_norm *n, int64_t begin, int64_t end) {
    const float *restrict gamma = n->gamma, *restrict beta = n->beta;
    int64_t columns = n->columns;
    for (int64_t p = begin; p < end; p++) {
        const float *restrict x = n->x + p * columns;
        float *restrict y = n->y + p * columns, mean, inverse;
        moments(n, x, &mean, &inverse);
        for (int64_t i = 0; i < columns; i++) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
        if (n->saved) n->saved[2 * p] = mean, n->saved[2 * p + 1] = inverse;
    }
}

static void layer_norm_part(void *context, int64_t begin, int64_t end) {
    layer_norm_apply(context, begin, end);
}

/* ---- backward ---- */

/* Sums of h = dy gamma, and of h (x - mean). */
static inline float block_h(const float *dy, const float *gamma, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += dy[i + k] * gamma[i + k];
    for (int k = 0; i + k < count; k++) lanes[k] += dy[i + k] * gamma[i + k];
    return joined_lanes(lanes);
}

static inline float block_products(const float *dy, const float *gamma, const float *x, float mean, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += dy[i + k] * gamma[i + k] * (x[i + k] - mean);
    for (int k = 0; i + k < count; k++) lanes[k] += dy[i + k] * gamma[i + k] * (x[i + k] - mean);
    return joined_lanes(lanes);
}

/* Of one position: with x^ = (x - mean) inverse and h = dy gamma, dx = inverse (h - mean(h) - x^ mean(h x^)), where RMS
 * normalization has no mean(h). dx may be dy. */
LS_CLONES static void layer_norm_dx(const struct layer_norm *n, int64_t position) {
    int64_t columns = n->columns, at = position * columns;
    const float *x = n->x + at, *dy = n->dy + at, *gamma = n->gamma;
    float *dx = n->dx + at, mean = n->saved[2 * position], inverse = n->saved[2 * position + 1];
    double sum = 0, product = 0;
    for (int64_t i = 0; n->centered && i < columns; i += BLOCK)
        sum += (double)block_h(dy + i, gamma + i, block_at(n, i));
    for (int64_t i = 0; i < columns; i += BLOCK)
        product += (double)block_products(dy + i, gamma + i, x + i, mean, block_at(n, i));
    float shift = (float)(sum / (double)columns);
    float slope = (float)(product * (double)inverse * (double)inverse / (double)columns);
    for (int64_t i = 0; i < columns; i++) dx[i] = inverse * (dy[i] * gamma[i] - shift - (x[i] - mean) * slope);
}

/* Adds a position's part of the gradients of gamma and beta. */
LS_CLONES static void layer_norm_add(const struct layer_norm *n, int64_t position, float *restrict dgamma,
                                     float *restrict dbeta) {
    int64_t columns = n->columns, at = position * columns;
    const float *restrict x = n->x + at, *restrict dy = n->dy + at;
    float mean = n->saved[2 * position], inverse = n->saved[2 * position + 1];
    for (int64_t i = 0; i < columns; i++) {
        dgamma[i] += dy[i] * ((x[i] - mean) * inverse);
        dbeta[i] += dy[i];
    }
}

static void layer_norm_chunk(const struct layer_norm *n, int64_t chunk) {
    float *dgamma = n->partials + chunk * 2 * n->columns, *dbeta = dgamma + n->columns;
    int64_t begin = chunk * CHUNK, end = begin + CHUNK < n->positions ? begin + CHUNK : n->positions;
    bool adds = n->dgamma || n->dbeta;
    for (int64_t i = 0; adds && i < 2 * n->columns; i++) dgamma[i] = 0;
    for (int64_t position = begin; position < end; position++) {
        if (adds) layer_norm_add(n, position, dgamma, dbeta);
        if (n->dx) layer_norm_dx(n, position);
    }
}

static void layer_norm_chunks(void *context, int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; chunk++) layer_norm_chunk(context, chunk);
}

/* Of some columns; at most LANES. */
LS_CLONES static void layer_norm_join(const struct layer_norm *n, const float *partials, float *sums, int64_t count) {
    double lanes[LANES] = {0};
    for (int64_t chunk = 0; chunk < n->chunks; chunk++)
        for (int64_t k = 0; k < count; k++) lanes[k] += (double)partials[chunk * 2 * n->columns + k];
    for (int64_t k = 0; k < count; k++) sums[k] = (float)lanes[k];
}

static void join_columns(void *context, int64_t begin, int64_t end) {
    const struct layer_norm *n = context;
    for (int64_t i = begin; i < end; i += LANES) {
        int64_t count = end - i < LANES ? end - i : LANES;
        if (n->dgamma) layer_norm_join(n, n->partials + i, n->dgamma + i, count);
        if (n->dbeta) layer_norm_join(n, n->partials + n->columns + i, n->dbeta + i, count);
    }
}

/* ---- ops ---- */

static struct layer_norm describe_layer_norm(const struct ls_op *op) {
    struct layer_norm n = {.columns = ls_op_channels(op), .centered = op->centered, .epsilon = op->epsilon};
    n.positions = ls_shape_count(&op->tensors[LS_ARG_X].shape) / n.columns;
    n.chunks = (n.positions + CHUNK - 1) / CHUNK;
    n.x = op->tensors[LS_ARG_X].data;
    n.y = op->tensors[LS_ARG_Y].data;
    n.saved = op->tensors[LS_ARG_SAVED].data;
    n.dy = op->tensors[LS_ARG_DY].data;
    n.dx = op->tensors[LS_ARG_DX].data;
    n.dgamma = op->tensors[LS_ARG_DGAMMA].data;
    n.dbeta = op->tensors[LS_ARG_DBETA].data;
    return n;
}

/* The workspace holds gamma and beta, then backward's partial sums. */
ls_status ls_cpu_layer_norm_build(struct ls_device *device, struct ls_op *op) {
    const struct layer_norm n = describe_layer_norm(op);
    int64_t chunks = op->kind == LS_OP_LAYER_NORM_BACKWARD ? n.chunks : 0;
    (void)device;
    op->workspace_size = (size_t)(2 + 2 * chunks) * (size_t)n.columns * sizeof(float);
    return LS_OK;
}

static struct layer_norm begin_layer_norm(const struct ls_op *op) {
    struct layer_norm n = describe_layer_norm(op);
    const float *gamma = op->tensors[LS_ARG_GAMMA].data, *beta = op->tensors[LS_ARG_BETA].data;
    float *both = op->workspace;
    for (int64_t i = 0; i < n.columns; i++) {
        both[i] = gamma ? gamma[i] : 1;
        both[n.columns + i] = beta ? beta[i] : 0;
    }
    n.gamma = both;
    n.beta = both + n.columns;
    n.partials = both + 2 * n.columns;
    return n;
}

ls_status ls_cpu_layer_norm_forward(const struct ls_op *op) {
    struct layer_norm n = begin_layer_norm(op);
    ls_team_run(n.positions, 1 + GRAIN / n.columns, layer_norm_part, &n);
    return LS_OK;
}

ls_status ls_cpu_layer_norm_backward(const struct ls_op *op) {
    struct layer_norm n = begin_layer_norm(op);
    ls_team_run(n.chunks, 1, layer_norm_chunks, &n);
    ls_team_run(n.columns, 1 + GRAIN / n.chunks, join_columns, &n);
    return LS_OK;
}
