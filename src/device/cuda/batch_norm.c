/* Batch normalization: the arguments of its kernels. Synchronized statistics leave the device in the middle: the run
 * waits for the sums, adds them over all replicas, and goes on with the totals. A plan with such an op is never
 * captured. Mirrors device/cpu/batch_norm.c, in another order of adding. */
#include <math.h>

#include "base/shape.h"
#include "base/memory.h"
#include "device/cuda/image.h"
#include "device/cuda/kernels_image.h"
#include "device/op_layers.h"

enum { SUM_WAVES = 1, PASS_WAVES = 4 }; /* at most: each block of sums has its own partials */
/* The tensors of which a thread reads or writes many channels at once. */
static const int vectors[] = {LS_ARG_X,     LS_ARG_R,      LS_ARG_Y,    LS_ARG_DY,   LS_ARG_DX,
                              LS_ARG_DR,    LS_ARG_GAMMA,  LS_ARG_BETA, LS_ARG_MEAN, LS_ARG_VARIANCE,
                              LS_ARG_SAVED, LS_ARG_SHIFTS, -1};
static const int none[] = {-1};

static struct ls_cuda_stripes rows_over(const struct ls_op *op, int vector, int waves) {
    int64_t channels = ls_op_channels(op);
    return ls_cuda_stripes_over(ls_shape_count(&op->tensors[LS_ARG_X].shape) / channels, channels, vector, waves);
}

static int vector_of(const struct ls_op *op, const int *places) {
    return ls_cuda_vector(op, ls_op_channels(op), op->tensors[LS_ARG_X].dtype, places);
}

static bool adds_sums(const struct ls_op *op) {
    return op->kind == LS_OP_BATCH_NORM_FORWARD || op->kind == LS_OP_BATCH_NORM_BACKWARD;
}

static ls_status make_sums(struct ls_cuda_device *device, struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    size_t count = ls_op_layers_exchanged(op);
    if (!count) return LS_OK;
    void *sums;
    ls_status status = device->device.ops->queue->allocate_host(&device->device, count * sizeof(double), &sums);
    if (!status) handle->own = sums;
    return status;
}

ls_status ls_cuda_batch_norm_build(struct ls_cuda_device *device, struct ls_op *op) {
    if (op->parts > 1)
        return ls_fail(LS_UNIMPLEMENTED, "%s: %s takes a batch as a whole, not in %lld parts", ls_op_name(op->kind),
                       device->device.name, (long long)op->parts);
    if (!adds_sums(op)) return LS_OK;
    int vector = vector_of(op, none); /* 1 if addresses will not be aligned */
    struct ls_cuda_stripes wide = rows_over(op, vector, SUM_WAVES), narrow = rows_over(op, 1, SUM_WAVES);
    size_t size = ls_cuda_norm_partials_size(&wide), other = ls_cuda_norm_partials_size(&narrow);
    op->workspace_size = size > other ? size : other;
    return make_sums(device, op);
}

void ls_cuda_batch_norm_discard(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    if (handle->own) handle->device->device.ops->queue->release_host(&handle->device->device, handle->own);
    handle->own = NULL;
}

/* The arguments that all kernels have in common. */
static struct ls_cuda_norm begin_norm(const struct ls_op *op, int waves) {
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_norm n = {.rows = rows_over(op, vector_of(op, vectors), waves), .dtype = t[LS_ARG_X].dtype};
    n.x = t[LS_ARG_X].data;
    n.dy = t[LS_ARG_DY].data;
    n.mean = t[LS_ARG_SAVED].data;
    n.inverse = n.mean ? n.mean + n.rows.channels : NULL;
    n.gamma = t[LS_ARG_GAMMA].data;
    n.beta = t[LS_ARG_BETA].data;
    n.epsilon = op->epsilon;
    n.low = op->activation == LS_LINEAR ? -INFINITY : 0;
    n.high = op->activation == LS_RELU6 ? 6 : INFINITY;
    n.partials = op->workspace;
    return n;
}

static struct ls_cuda_norm_sums begin_sums(const struct ls_op *op, const struct ls_cuda_norm *n) {
    return (struct ls_cuda_norm_sums){.rows = n->rows,
                                      .partials = n->partials,
                                      .sums = ls_cuda_op_of(op)->own,
                                      .count = (double)n->rows.rows,
                                      .epsilon = op->epsilon};
}

/* Waits for this replica's sums, which are on their way to s->sums, and adds those of the other replicas. */
static ls_status exchange(const struct ls_op *op, struct ls_cuda_norm_sums *s) {
    struct ls_device *device = &ls_cuda_op_of(op)->device->device;
    ls_status status = device->ops->queue->synchronize(device);
    double *count = s->sums + 2 * s->rows.channels;
    *count = s->count;
    if (!status) status = op->exchange->add(op->exchange->context, s->sums, ls_op_layers_exchanged(op));
    s->count = *count;
    s->partials = NULL;
    return status;
}

