/* Batch normalization over all axes but the last, with what follows it at once: a residual is added, then ReLU or
 * ReLU6. Sums run over chunks of rows whose size follows from the shape: in float32 inside a chunk, in double over the
 * chunks, in order; so the bits do not depend on the number of threads. Variances are taken around each chunk's own
 * mean while it is in the cache. Mirrors keras.layers.BatchNormalization (not TensorFlow's fused kernel: the moving
 * variance is that of the batch, not corrected for its size). */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/dtype.h"
#include "device/cpu/cpu.h"
#include "device/cpu/team.h"

#define CHUNK_FLOATS 32768 /* half of a small second-level cache */
#define CHUNK_ROWS   256

/* One run. Arrays a channel have [channels], those of the image [rows][channels]. */
struct norm {
    int64_t rows, channels, chunk, chunks;
    const float *x, *residual, *y, *dy; /* residual, y: may be NULL */
    float *out, *dresidual;
    const float *mean, *factor, *beta; /* before the activation: (x - mean) factor + beta + residual */
    const float *shift, *slope;        /* backward: dx = factor g - shift - (x - mean) slope */
    float low, high;                   /* of the activation, where x alone decides; infinite for none */
    float mask_low, mask_high;         /* of the activation, where y decides */
    float *partial_a, *partial_b;      /* [chunks][channels] */
};

/* The workspace: what a channel has, the partial sums, then two doubles a channel. */
enum { FACTOR = 0, BETA, SHIFT, SLOPE, CHANNEL_ARRAYS };

static int64_t chunk_rows(int64_t channels) {
    int64_t rows = CHUNK_FLOATS / channels;
    return rows < 1 ? 1 : rows > CHUNK_ROWS ? CHUNK_ROWS : rows;
}

static int64_t channels_of(const struct ls_op *op) {
    const ls_shape *shape = &op->tensors[LS_ARG_X].shape;
    return shape->dims[shape->rank - 1];
}

static struct norm describe(const struct ls_op *op) {
    struct norm n = {.channels = channels_of(op), .x = op->tensors[LS_ARG_X].data};
    n.rows = ls_shape_count(&op->tensors[LS_ARG_X].shape) / n.channels;
    n.chunk = chunk_rows(n.channels);
    n.chunks = (n.rows + n.chunk - 1) / n.chunk;
    n.residual = op->tensors[LS_ARG_R].data;
    n.y = op->tensors[LS_ARG_Y].data;
    n.dy = op->tensors[LS_ARG_DY].data;
    n.dresidual = op->tensors[LS_ARG_DR].data;
    n.low = n.mask_low = op->activation == LS_LINEAR ? -INFINITY : 0;
    n.high = n.mask_high = op->activation == LS_RELU6 ? 6 : INFINITY;
    return n;
}

static struct norm begin(const struct ls_op *op) {
    struct norm n = describe(op);
    n.partial_a = (float *)op->workspace + CHANNEL_ARRAYS * n.channels;
    n.partial_b = n.partial_a + n.chunks * n.channels;
    return n;
}

ls_status ls_cpu_batch_norm_build(struct ls_device *device, struct ls_op *op) {
    (void)device;
    const struct norm n = describe(op);
    size_t floats = (size_t)(CHANNEL_ARRAYS + 2 * n.chunks) * (size_t)n.channels;
    op->workspace_size = floats * sizeof(float) + 2 * (size_t)n.channels * sizeof(double);
    return LS_OK;
}

/* Two sums a channel in double. */
static double *sums_of(const struct ls_op *op, const struct norm *n) {
    size_t floats = (size_t)(CHANNEL_ARRAYS + 2 * n->chunks) * (size_t)n->channels;
    return (double *)(void *)((char *)op->workspace + floats * sizeof(float));
}

static int64_t rows_in(const struct norm *n, int64_t chunk) {
    int64_t left = n->rows - chunk * n->chunk;
    return left < n->chunk ? left : n->chunk;
}

