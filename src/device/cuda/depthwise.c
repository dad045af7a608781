/* The arguments of the depthwise kernels, from an op. */
#include "device/cuda/depthwise.h"

#include "device/cuda/image.h"

static bool has_weights(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS || op->kind == LS_OP_DEPTHWISE_BACKWARD;
}

bool ls_cuda_is_depthwise(const struct ls_op *op) {
    if (op->kind == LS_OP_DEPTHWISE_BACKWARD) return true;
    int64_t channels = op->tensors[ls_op_image(op)].shape.dims[3];
    return op->window.groups == channels && channels > 1;
}

/* Threads take several channels where each has one filter. */
static struct ls_cuda_depthwise begin_depthwise(const struct ls_op *op) {
    static const int images[] = {LS_ARG_X, LS_ARG_W, LS_ARG_B, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, -1};
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_depthwise d = {.at = ls_cuda_windows_of(op, ls_op_image(op), ls_op_out(op))};
    d.multiplier = (int)(t[ls_op_kernel(op)].shape.dims[3] / d.at.channels);
    d.dtype = t[ls_op_out(op)].dtype;
    d.vector = d.multiplier > 1 ? 1 : ls_cuda_vector(op, d.at.channels, d.dtype, images);
    d.x = t[LS_ARG_X].data;
    d.w = t[LS_ARG_W].data;
    d.dy = t[LS_ARG_DY].data;
    d.bias = t[LS_ARG_B].data;
    d.dw = t[LS_ARG_DW].data;
    d.partials = op->workspace;
    return d;
}

/* ---- 3 by 3 taps ---- */

/* In backward all blocks are there at once, have many items each, and write their sums once. The order of sums must not
 * depend on the device: so many multiprocessors has an H100 or H200. */
#define MULTIPROCESSORS 132

static bool has_strips(const struct ls_cuda_depthwise *d) {
    const struct ls_cuda_windows *w = &d->at;
    return d->vector > 1 && w->kernel[0] == 3 && w->kernel[1] == 3 && w->dilation[0] == 1 && w->dilation[1] == 1 &&
           w->strides[0] == w->strides[1] && w->strides[0] <= 2;
}

/* Of groups of columns, each sees `seen` from first on, and the next group's begin step further on. */
static bool is_inner(int groups, int first, int step, int seen, int size) {
    return first + 1 >= 0 && first + (groups - 1) * step + seen - 2 < size;
}

/* The strips of an image whose windows begin stride apart in another one of so many columns, the first one at first. */
static void choose_strips(struct ls_cuda_depthwise *d, const int size[2], int stride, int first, int columns_seen,
                          bool back) {
    const int64_t image[] = {d->at.images, size[0], size[1], d->at.channels};
    bool wide = stride == 1 && size[1] % LS_CUDA_STRIP_WIDE == 0 && size[1] % LS_CUDA_STRIP_COLUMNS;
    int bytes = (int)ls_dtype_size(d->dtype), columns = wide ? LS_CUDA_STRIP_WIDE : LS_CUDA_STRIP_COLUMNS;
    for (;; columns = LS_CUDA_STRIP_COLUMNS) {
        int seen = (columns - 1) * stride + 3, groups = size[1] / columns;
        int blocks = columns == LS_CUDA_STRIP_WIDE ? LS_CUDA_WIDE_BLOCKS : LS_CUDA_BACK_BLOCKS;
        d->strips = ls_cuda_strips_over(image, LS_CUDA_STRIP_BYTES / bytes, columns, bytes,
                                        back ? blocks * MULTIPROCESSORS : 0);
        d->inner = size[1] % columns == 0 && is_inner(groups, first, columns * stride, seen, columns_seen);
        if (columns == LS_CUDA_STRIP_COLUMNS || d->inner) return;
    }
}

/* Items of squares, whose elements meet the same elements of dy: see depthwise_3x3_back.cu. */
static void choose_squares(struct ls_cuda_depthwise *d) {
    int64_t squares[] = {d->at.images, 0, 0, d->at.channels};
    for (int i = 0; i < 2; i++) squares[i + 1] = (d->at.image[i] - 1 + d->at.before[i]) / 2 - d->at.before[i] / 2 + 1;
    int bytes = (int)ls_dtype_size(d->dtype);
    d->strips =
        ls_cuda_strips_over(squares, LS_CUDA_SQUARE_BYTES / bytes, 1, bytes, LS_CUDA_BACK_BLOCKS * MULTIPROCESSORS);
}