typedef cudaError_t finish_fn(const struct ls_cuda_norm_sums *sums, cudaStream_t stream);

static ls_status finish_sums(const struct ls_op *op, finish_fn *kernel, struct ls_cuda_norm_sums *sums) {
    cudaStream_t stream = ls_cuda_stream(op);
    ls_status status = ls_cuda_launched(op, kernel(sums, stream));
    if (status || !op->exchange) return status;
    status = exchange(op, sums);
    return status ? status : ls_cuda_launched(op, kernel(sums, stream));
}

/* ---- forward ---- */

static ls_status apply_norm(const struct ls_op *op, struct ls_cuda_norm *n) {
    n->residual = op->tensors[LS_ARG_R].data;
    n->out = op->tensors[LS_ARG_Y].data;
    return ls_cuda_launched(op, ls_cuda_norm_apply(n, ls_cuda_stream(op)));
}

ls_status ls_cuda_batch_norm_again(const struct ls_op *op) {
    struct ls_cuda_norm n = begin_norm(op, PASS_WAVES);
    return apply_norm(op, &n);
}

ls_status ls_cuda_batch_norm_inference(const struct ls_op *op) {
    struct ls_cuda_norm n = begin_norm(op, PASS_WAVES);
    n.mean = op->tensors[LS_ARG_MEAN].data;
    n.variance = op->tensors[LS_ARG_VARIANCE].data;
    n.inverse = NULL;
    return apply_norm(op, &n);
}

static struct ls_cuda_norm_sums statistics_of(const struct ls_op *op, const struct ls_cuda_norm *n) {
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_norm_sums s = begin_sums(op, n);
    s.share = (1 - (double)op->momentum) * (double)t[LS_ARG_X].shape.dims[0] * (double)*op->scale;
    s.fused = op->fused;
    s.moving_mean = t[LS_ARG_MEAN].data;
    s.moving_variance = t[LS_ARG_VARIANCE].data;
    s.saved = t[LS_ARG_SAVED].data;
    s.dmean = t[LS_ARG_DMEAN].data;
    s.dvariance = t[LS_ARG_DVARIANCE].data;
    return s;
}

ls_status ls_cuda_batch_norm_forward(const struct ls_op *op) {
    struct ls_cuda_norm n = begin_norm(op, SUM_WAVES);
    struct ls_cuda_norm_sums s = statistics_of(op, &n);
    ls_status status = ls_cuda_launched(op, ls_cuda_norm_moments(&n, ls_cuda_stream(op)));
    if (!status) status = finish_sums(op, ls_cuda_norm_statistics, &s);
    return status || !op->tensors[LS_ARG_Y].data ? status : ls_cuda_batch_norm_again(op);
}

/* ---- backward ---- */

static struct ls_cuda_norm_sums shifts_of(const struct ls_op *op, const struct ls_cuda_norm *n) {
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_norm_sums s = begin_sums(op, n);
    s.inverse = n->inverse;
    s.gamma = n->gamma;
    s.dgamma = t[LS_ARG_DGAMMA].data;
    s.dbeta = t[LS_ARG_DBETA].data;
    s.shifts = t[LS_ARG_SHIFTS].data;
    return s;
}

ls_status ls_cuda_batch_norm_backward_data(const struct ls_op *op) {
    struct ls_cuda_norm n = begin_norm(op, PASS_WAVES);
    if (op->tensors[LS_ARG_DR].data) n.dy = op->tensors[LS_ARG_DR].data, n.low = -INFINITY, n.high = INFINITY;
    n.out = op->tensors[LS_ARG_DX].data;
    n.shift = op->tensors[LS_ARG_SHIFTS].data;
    n.slope = n.shift + n.rows.channels;
    return ls_cuda_launched(op, ls_cuda_norm_data(&n, ls_cuda_stream(op)));
}

ls_status ls_cuda_batch_norm_backward(const struct ls_op *op) {
    struct ls_cuda_norm n = begin_norm(op, SUM_WAVES);
    struct ls_cuda_norm_sums s = shifts_of(op, &n);
    n.dresidual = op->tensors[LS_ARG_DR].data;
    if (n.dresidual) n.y = op->tensors[LS_ARG_Y].data; /* which has the residual in it, and so decides */
    ls_status status = ls_cuda_launched(op, ls_cuda_norm_gradients(&n, ls_cuda_stream(op)));
    if (!status) status = finish_sums(op, ls_cuda_norm_shifts, &s);
    return status || !op->tensors[LS_ARG_DX].data ? status : ls_cuda_batch_norm_backward_data(op);
}