/* ---- the batch's statistics ---- */

LS_CLONES static void norm_chunk_statistics(const float *restrict x, int64_t rows, int64_t channels,
                                            float *restrict mean, float *restrict squares) {
    float share = 1 / (float)rows;
    for (int64_t c = 0; c < channels; c++) mean[c] = squares[c] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c++) mean[c] += x[r * channels + c];
    for (int64_t c = 0; c < channels; c++) mean[c] *= share;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            float away = x[r * channels + c] - mean[c];
            squares[c] += away * away;
        }
}

static void statistics_part(void *context, int64_t begin, int64_t end) {
    const struct norm *n = context;
    for (int64_t k = begin; k < end; k++)
        norm_chunk_statistics(n->x + k * n->chunk * n->channels, rows_in(n, k), n->channels,
                              n->partial_a + k * n->channels, n->partial_b + k * n->channels);
}

LS_CLONES static void norm_add_means(const struct norm *n, double *restrict mean) {
    for (int64_t c = 0; c < n->channels; c++) mean[c] = 0;
    for (int64_t k = 0; k < n->chunks; k++) {
        double rows = (double)rows_in(n, k);
        for (int64_t c = 0; c < n->channels; c++) mean[c] += rows * (double)n->partial_a[k * n->channels + c];
    }
    for (int64_t c = 0; c < n->channels; c++) mean[c] /= (double)n->rows;
}

LS_CLONES static void norm_add_variances(const struct norm *n, const double *restrict mean, double *restrict variance) {
    for (int64_t c = 0; c < n->channels; c++) variance[c] = 0;
    for (int64_t k = 0; k < n->chunks; k++) {
        double rows = (double)rows_in(n, k);
        for (int64_t c = 0; c < n->channels; c++) {
            double away = (double)n->partial_a[k * n->channels + c] - mean[c];
            variance[c] += (double)n->partial_b[k * n->channels + c] + rows * (away * away);
        }
    }
    for (int64_t c = 0; c < n->channels; c++) variance[c] /= (double)n->rows;
}

/* This replica's part in the change of the moving statistics. */
static void give_statistics(const struct ls_op *op, const double *mean, const double *variance) {
    const float *moving_mean = op->tensors[LS_ARG_MEAN].data, *moving_variance = op->tensors[LS_ARG_VARIANCE].data;
    float *dmean = op->tensors[LS_ARG_DMEAN].data, *dvariance = op->tensors[LS_ARG_DVARIANCE].data;
    double share = (1 - (double)op->momentum) * (double)op->tensors[LS_ARG_X].shape.dims[0] * (double)*op->scale;
    for (int64_t c = 0; c < channels_of(op); c++) {
        dmean[c] = (float)((mean[c] - (double)moving_mean[c]) * share);
        dvariance[c] = (float)((variance[c] - (double)moving_variance[c]) * share);
    }
}

/* ---- y ---- */

/* Fills in what a channel has, from its mean and 1 / deviation. */
static void set_channels(const struct ls_op *op, struct norm *n, const float *mean, const float *inverse) {
    const float *gamma = op->tensors[LS_ARG_GAMMA].data, *beta = op->tensors[LS_ARG_BETA].data;
    float *factor = (float *)op->workspace + FACTOR * n->channels, *added = (float *)op->workspace + BETA * n->channels;
    for (int64_t c = 0; c < n->channels; c++) {
        factor[c] = gamma ? gamma[c] * inverse[c] : inverse[c];
        added[c] = beta ? beta[c] : 0;
    }
    n->mean = mean;
    n->factor = factor;
    n->beta = added;
}

LS_CLONES static void norm_apply(const struct norm *n, const float *restrict x, float *restrict y, int64_t rows) {
    const float *restrict mean = n->mean, *restrict factor = n->factor, *restrict beta = n->beta;
    float low = n->low, high = n->high;
    int64_t channels = n->channels;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            float value = (x[r * channels + c] - mean[c]) * factor[c] + beta[c];
            value = value < low ? low : value; /* NaN stays */
            y[r * channels + c] = value > high ? high : value;
        }
}

