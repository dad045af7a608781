/* The arguments of the depthwise kernels, from an op. */
#include "device/cuda/depthwise.h"

#include "device/cuda/image.h"

static int image_of(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X;
}

static int out_of(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_FORWARD ? LS_ARG_Y : LS_ARG_DY;
}

static int kernel_of(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS ? LS_ARG_DW : LS_ARG_W;
}

bool ls_cuda_is_depthwise(const struct ls_op *op) {
    int64_t channels = op->tensors[image_of(op)].shape.dims[3];
    return op->window.groups == channels && channels > 1;
}

/* Threads take several channels where each has one filter. */
static struct ls_cuda_depthwise begin_depthwise(const struct ls_op *op) {
    static const int images[] = {LS_ARG_X, LS_ARG_W, LS_ARG_B, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, -1};
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_depthwise d = {.at = ls_cuda_windows_of(op, image_of(op), out_of(op))};
    d.multiplier = (int)(t[kernel_of(op)].shape.dims[3] / d.at.channels);
    d.dtype = t[out_of(op)].dtype;
    d.vector = d.multiplier > 1 ? 1 : ls_cuda_vector(op, d.at.channels, d.dtype, images);
    d.x = t[LS_ARG_X].data;
    d.w = t[LS_ARG_W].data;
    d.dy = t[LS_ARG_DY].data;
    d.bias = t[LS_ARG_B].data;
    d.dw = t[LS_ARG_DW].data;
    d.db = t[LS_ARG_DB].data;
    d.partials = op->workspace;
    return d;
}

/* The lines for the weights' gradient: ten sums of a channel fill a thread's registers with fewer channels. */
static struct ls_cuda_rows lines_of(const struct ls_cuda_depthwise *d, int vector) {
    static const struct ls_cuda_wish wish = {.blocks = 512, .rows = 2};
    return ls_cuda_rows_over((int64_t)d->at.images * d->at.out[0], (int64_t)d->at.channels * d->multiplier, vector,
                             wish);
}

static size_t partials_size(const struct ls_cuda_depthwise *d, int vector) {
    struct ls_cuda_rows lines = lines_of(d, vector);
    size_t sums = (size_t)d->at.kernel[0] * (size_t)d->at.kernel[1] + 1;
    return sums * (size_t)lines.chunks * (size_t)lines.channels * sizeof(float);
}

size_t ls_cuda_depthwise_workspace(const struct ls_op *op) {
    if (op->kind != LS_OP_CONVOLUTION_BACKWARD_WEIGHTS) return 0;
    struct ls_cuda_depthwise d = begin_depthwise(op);
    size_t wide = partials_size(&d, LS_CUDA_WEIGHT_CHANNELS), narrow = partials_size(&d, 1); /* as addresses will be */
    return wide > narrow ? wide : narrow;
}

ls_status ls_cuda_depthwise_forward(const struct ls_op *op) {
    struct ls_cuda_depthwise d = begin_depthwise(op);
    d.out = op->tensors[LS_ARG_Y].data;
    return ls_cuda_launched(op, ls_cuda_depthwise_y(&d, ls_cuda_stream(op)));
}

ls_status ls_cuda_depthwise_backward_data(const struct ls_op *op) {
    struct ls_cuda_depthwise d = begin_depthwise(op);
    d.out = op->tensors[LS_ARG_DX].data;
    return ls_cuda_launched(op, ls_cuda_depthwise_dx(&d, ls_cuda_stream(op)));
}

ls_status ls_cuda_depthwise_backward_weights(const struct ls_op *op) {
    struct ls_cuda_depthwise d = begin_depthwise(op);
    d.lines = lines_of(&d, d.vector > 1 ? LS_CUDA_WEIGHT_CHANNELS : 1);
    return ls_cuda_launched(op, ls_cuda_depthwise_dw(&d, ls_cuda_stream(op)));
}