static void choose_back_strips(struct ls_cuda_depthwise *d) {
    if (d->at.strides[0] == 2)
        choose_squares(d);
    else
        choose_strips(d, d->at.image, 1, d->at.before[1] - 2, d->at.out[1], true);
    d->chunks = d->strips.chunks;
}

/* dx of stride 1 is dy filtered by the kernel turned by half a turn. */
static struct ls_cuda_depthwise turned_of(const struct ls_cuda_depthwise *d) {
    struct ls_cuda_depthwise t = *d;
    for (int i = 0; i < 2; i++) {
        t.at.image[i] = d->at.out[i];
        t.at.out[i] = d->at.image[i];
        t.at.before[i] = 2 - d->at.before[i];
    }
    t.turned = true;
    t.x = d->dy;
    t.bias = NULL;
    return t;
}

static cudaError_t filter_3x3(const struct ls_op *op, struct ls_cuda_depthwise *d) {
    choose_strips(d, d->at.out, d->at.strides[0], -d->at.before[1], d->at.image[1], false);
    return ls_cuda_depthwise_3x3(d, ls_cuda_stream(op));
}

/* ---- any window ---- */

static void choose_lines(struct ls_cuda_depthwise *d, int vector) {
    static const struct ls_cuda_wish wish = {.blocks = 512, .rows = 2};
    d->lines =
        ls_cuda_rows_over((int64_t)d->at.images * d->at.out[0], (int64_t)d->at.channels * d->multiplier, vector, wish);
    d->chunks = d->lines.chunks;
}

static size_t partials_size(const struct ls_cuda_depthwise *d) {
    size_t taps = (size_t)d->at.kernel[0] * (size_t)d->at.kernel[1];
    return taps * (size_t)d->chunks * (size_t)d->at.channels * (size_t)d->multiplier * sizeof(float);
}

size_t ls_cuda_depthwise_workspace(const struct ls_op *op) {
    if (!has_weights(op)) return 0;
    struct ls_cuda_depthwise d = begin_depthwise(op);
    choose_lines(&d, 1); /* as addresses will be that are not aligned */
    size_t narrow = partials_size(&d);
    if (has_strips(&d))
        choose_back_strips(&d);
    else
        choose_lines(&d, d.vector);
    size_t wide = partials_size(&d);
    return wide > narrow ? wide : narrow;
}

/* ---- runs ---- */

ls_status ls_cuda_depthwise_forward(const struct ls_op *op) {
    struct ls_cuda_depthwise d = begin_depthwise(op);
    d.out = op->tensors[LS_ARG_Y].data;
    return ls_cuda_launched(op, has_strips(&d) ? filter_3x3(op, &d) : ls_cuda_depthwise_y(&d, ls_cuda_stream(op)));
}

ls_status ls_cuda_depthwise_backward_data(const struct ls_op *op) {
    struct ls_cuda_depthwise d = begin_depthwise(op);
    d.out = op->tensors[LS_ARG_DX].data;
    if (!has_strips(&d)) return ls_cuda_launched(op, ls_cuda_depthwise_dx(&d, ls_cuda_stream(op)));
    if (d.at.strides[0] == 1) {
        struct ls_cuda_depthwise turned = turned_of(&d);
        return ls_cuda_launched(op, filter_3x3(op, &turned));
    }
    d.dw = NULL;
    d.x = d.out; /* nothing is read from there */
    choose_back_strips(&d);
    return ls_cuda_launched(op, ls_cuda_depthwise_3x3_back(&d, ls_cuda_stream(op)));
}

/* In one pass where there are strips; else dx, which may be x, comes last. */
ls_status ls_cuda_depthwise_backward(const struct ls_op *op) {
    struct ls_cuda_depthwise d = begin_depthwise(op);
    bool strips = has_strips(&d), data = op->kind == LS_OP_DEPTHWISE_BACKWARD;
    cudaStream_t stream = ls_cuda_stream(op);
    if (data) d.out = op->tensors[LS_ARG_DX].data;
    if (strips)
        choose_back_strips(&d);
    else
        choose_lines(&d, d.vector);
    cudaError_t error = strips ? ls_cuda_depthwise_3x3_back(&d, stream) : ls_cuda_depthwise_dw(&d, stream);
    if (error == cudaSuccess) error = ls_cuda_depthwise_finish(&d, stream);
    if (error == cudaSuccess && data && !strips) error = ls_cuda_depthwise_dx(&d, stream);
    return ls_cuda_launched(op, error);
}