LS_CLONES static void norm_apply_residual(const struct norm *n, const float *restrict x, const float *residual,
                                          float *y, int64_t rows) {
    const float *restrict mean = n->mean, *restrict factor = n->factor, *restrict beta = n->beta;
    float low = n->low, high = n->high;
    int64_t channels = n->channels;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            float value = (x[r * channels + c] - mean[c]) * factor[c] + beta[c] + residual[r * channels + c];
            value = value < low ? low : value;
            y[r * channels + c] = value > high ? high : value;
        }
}

static void apply_part(void *context, int64_t begin, int64_t end) {
    const struct norm *n = context;
    int64_t at = begin * n->chunk * n->channels;
    int64_t last = end * n->chunk < n->rows ? end * n->chunk : n->rows, rows = last - begin * n->chunk;
    if (n->residual)
        norm_apply_residual(n, n->x + at, n->residual + at, n->out + at, rows);
    else
        norm_apply(n, n->x + at, n->out + at, rows);
}

static ls_status apply(const struct ls_op *op, struct norm *n, const float *mean, const float *inverse) {
    set_channels(op, n, mean, inverse);
    n->out = op->tensors[LS_ARG_Y].data;
    ls_team_run(n->chunks, 1, apply_part, n);
    return LS_OK;
}

ls_status ls_cpu_batch_norm_forward(const struct ls_op *op) {
    struct norm n = begin(op);
    float *saved = op->tensors[LS_ARG_SAVED].data, *inverse = saved + n.channels;
    double *mean = sums_of(op, &n), *variance = mean + n.channels;
    ls_team_run(n.chunks, 1, statistics_part, &n);
    norm_add_means(&n, mean);
    norm_add_variances(&n, mean, variance);
    give_statistics(op, mean, variance);
    for (int64_t c = 0; c < n.channels; c++) {
        saved[c] = (float)mean[c];
        inverse[c] = (float)(1 / sqrt(variance[c] + (double)op->epsilon));
    }
    return apply(op, &n, saved, inverse);
}

ls_status ls_cpu_batch_norm_again(const struct ls_op *op) {
    struct norm n = begin(op);
    const float *saved = op->tensors[LS_ARG_SAVED].data;
    return apply(op, &n, saved, saved + n.channels);
}

ls_status ls_cpu_batch_norm_inference(const struct ls_op *op) {
    struct norm n = begin(op);
    const float *variance = op->tensors[LS_ARG_VARIANCE].data;
    float *inverse = (float *)op->workspace + SHIFT * n.channels;
    for (int64_t c = 0; c < n.channels; c++) inverse[c] = (float)(1 / sqrt((double)variance[c] + (double)op->epsilon));
    return apply(op, &n, op->tensors[LS_ARG_MEAN].data, inverse);
}

/* ---- backward ---- */

/* g is the gradient before activation and residual. Sums of g and of g (x - mean) in a chunk. */
LS_CLONES static void norm_chunk_gradients(const struct norm *n, const float *restrict x, const float *restrict dy,
                                           int64_t rows, float *restrict sum, float *restrict product) {
    const float *restrict mean = n->mean, *restrict factor = n->factor, *restrict beta = n->beta;
    float low = n->low, high = n->high;
    int64_t channels = n->channels;
    for (int64_t c = 0; c < channels; c++) sum[c] = product[c] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            float away = x[r * channels + c] - mean[c], value = away * factor[c] + beta[c];
            float g = value > low && value < high ? dy[r * channels + c] : 0;
            sum[c] += g;
            product[c] += g * away;
        }
}

LS_CLONES static void norm_mask(const struct norm *n, const float *restrict y, const float *dy, float *g,
                                int64_t count) {
    float low = n->mask_low, high = n->mask_high;
    for (int64_t i = 0; i < count; i++) g[i] = y[i] > low && y[i] < high ? dy[i] : 0;
}

