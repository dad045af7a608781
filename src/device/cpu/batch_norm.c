/* Batch normalization over all axes but the last, fused with the next steps: a residual is added, then ReLU or ReLU6 is
 * applied. Sums run over chunks of rows whose size follows from the shape: in float32 inside a chunk, in double over
 * the chunks, in order, from one part of the batch to the next; so the bits do not depend on the number of threads.
 * Variances are taken around each chunk's own mean while it is in the cache, and joined as Chan, Golub and LeVeque do.
 * Mirrors keras.layers.BatchNormalization, synchronized or not, and the moving variance of TensorFlow's fused kernel.
 */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/shape.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/op_layers.h"

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

/* The workspace holds the values of each channel, then the partial sums. The handle holds two doubles a channel, sums
 * over the parts so far, and the number of values that they are of. */
enum { FACTOR = 0, BETA, INVERSE, CHANNEL_ARRAYS };

static int64_t chunk_rows(int64_t channels) {
    int64_t rows = CHUNK_FLOATS / channels;
    return rows < 1 ? 1 : rows > CHUNK_ROWS ? CHUNK_ROWS : rows;
}

static struct norm describe_norm(const struct ls_op *op) {
    struct norm n = {.channels = ls_op_channels(op), .x = op->tensors[LS_ARG_X].data};
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

static struct norm begin_chunks(const struct ls_op *op) {
    struct norm n = describe_norm(op);
    n.partial_a = (float *)op->workspace + CHANNEL_ARRAYS * n.channels;
    n.partial_b = n.partial_a + n.chunks * n.channels;
    return n;
}

ls_status ls_cpu_batch_norm_build(struct ls_device *device, struct ls_op *op) {
    (void)device;
    const struct norm n = describe_norm(op);
    op->workspace_size = (size_t)(CHANNEL_ARRAYS + 2 * n.chunks) * (size_t)n.channels * sizeof(float);
    if (op->kind != LS_OP_BATCH_NORM_FORWARD && op->kind != LS_OP_BATCH_NORM_BACKWARD) return LS_OK;
    op->handle = ls_alloc_array(2 * (size_t)n.channels + 1, sizeof(double));
    return op->handle ? LS_OK : ls_fail_memory("the sums of a batch norm", 2 * (size_t)n.channels * sizeof(double));
}

void ls_cpu_batch_norm_discard(struct ls_op *op) {
    ls_free(op->handle);
    op->handle = NULL;
}

/* Zeros at the first part. */
static double *sums_of(const struct ls_op *op, const struct norm *n) {
    if (!op->part) memset(op->handle, 0, 2 * (size_t)n->channels * sizeof(double));
    return op->handle;
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

/* Joins a chunk's mean and squares around it with those of the rows before, of which there are so many. With n_a =
 * before, n_b = rows and d the difference of the means: mean += d n_b / n, squares += squares_b + d^2 n_a n_b / n,
 * where n = n_a + n_b (Chan, Golub and LeVeque 1983). No difference of two large sums is taken, so nothing cancels. */
LS_CLONES static void norm_join(const float *restrict chunk_mean, const float *restrict chunk_squares, double rows,
                                double before, int64_t channels, double *restrict mean, double *restrict squares) {
    double share = rows / (before + rows), weight = before * share;
    for (int64_t c = 0; c < channels; c++) {
        double away = (double)chunk_mean[c] - mean[c];
        mean[c] += away * share;
        squares[c] += (double)chunk_squares[c] + away * away * weight;
    }
}

static void join_chunks(const struct ls_op *op, const struct norm *n, double *mean, double *squares) {
    int64_t before = op->part * n->rows;
    for (int64_t k = 0; k < n->chunks; k++)
        norm_join(n->partial_a + k * n->channels, n->partial_b + k * n->channels, (double)rows_in(n, k),
                  (double)(before + k * n->chunk), n->channels, mean, squares);
}

static int64_t parts_of(const struct ls_op *op) {
    return op->parts > 1 ? op->parts : 1;
}

/* Joins the statistics over all replicas: mean, and squares around it, are this replica's before and all replicas'
 * after. *count, which follows them, is then the number of all replicas' values. They are added in double, so
 * cancellation stays far below float32. Sums travel, for they can be added: mean becomes the sum of x and squares the
 * sum of x^2. One exchange carries both and the count. Replicas may have different numbers of rows. */
static ls_status share_statistics(const struct ls_op *op, int64_t channels, double *mean, double *squares,
                                  double *count) {
    if (!op->exchange) return LS_OK;
    for (int64_t c = 0; c < channels; c++) {
        squares[c] += mean[c] * mean[c] * *count;
        mean[c] *= *count;
    }
    ls_status status = op->exchange->add(op->exchange->context, mean, ls_op_layers_exchanged(op));
    for (int64_t c = 0; !status && c < channels; c++) {
        mean[c] /= *count;
        squares[c] = fmax(squares[c] - mean[c] * mean[c] * *count, 0);
    }
    return status;
}

/* Computes this replica's part in the change of the moving statistics. scale is 1 over the rows of all replicas, so
 * examples times scale is this replica's part of the batch, and the parts of all replicas add up to 1. The sum over
 * replicas is (1 - momentum) times (the weighted mean of their statistics less the moving one). of is rows - 1 where
 * TensorFlow's fused kernel gives the unbiased variance (Bessel). */
static void give_changes(const struct ls_op *op, const double *mean, const double *squares, double rows) {
    const float *moving_mean = op->tensors[LS_ARG_MEAN].data, *moving_variance = op->tensors[LS_ARG_VARIANCE].data;
    float *dmean = op->tensors[LS_ARG_DMEAN].data, *dvariance = op->tensors[LS_ARG_DVARIANCE].data;
    double examples = (double)(op->tensors[LS_ARG_X].shape.dims[0] * parts_of(op));
    double share = (1 - (double)op->momentum) * examples * (double)*op->scale;
    double of = op->fused && rows > 1 ? rows - 1 : rows;
    for (int64_t c = 0; c < ls_op_channels(op); c++) {
        dmean[c] = (float)((mean[c] - (double)moving_mean[c]) * share);
        dvariance[c] = (float)((squares[c] / of - (double)moving_variance[c]) * share);
    }
}

/* rows: of all that mean and squares are of. */
static void give_statistics(const struct ls_op *op, const struct norm *n, const double *mean, const double *squares,
                            double rows) {
    float *saved = op->tensors[LS_ARG_SAVED].data, *inverse = saved + n->channels;
    give_changes(op, mean, squares, rows);
    for (int64_t c = 0; c < n->channels; c++) {
        saved[c] = (float)mean[c];
        inverse[c] = (float)(1 / sqrt(squares[c] / rows + (double)op->epsilon));
    }
}

/* ---- y ---- */

/* Fills in the values of a channel, from its mean and 1 / deviation. */
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
    struct norm n = begin_chunks(op);
    const float *saved = op->tensors[LS_ARG_SAVED].data;
    double *mean = sums_of(op, &n), *squares = mean + n.channels, *count = squares + n.channels;
    ls_team_run(n.chunks, 1, statistics_part, &n);
    join_chunks(op, &n, mean, squares);
    if (!ls_op_last_part(op)) return LS_OK;
    *count = (double)(n.rows * parts_of(op));
    ls_status status = share_statistics(op, n.channels, mean, squares, count);
    if (status) return status;
    give_statistics(op, &n, mean, squares, *count);
    return op->tensors[LS_ARG_Y].data ? apply(op, &n, saved, saved + n.channels) : LS_OK;
}

ls_status ls_cpu_batch_norm_again(const struct ls_op *op) {
    struct norm n = begin_chunks(op);
    const float *saved = op->tensors[LS_ARG_SAVED].data;
    return apply(op, &n, saved, saved + n.channels);
}

ls_status ls_cpu_batch_norm_inference(const struct ls_op *op) {
    struct norm n = begin_chunks(op);
    const float *variance = op->tensors[LS_ARG_VARIANCE].data;
    float *inverse = (float *)op->workspace + INVERSE * n.channels;
    for (int64_t c = 0; c < n.channels; c++) inverse[c] = (float)(1 / sqrt((double)variance[c] + (double)op->epsilon));
    return apply(op, &n, op->tensors[LS_ARG_MEAN].data, inverse);
}

/* ---- backward ---- */

/* g is the gradient before activation and residual. Sums of g and of g (x - mean) in a chunk. The value before the
 * activation is computed again from x, unless y decides: reading x costs less than keeping another tensor from forward
 * to backward. */
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
    for (int64_t k = 0; k < n->chunks; k++)
        for (int64_t c = 0; c < n->channels; c++) {
            sum[c] += (double)n->partial_a[k * n->channels + c];
            product[c] += (double)n->partial_b[k * n->channels + c];
        }
}

