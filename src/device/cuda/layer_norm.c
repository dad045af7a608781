/* Layer normalization: the arguments of its kernels. Mirrors device/cpu/layer_norm.c, in another order of adding. */
#include "base/shape.h"
#include "device/cuda/image.h"
#include "device/cuda/kernels_image.h"

static const struct ls_cuda_wish sums_wish = {.blocks = 512, .rows = 8};
/* The tensors of which a thread reads or writes many channels at once. */
static const int wide[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, LS_ARG_GAMMA, LS_ARG_BETA, -1}, nothing[] = {-1};

static struct ls_cuda_rows sums_over(const struct ls_op *op, int vector) {
    int64_t channels = ls_op_channels(op), rows = ls_shape_count(&op->tensors[LS_ARG_X].shape) / channels;
    return ls_cuda_rows_over(rows, channels, vector, sums_wish);
}

static size_t layer_norm_partials(const struct ls_op *op, int vector) {
    const struct ls_cuda_rows sums = sums_over(op, vector);
    return 2 * (size_t)sums.chunks * (size_t)sums.channels * sizeof(float);
}

/* The addresses are not known yet: backward takes one channel a thread if they are not aligned. */
ls_status ls_cuda_layer_norm_build(struct ls_cuda_device *device, struct ls_op *op) {
    (void)device;
    if (op->kind != LS_OP_LAYER_NORM_BACKWARD) return LS_OK;
    size_t one = layer_norm_partials(op, 1);
    size_t many = layer_norm_partials(op, ls_cuda_vector(op, ls_op_channels(op), op->tensors[LS_ARG_X].dtype, nothing));
    op->workspace_size = one > many ? one : many;
    return LS_OK;
}

static struct ls_cuda_layer_norm layer_norm_of(const struct ls_op *op, int out) {
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_layer_norm n = {.channels = ls_op_channels(op), .centered = op->centered, .epsilon = op->epsilon};
    n.rows = ls_shape_count(&t[LS_ARG_X].shape) / n.channels;
    n.dtype = t[LS_ARG_X].dtype;
    n.vector = ls_cuda_vector(op, n.channels, n.dtype, wide);
    n.x = t[LS_ARG_X].data;
    n.dy = t[LS_ARG_DY].data;
    n.out = t[out].data;
    n.gamma = t[LS_ARG_GAMMA].data;
    n.beta = t[LS_ARG_BETA].data;
    n.saved = t[LS_ARG_SAVED].data;
    n.dgamma = t[LS_ARG_DGAMMA].data;
    n.dbeta = t[LS_ARG_DBETA].data;
    n.sums = sums_over(op, n.vector);
    n.partials = op->workspace;
    return n;
}

ls_status ls_cuda_layer_norm_forward(const struct ls_op *op) {
    const struct ls_cuda_layer_norm n = layer_norm_of(op, LS_ARG_Y);
    return ls_cuda_launched(op, ls_cuda_layer_norm_y(&n, ls_cuda_stream(op)));
}

ls_status ls_cuda_layer_norm_backward(const struct ls_op *op) {
    const struct ls_cuda_layer_norm n = layer_norm_of(op, LS_ARG_DX);
    cudaStream_t stream = ls_cuda_stream(op);
    ls_status status = n.dgamma || n.dbeta ? ls_cuda_launched(op, ls_cuda_layer_norm_gradients(&n, stream)) : LS_OK;
    return status || !n.out ? status : ls_cuda_launched(op, ls_cuda_layer_norm_dx(&n, stream));
}