static void gradients_part(void *context, int64_t begin, int64_t end) {
    const struct norm *n = context;
    for (int64_t k = begin; k < end; k++) {
        int64_t at = k * n->chunk * n->channels, rows = rows_in(n, k);
        if (n->dresidual) norm_mask(n, n->y + at, n->dy + at, n->dresidual + at, rows * n->channels);
        norm_chunk_gradients(n, n->x + at, (n->dresidual ? n->dresidual : n->dy) + at, rows,
                             n->partial_a + k * n->channels, n->partial_b + k * n->channels);
    }
}

LS_CLONES static void norm_add_gradients(const struct norm *n, double *restrict sum, double *restrict product) {
    for (int64_t c = 0; c < n->channels; c++) sum[c] = product[c] = 0;
    for (int64_t k = 0; k < n->chunks; k++)
        for (int64_t c = 0; c < n->channels; c++) {
            sum[c] += (double)n->partial_a[k * n->channels + c];
            product[c] += (double)n->partial_b[k * n->channels + c];
        }
}

/* The variables' gradients, and what dx needs of a channel. */
static void finish_gradients(const struct ls_op *op, struct norm *n, const double *sum, const double *product,
                             const float *inverse) {
    float *dgamma = op->tensors[LS_ARG_DGAMMA].data, *dbeta = op->tensors[LS_ARG_DBETA].data;
    float *shift = (float *)op->workspace + SHIFT * n->channels, *slope = (float *)op->workspace + SLOPE * n->channels;
    for (int64_t c = 0; c < n->channels; c++) {
        double gamma_part = product[c] * (double)inverse[c], factor = (double)n->factor[c] / (double)n->rows;
        if (dgamma) dgamma[c] = (float)gamma_part;
        if (dbeta) dbeta[c] = (float)sum[c];
        shift[c] = (float)(factor * sum[c]);
        slope[c] = (float)(factor * gamma_part * (double)inverse[c]);
    }
    n->shift = shift;
    n->slope = slope;
}

LS_CLONES static void norm_backward(const struct norm *n, const float *restrict x, const float *dy, float *dx,
                                    int64_t rows) {
    const float *restrict mean = n->mean, *restrict factor = n->factor, *restrict beta = n->beta;
    const float *restrict shift = n->shift, *restrict slope = n->slope;
    float low = n->low, high = n->high;
    int64_t channels = n->channels;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            float away = x[r * channels + c] - mean[c], value = away * factor[c] + beta[c];
            float g = value > low && value < high ? dy[r * channels + c] : 0;
            dx[r * channels + c] = g * factor[c] - shift[c] - away * slope[c];
        }
}

static void backward_part(void *context, int64_t begin, int64_t end) {
    const struct norm *n = context;
    int64_t at = begin * n->chunk * n->channels;
    int64_t last = end * n->chunk < n->rows ? end * n->chunk : n->rows;
    norm_backward(n, n->x + at, (n->dresidual ? n->dresidual : n->dy) + at, n->out + at, last - begin * n->chunk);
}

ls_status ls_cpu_batch_norm_backward(const struct ls_op *op) {
    struct norm n = begin(op);
    const float *saved = op->tensors[LS_ARG_SAVED].data, *inverse = saved + n.channels;
    double *sum = sums_of(op, &n), *product = sum + n.channels;
    set_channels(op, &n, saved, inverse);
    n.out = op->tensors[LS_ARG_DX].data;
    if (n.dresidual) n.low = -INFINITY, n.high = INFINITY; /* y decides, which has the residual in it */
    ls_team_run(n.chunks, 1, gradients_part, &n);
    norm_add_gradients(&n, sum, product);
    finish_gradients(op, &n, sum, product, inverse);
    if (n.out) ls_team_run(n.chunks, 1, backward_part, &n);
    return LS_OK;
}