/* Computes this replica's part of the variables' gradients. */
static void give_gradients(const struct ls_op *op, const struct norm *n, const double *sum, const double *product) {
    float *dgamma = op->tensors[LS_ARG_DGAMMA].data, *dbeta = op->tensors[LS_ARG_DBETA].data;
    const float *inverse = (const float *)op->tensors[LS_ARG_SAVED].data + n->channels;
    for (int64_t c = 0; c < n->channels; c++) {
        if (dgamma) dgamma[c] = (float)(product[c] * (double)inverse[c]);
        if (dbeta) dbeta[c] = (float)sum[c];
    }
}

/* Computes the values that dx needs of each channel: shift, then slope. rows is the number of rows of all replicas over
 * which the sums run. Ioffe and Szegedy 2015: with x^ = (x - mean) inverse, dx = factor (g - mean(g) - x^ mean(g x^)).
 * shift is factor mean(g), and slope is factor inverse mean(g x^), to be multiplied by x - mean. */
static void give_shifts(const struct ls_op *op, const struct norm *n, const double *sum, const double *product,
                        double rows) {
    float *shifts = op->tensors[LS_ARG_SHIFTS].data;
    const float *inverse = (const float *)op->tensors[LS_ARG_SAVED].data + n->channels;
    for (int64_t c = 0; shifts && c < n->channels; c++) {
        double gamma_part = product[c] * (double)inverse[c], factor = (double)n->factor[c] / rows;
        shifts[c] = (float)(factor * sum[c]);
        shifts[n->channels + c] = (float)(factor * gamma_part * (double)inverse[c]);
    }
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

static void norm_backward_part(void *context, int64_t begin, int64_t end) {
    const struct norm *n = context;
    int64_t at = begin * n->chunk * n->channels;
    int64_t last = end * n->chunk < n->rows ? end * n->chunk : n->rows;
    norm_backward(n, n->x + at, (n->dresidual ? n->dresidual : n->dy) + at, n->out + at, last - begin * n->chunk);
}

ls_status ls_cpu_batch_norm_backward_data(const struct ls_op *op) {
    struct norm n = begin_chunks(op);
    const float *saved = op->tensors[LS_ARG_SAVED].data;
    set_channels(op, &n, saved, saved + n.channels);
    if (n.dresidual) n.low = -INFINITY, n.high = INFINITY; /* y decided */
    n.out = op->tensors[LS_ARG_DX].data;
    n.shift = op->tensors[LS_ARG_SHIFTS].data;
    n.slope = n.shift + n.channels;
    ls_team_run(n.chunks, 1, norm_backward_part, &n);
    return LS_OK;
}

/* The gradients of gamma and beta are given before the exchange, which turns sum and product into those of all
 * replicas: these gradients are added with all others at the end of the step, and would count several times. */
ls_status ls_cpu_batch_norm_backward(const struct ls_op *op) {
    struct norm n = begin_chunks(op);
    const float *saved = op->tensors[LS_ARG_SAVED].data;
    double *sum = sums_of(op, &n), *product = sum + n.channels, *count = product + n.channels;
    set_channels(op, &n, saved, saved + n.channels);
    if (n.dresidual) n.low = -INFINITY, n.high = INFINITY; /* y decides, which has the residual in it */
    ls_team_run(n.chunks, 1, gradients_part, &n);
    norm_add_gradients(&n, sum, product);
    if (!ls_op_last_part(op)) return LS_OK;
    give_gradients(op, &n, sum, product);
    *count = (double)(n.rows * parts_of(op));
    ls_status status = op->exchange ? op->exchange->add(op->exchange->context, sum, ls_op_layers_exchanged(op)) : LS_OK;
    if (status) return status;
    give_shifts(op, &n, sum, product, *count);
    return op->tensors[LS_ARG_DX].data ? ls_cpu_batch_norm_backward_data(op) : LS_OK;
}
