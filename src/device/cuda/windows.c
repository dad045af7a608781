/* Convolutions as products of matrices over copies of the elements that each window sees: those that cuDNN has no
 * algorithm for, and those in float32 that it is slower at. They take memory for all windows at once, and any padding
 * and dilation. A kernel (height, width, channels of a group, filters) is a factor as it is. Groups are done one after
 * the other: each is some of the channels and of the filters. */
#include "device/cuda/kernels_products.h"
#include "base/new.h"
#include "device/cuda/products.h"

/* The matrices of a group: windows(positions, taps) and out(positions, filters). */
struct windows {
    struct ls_cuda_gathered_windows geometry;
    int64_t positions, taps, filters;
    struct ls_cuda_product product;
    size_t size; /* bytes of the windows, at the workspace's beginning */
};

static size_t size_of(ls_dtype dtype) {
    return dtype == LS_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}
static bool goes_forward(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_FORWARD;
}
static bool does_data(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA;
}
static const struct ls_tensor *image_of(const struct ls_op *op) {
    return &op->tensors[ls_op_image(op)];
}
static const struct ls_tensor *out_of(const struct ls_op *op) {
    return &op->tensors[ls_op_out(op)];
}

static void measure_geometry(const struct ls_op *op, struct windows *made) {
    const struct ls_window *w = &op->window;
    const int64_t *image = image_of(op)->shape.dims, *out = out_of(op)->shape.dims;
    struct ls_cuda_gathered_windows *g = &made->geometry;
    g->rows = image[0];
    g->channels = image[3] / w->groups;
    g->pitch = image[3];
    for (int i = 0; i < 2; i++) {
        g->image[i] = image[i + 1];
        g->out[i] = out[i + 1];
        g->kernel[i] = w->kernel[i];
        g->strides[i] = w->strides[i];
        g->dilation[i] = w->dilation[i];
        g->before[i] = w->before[i];
    }
    made->positions = out[0] * out[1] * out[2];
    made->taps = w->kernel[0] * w->kernel[1] * g->channels;
    made->filters = out[3] / w->groups;
    made->size = ls_cuda_piece((size_t)made->positions * (size_t)made->taps * size_of(image_of(op)->dtype));
}

/* The address at which a group begins; groups are elements apart. ANY_GROUP gives an address that is aligned as every
 * group's is. */
#define ANY_GROUP (-1)
static void *in_group(const struct ls_tensor *tensor, int64_t elements, int64_t group) {
    uintptr_t place = (uintptr_t)tensor->data, step = (uintptr_t)elements * size_of(tensor->dtype);
    return (void *)(group == ANY_GROUP ? place | step : place + (uintptr_t)group * step);
}

/* y = windows w, windows' gradient = dy w transposed, dw = windows transposed dy. windows is the workspace; at build,
 * when there is none, a place that is aligned like one. */
static struct ls_cuda_matrices matrices_of(const struct ls_op *op, const struct windows *d, void *windows,
                                           int64_t group) {
    ls_dtype dtype = image_of(op)->dtype;
    int64_t all = d->filters * op->window.groups;
    struct ls_cuda_matrices m = {.rows = d->positions, .columns = d->filters, .depth = d->taps, .dtype = dtype};
    void *out = in_group(out_of(op), d->filters, group);
    m.c_dtype = dtype;
    m.a = windows;
    m.b = in_group(&op->tensors[LS_ARG_W], d->filters, group);
    m.c = out;
    m.b_pitch = m.c_pitch = all;
    if (goes_forward(op)) return m;
    if (does_data(op)) {
        m.columns = d->taps, m.depth = d->filters;
        m.transpose_b = true;
        m.a = out;
        m.c = windows;
        m.a_pitch = all, m.c_pitch = 0;
        return m;
    }
    m.rows = d->taps, m.depth = d->positions;
    m.transpose_a = true;
    m.b = out;
    m.c = in_group(&op->tensors[LS_ARG_DW], d->filters, group);
    m.c_dtype = LS_FLOAT32;
    return m;
}

/* Measured on an H200 (docs/gpu.md): products reach 45 of 51 TFLOP/s, cuDNN's forward pass 20 to 40, its gradients 4 to
 * 25. A copy of a window costs as much as its products with 64 filters. */
#define FILTERS_FORWARD  256 /* from which on the copy is worth it */
#define FILTERS_GRADIENT 128
#define FEW_CHANNELS     4                 /* that leave most of cuDNN's kernels idle */
#define MOST_WINDOWS     ((size_t)2 << 30) /* bytes */

bool ls_cuda_windows_are_faster(const struct ls_op *op) {
    const struct ls_window *w = &op->window;
    struct windows d = {0};
    if (op->tf32 || w->groups > 1 || image_of(op)->dtype != LS_FLOAT32) return false;
    measure_geometry(op, &d);
    bool single = w->kernel[0] * w->kernel[1] == 1; /* the copy is small: what the stride leaves of the image */
    bool few = d.geometry.channels <= FEW_CHANNELS && !does_data(op);
    bool many = d.filters >= (goes_forward(op) ? FILTERS_FORWARD : FILTERS_GRADIENT);
    return d.size <= MOST_WINDOWS && (single || few || many);
}

ls_status ls_cuda_windows_build(struct ls_cuda_device *device, struct ls_op *op) {
    (void)device;
    LS_NEW(struct windows, made, "a convolution");
    ((struct ls_cuda_op *)op->handle)->own = made;
    measure_geometry(op, made);
    const struct ls_cuda_matrices matrices =
        matrices_of(op, made, (void *)(uintptr_t)LS_CUDA_PIECE, op->window.groups > 1 ? ANY_GROUP : 0);
    ls_status status = ls_cuda_product_build(op, &matrices, &made->product);
    ls_cuda_need(op, made->size + made->product.workspace);
    ls_cuda_need(op, ls_cuda_convolution_sum_workspace(op));
    if (status) ls_cuda_products_discard(op);
    return status;
}

static ls_status run_group(const struct ls_op *op, struct windows *d, int64_t group) {
    void *windows = ls_cuda_workspace(op), *image = in_group(image_of(op), d->geometry.channels, group);
    const struct ls_cuda_matrices matrices = matrices_of(op, d, windows, group);
    ls_dtype dtype = image_of(op)->dtype;
    cudaStream_t stream = ls_cuda_stream(op);
    ls_status status = LS_OK;
    if (!does_data(op))
        status = ls_cuda_launched(op, ls_cuda_gather_windows(&d->geometry, windows, image, dtype, stream));
    if (!status) status = ls_cuda_product_run(op, &d->product, &matrices, (char *)windows + d->size);
    if (status || !does_data(op)) return status;
    return ls_cuda_launched(op, ls_cuda_scatter_windows(&d->geometry, image, windows, dtype, stream));
}

ls_status ls_cuda_windows_run(const struct ls_op *op) {
    struct windows *d = ls_cuda_op_of(op)->own;
    bool weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    ls_status status = weights ? ls_cuda_convolution_sum_bias(op) : LS_OK;
    for (int64_t group = 0; !status && group < op->window.groups; group++) status = run_group(op, d, group);
    return status || !goes_forward(op) ? status : ls_cuda_convolution_add_bias(op);
}
