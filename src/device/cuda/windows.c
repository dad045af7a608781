/* Convolutions as products of matrices over copies of what each window sees: for what cuDNN has no algorithm. They
 * take memory for all windows at once, and any padding and dilation; a kernel (height, width, channels, filters) is a
 * factor as it is. */
#include "device/cuda/kernels_products.h"
#include "device/cuda/products.h"

/* windows(positions, taps) and out(positions, filters). */
struct windows {
    struct ls_cuda_windows geometry;
    int64_t positions, taps, filters;
    struct ls_cuda_product product;
    size_t size; /* bytes of the windows, at the workspace's beginning */
};

static bool does_forward(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_FORWARD;
}
static bool does_data(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA;
}
static const struct ls_tensor *image_of(const struct ls_op *op) {
    return &op->tensors[does_data(op) ? LS_ARG_DX : LS_ARG_X];
}
static const struct ls_tensor *out_of(const struct ls_op *op) {
    return &op->tensors[does_forward(op) ? LS_ARG_Y : LS_ARG_DY];
}

static void measure(const struct ls_op *op, struct windows *made) {
    const struct ls_window *w = &op->window;
    const int64_t *image = image_of(op)->shape.dims, *out = out_of(op)->shape.dims;
    struct ls_cuda_windows *g = &made->geometry;
    g->rows = image[0];
    g->channels = image[3];
    for (int i = 0; i < 2; i++) {
        g->image[i] = image[i + 1];
        g->out[i] = out[i + 1];
        g->kernel[i] = w->kernel[i];
        g->strides[i] = w->strides[i];
        g->dilation[i] = w->dilation[i];
        g->before[i] = w->before[i];
    }
    made->positions = out[0] * out[1] * out[2];
    made->taps = w->kernel[0] * w->kernel[1] * image[3];
    made->filters = out[3];
    size_t each = image_of(op)->dtype == LS_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    made->size = ls_cuda_piece((size_t)made->positions * (size_t)made->taps * each);
}

/* y = windows w, windows' gradient = dy w transposed, dw = windows transposed dy. windows is the workspace; at build,
 * when there is none, a place that is aligned like one. */
static struct ls_cuda_matrices matrices_of(const struct ls_op *op, const struct windows *d, void *windows) {
    ls_dtype dtype = image_of(op)->dtype;
    struct ls_cuda_matrices m = {.rows = d->positions, .columns = d->filters, .depth = d->taps, .dtype = dtype};
    m.c_dtype = dtype;
    m.a = windows;
    m.b = op->tensors[LS_ARG_W].data;
    m.c = op->tensors[LS_ARG_Y].data;
    if (does_forward(op)) return m;
    if (does_data(op)) {
        m.columns = d->taps, m.depth = d->filters;
        m.transpose_b = true;
        m.a = out_of(op)->data;
        m.c = windows;
        return m;
    }
    m.rows = d->taps, m.depth = d->positions;
    m.transpose_a = true;
    m.b = out_of(op)->data;
    m.c = op->tensors[LS_ARG_DW].data;
    m.c_dtype = LS_FLOAT32;
    return m;
}

ls_status ls_cuda_windows_build(struct ls_cuda_device *device, struct ls_op *op) {
    (void)device;
    struct windows *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a convolution", sizeof(*made));
    ((struct ls_cuda_op *)op->handle)->own = made;
    measure(op, made);
    const struct ls_cuda_matrices matrices = matrices_of(op, made, (void *)(uintptr_t)LS_CUDA_PIECE);
    ls_status status = ls_cuda_product_build(op, &matrices, &made->product);
    ls_cuda_need(op, made->size + made->product.workspace);
    ls_cuda_need(op, ls_cuda_convolution_sum_workspace(op));
    if (status) ls_cuda_windows_discard(op);
    return status;
}

void ls_cuda_windows_discard(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    ls_free(handle->own);
    handle->own = NULL;
}

ls_status ls_cuda_windows_run(const struct ls_op *op) {
    struct windows *d = ls_cuda_op_of(op)->own;
    const struct ls_cuda_matrices matrices = matrices_of(op, d, ls_cuda_workspace(op));
    const struct ls_tensor *image = image_of(op);
    bool weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    cudaStream_t stream = ls_cuda_stream(op);
    ls_status status = weights ? ls_cuda_convolution_sum_bias(op) : LS_OK;
    if (!status && !does_data(op))
        status = ls_cuda_launched(
            op, ls_cuda_gather_windows(&d->geometry, ls_cuda_workspace(op), image->data, image->dtype, stream));
    if (!status) status = ls_cuda_product_run(op, &d->product, &matrices, ls_cuda_workspace(op) + d->size);
    if (!status && does_data(op))
        status = ls_cuda_launched(
            op, ls_cuda_scatter_windows(&d->geometry, image->data, ls_cuda_workspace(op), image->dtype, stream));
    return status || !does_forward(op) ? status : ls_cuda_convolution_add_bias(op);
}
