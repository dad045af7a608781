/* Convolutions by cuDNN, through its older interface: images by channels (rows, height, width, channels), filters
 * brought to (filters, height, width, channels) of the workspace and their gradients back from there. cuDNN pads alike
 * on both sides only; where an op does not, the filter gets zeros on the side that is padded less, and the other side's
 * padding holds for both. Few channels of a stride of 2 come in squares, without padding (squares.c). Mirrors
 * tf.nn.conv2d. */
#include "device/cuda/products.h"

#include <string.h>

#include "base/new.h"

/* ---- build ---- */

/* The layout of the kernel's elements in cuDNN's filter. With uneven padding the gaps of dilation are stored as zeros
 * too. */
static struct ls_cuda_filter lay_out(const struct ls_op *op) {
    const struct ls_window *w = &op->window;
    const int64_t *d = op->tensors[ls_op_kernel(op)].shape.dims;
    struct ls_cuda_filter made = {.channels = d[2], .filters = d[3]};
    for (int i = 0; i < 2; i++) {
        int64_t more = w->after[i] - w->before[i];
        made.kernel[i] = w->kernel[i];
        made.step[i] = more ? w->dilation[i] : 1;
        made.offset[i] = more > 0 ? more : 0;
        made.taps[i] = (w->kernel[i] - 1) * made.step[i] + 1 + (more > 0 ? more : -more);
    }
    return made;
}

/* A 16-bit op's float32 dw comes from a filter of the images' type: cuDNN wants one type for all three. */
static cudnnDataType_t cudnn_type(const struct ls_op *op) {
    ls_dtype dtype = op->tensors[ls_op_out(op)].dtype;
    return dtype == LS_BFLOAT16 ? CUDNN_DATA_BFLOAT16 : dtype == LS_FLOAT16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* A convolution in cuDNN's terms. */
struct geometry {
    int64_t image[4], out[4], taps[2], channels, filters, groups;
    int pad[2], strides[2], dilation[2];
};

static struct geometry geometry_of(const struct ls_op *op, const struct ls_cuda_dnn *d) {
    const struct ls_window *w = &op->window;
    const struct ls_cuda_squares *s = &d->squares;
    struct geometry made = {.channels = d->squared ? s->pitch : d->layout.channels, .groups = w->groups};
    memcpy(made.image, op->tensors[ls_op_image(op)].shape.dims, sizeof(made.image));
    memcpy(made.out, op->tensors[ls_op_out(op)].shape.dims, sizeof(made.out));
    made.filters = made.out[3];
    for (int i = 0; i < 2; i++) {
        made.taps[i] = d->squared ? s->taps[i] : d->layout.taps[i];
        made.strides[i] = made.dilation[i] = 1;
        if (d->squared) {
            made.image[i + 1] = s->squares[i];
            continue;
        }
        made.pad[i] = (int)(w->before[i] > w->after[i] ? w->before[i] : w->after[i]);
        made.strides[i] = (int)w->strides[i];
        made.dilation[i] = (int)(w->dilation[i] / d->layout.step[i]);
    }
    if (d->squared) made.image[3] = s->pitch;
    return made;
}

static cudnnStatus_t describe_tensor(const struct ls_op *op, const int64_t *d, cudnnTensorDescriptor_t made) {
    return cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NHWC, cudnn_type(op), (int)d[0], (int)d[3], (int)d[1],
                                      (int)d[2]);
}

