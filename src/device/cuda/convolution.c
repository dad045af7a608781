/* Chooses the kernels of a convolution: depthwise kernels of our own if each filter sees one channel, a product of
 * matrices if it sees one position, cuDNN for most others. A product over copies of windows does what cuDNN has no
 * algorithm for, or only slow ones. */
#include "device/cuda/depthwise.h"
#include "device/cuda/products.h"

/* ---- bias ---- */

static struct ls_cuda_columns columns_of(const struct ls_op *op, int place) {
    const struct ls_tensor *images = &op->tensors[place];
    const int64_t *dims = images->shape.dims;
    return (struct ls_cuda_columns){images->data, (size_t)(dims[0] * dims[1] * dims[2]), (size_t)dims[3], images->dtype,
                                    ls_cuda_stream(op)};
}

ls_status ls_cuda_convolution_add_bias(const struct ls_op *op) {
    const struct ls_cuda_columns columns = columns_of(op, LS_ARG_Y);
    const float *bias = op->tensors[LS_ARG_B].data;
    return bias ? ls_cuda_launched(op, ls_cuda_add_bias(&columns, bias, false)) : LS_OK;
}

ls_status ls_cuda_convolution_sum_bias(const struct ls_op *op) {
    const struct ls_cuda_columns columns = columns_of(op, LS_ARG_DY);
    float *sums = op->tensors[LS_ARG_DB].data;
    return sums ? ls_cuda_launched(op, ls_cuda_sum_columns(&columns, NULL, sums, ls_cuda_workspace(op))) : LS_OK;
}

size_t ls_cuda_convolution_sum_workspace(const struct ls_op *op) {
    const int64_t *dims = op->tensors[LS_ARG_DY].shape.dims;
    bool weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS || op->kind == LS_OP_DEPTHWISE_BACKWARD;
    if (!weights || !op->tensors[LS_ARG_DB].data) return 0;
    return ls_cuda_sum_columns_workspace((size_t)(dims[0] * dims[1] * dims[2]), (size_t)dims[3]);
}

/* ---- ways ---- */

static ls_status build_depthwise(struct ls_cuda_device *device, struct ls_op *op) {
    (void)device;
    op->workspace_size = ls_cuda_depthwise_workspace(op);
    ls_cuda_need(op, ls_cuda_convolution_sum_workspace(op));
    return LS_OK;
}

static ls_status run_depthwise(const struct ls_op *op) {
    if (op->kind == LS_OP_CONVOLUTION_FORWARD) return ls_cuda_depthwise_forward(op);
    if (op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA) return ls_cuda_depthwise_backward_data(op);
    ls_status status = ls_cuda_depthwise_backward(op);
    return status ? status : ls_cuda_convolution_sum_bias(op); /* with the same workspace, one after the other */
}

static const struct ls_cuda_kind depthwise = {run_depthwise, build_depthwise, NULL},
                                 one_position = {ls_cuda_dense_run, ls_cuda_dense_build, ls_cuda_products_discard},
                                 general = {ls_cuda_dnn_run, ls_cuda_dnn_build, ls_cuda_dnn_discard},
                                 by_windows = {ls_cuda_windows_run, ls_cuda_windows_build, ls_cuda_products_discard};

static bool sees_one_position(const struct ls_window *w) {
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 1 || w->strides[i] != 1 || w->before[i] || w->after[i]) return false;
    return w->groups == 1;
}

/* Parts of a batch are for devices whose caches are to be kept warm. */
ls_status ls_cuda_convolution_build(struct ls_cuda_device *device, struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    if (op->parts > 1)
        return ls_fail(LS_UNIMPLEMENTED, "%s: %s: a batch in parts is for devices with host memory",
                       device->device.name, ls_op_name(op->kind));
    handle->way = ls_cuda_is_depthwise(op)         ? &depthwise
                  : sees_one_position(&op->window) ? &one_position
                  : ls_cuda_windows_are_faster(op) ? &by_windows
                                                   : &general;
    ls_status status = handle->way->build(device, op);
    if (status != LS_UNIMPLEMENTED || handle->way != &general) return status;
    handle->way = &by_windows;
    return handle->way->build(device, op);
}

ls_status ls_cuda_convolution_run(const struct ls_op *op) {
    return ls_cuda_op_of(op)->way->run(op);
}

void ls_cuda_convolution_discard(struct ls_op *op) {
    const struct ls_cuda_kind *way = ls_cuda_op_of(op)->way;
    if (way->discard) way->discard(op);
}