/* Adds in float32 for every type. */
static cudnnStatus_t describe_window(const struct ls_op *op, const struct geometry *g, struct ls_cuda_dnn *d) {
    cudnnStatus_t code = cudnnSetFilter4dDescriptor(d->filter, cudnn_type(op), CUDNN_TENSOR_NHWC, (int)g->filters,
                                                    (int)g->channels, (int)g->taps[0], (int)g->taps[1]);
    if (!code)
        code =
            cudnnSetConvolution2dDescriptor(d->convolution, g->pad[0], g->pad[1], g->strides[0], g->strides[1],
                                            g->dilation[0], g->dilation[1], CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    return code ? code : cudnnSetConvolutionGroupCount(d->convolution, (int)g->groups);
}

static ls_status make_descriptors(struct ls_op *op, const struct geometry *g, struct ls_cuda_dnn *d) {
    cudnnStatus_t code = cudnnCreateTensorDescriptor(&d->image);
    if (!code) code = cudnnCreateTensorDescriptor(&d->out);
    if (!code) code = cudnnCreateFilterDescriptor(&d->filter);
    if (!code) code = cudnnCreateConvolutionDescriptor(&d->convolution);
    if (!code) code = describe_tensor(op, g->image, d->image);
    if (!code) code = describe_tensor(op, g->out, d->out);
    if (!code) code = describe_window(op, g, d);
    return ls_cuda_dnn_check(op, code);
}

/* cuDNN counts elements with 32 bits. */
static ls_status check_sizes(const struct ls_op *op, const struct geometry *g) {
    if (g->image[0] * g->image[1] * g->image[2] * g->image[3] <= INT32_MAX &&
        g->out[0] * g->out[1] * g->out[2] * g->out[3] <= INT32_MAX)
        return LS_OK;
    return ls_fail(LS_RESOURCE_EXHAUSTED, "%s: %s: cuDNN takes images of 2^31 elements at most; make the batch smaller",
                   ls_cuda_op_of(op)->device->device.name, ls_op_name(op->kind));
}

static void plan_workspace(struct ls_op *op, const struct geometry *g, struct ls_cuda_dnn *d) {
    size_t element = op->tensors[ls_op_out(op)].dtype == LS_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    if (d->squared)
        d->image_size = ls_cuda_piece((size_t)(g->image[0] * g->image[1] * g->image[2] * g->image[3]) * element);
    d->filter_size = ls_cuda_piece((size_t)(g->taps[0] * g->taps[1] * g->channels * g->filters) * element);
    ls_cuda_need(op, d->image_size + d->filter_size + d->scratch);
    ls_cuda_need(op, ls_cuda_convolution_sum_workspace(op));
}

void ls_cuda_dnn_discard(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    struct ls_cuda_dnn *d = handle->own;
    if (!d) return;
    if (d->convolution) (void)cudnnDestroyConvolutionDescriptor(d->convolution);
    if (d->filter) (void)cudnnDestroyFilterDescriptor(d->filter);
    if (d->out) (void)cudnnDestroyTensorDescriptor(d->out);
    if (d->image) (void)cudnnDestroyTensorDescriptor(d->image);
    ls_free(d);
    handle->own = NULL;
}

static ls_status build_convolution(struct ls_op *op, cudnnHandle_t handle, bool squared) {
    LS_NEW(struct ls_cuda_dnn, made, "a convolution");
    ((struct ls_cuda_op *)op->handle)->own = made;
    made->squared = squared;
    if (squared)
        made->squares = ls_cuda_squares_of(op);
    else
        made->layout = lay_out(op);
    const struct geometry g = geometry_of(op, made);
    ls_status status = check_sizes(op, &g);
    if (!status) status = make_descriptors(op, &g, made);
    if (!status) status = ls_cuda_dnn_choose(op, handle, made);
    if (status)
        ls_cuda_dnn_discard(op);
    else
        plan_workspace(op, &g, made);
    return status;
}

/* A convolution that cuDNN does not do over squares is done as it is. */
ls_status ls_cuda_dnn_build(struct ls_cuda_device *device, struct ls_op *op) {
    cudnnHandle_t handle;
    ls_status status = ls_cuda_dnn_handle(device, &handle);
    if (status) return status;
    if (ls_cuda_squares_fit(op) && !build_convolution(op, handle, true)) return LS_OK;
    return build_convolution(op, handle, false);
}

/* ---- run ---- */

static char *filter_memory(const struct ls_op *op, const struct ls_cuda_dnn *d) {
    return ls_cuda_workspace(op) + d->image_size;
}

static ls_status square(const struct ls_op *op, const struct ls_cuda_dnn *d) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X];
    return ls_cuda_launched(
        op, ls_cuda_square_images(&d->squares, ls_cuda_workspace(op), x->data, x->dtype, ls_cuda_stream(op)));
}

static ls_status pack(const struct ls_op *op, const struct ls_cuda_dnn *d) {
    const struct ls_tensor *w = &op->tensors[LS_ARG_W];
    void *to = filter_memory(op, d);
    cudaStream_t stream = ls_cuda_stream(op);
    return ls_cuda_launched(op, d->squared ? ls_cuda_square_filter(&d->squares, to, w->data, w->dtype, stream)
                                           : ls_cuda_pack_filter(&d->layout, to, w->data, w->dtype, stream));
}

static ls_status unpack(const struct ls_op *op, const struct ls_cuda_dnn *d) {
    float *dw = op->tensors[LS_ARG_DW].data;
    const void *from = filter_memory(op, d);
    ls_dtype dtype = op->tensors[LS_ARG_DY].dtype;
    cudaStream_t stream = ls_cuda_stream(op);
    return ls_cuda_launched(op, d->squared ? ls_cuda_unsquare_filter(&d->squares, dw, from, dtype, stream)
                                           : ls_cuda_unpack_filter(&d->layout, dw, from, dtype, stream));
}

static cudnnStatus_t convolve(const struct ls_op *op, cudnnHandle_t handle, const struct ls_cuda_dnn *d) {
    const float one = 1, zero = 0;
    void *image = d->squared ? ls_cuda_workspace(op) : op->tensors[ls_op_image(op)].data;
    void *out = op->tensors[ls_op_out(op)].data, *filter = filter_memory(op, d);
    void *scratch = d->scratch ? filter_memory(op, d) + d->filter_size : NULL;
    if (op->kind == LS_OP_CONVOLUTION_FORWARD)
        return cudnnConvolutionForward(handle, &one, d->image, image, d->filter, filter, d->convolution,
                                       (cudnnConvolutionFwdAlgo_t)d->algorithm, scratch, d->scratch, &zero, d->out,
                                       out);
    if (op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA)
        return cudnnConvolutionBackwardData(handle, &one, d->filter, filter, d->out, out, d->convolution,
                                            (cudnnConvolutionBwdDataAlgo_t)d->algorithm, scratch, d->scratch, &zero,
                                            d->image, image);
    return cudnnConvolutionBackwardFilter(handle, &one, d->image, image, d->out, out, d->convolution,
                                          (cudnnConvolutionBwdFilterAlgo_t)d->algorithm, scratch, d->scratch, &zero,
                                          d->filter, filter);
}

ls_status ls_cuda_dnn_run(const struct ls_op *op) {
    const struct ls_cuda_dnn *d = ls_cuda_op_of(op)->own;
    bool weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    cudnnHandle_t handle;
    ls_status status = ls_cuda_dnn_handle(ls_cuda_op_of(op)->device, &handle);
    if (!status) status = weights ? ls_cuda_convolution_sum_bias(op) : pack(op, d);
    if (!status && d->squared) status = square(op, d);
    if (!status) status = ls_cuda_dnn_check(op, convolve(op, handle, d));
    if (!status && weights) status = unpack(op, d);
    if (!status && op->kind == LS_OP_CONVOLUTION_FORWARD) status = ls_cuda_convolution_add_bias(op);
    return status;
}
