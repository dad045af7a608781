/* The handles of cublasLt and cuDNN, one of each a device, and their errors. */
#include "device/cuda/products.h"

ls_status ls_cuda_blas_handle(struct ls_cuda_device *device, cublasLtHandle_t *handle) {
    cublasLtHandle_t made;
    if (!device->blas) {
        cublasStatus_t code = cublasLtCreate(&made);
        if (code)
            return ls_fail(LS_INTERNAL, "%s: cublasLt does not start: %s", device->device.name,
                           cublasLtGetStatusString(code));
        device->blas = made;
    }
    *handle = device->blas;
    return LS_OK;
}

ls_status ls_cuda_dnn_handle(struct ls_cuda_device *device, cudnnHandle_t *handle) {
    cudnnHandle_t made;
    if (!device->dnn) {
        cudnnStatus_t code = cudnnCreate(&made);
        if (!code && (code = cudnnSetStream(made, device->stream))) (void)cudnnDestroy(made);
        if (code)
            return ls_fail(LS_INTERNAL, "%s: cuDNN does not start: %s", device->device.name, cudnnGetErrorString(code));
        device->dnn = made;
    }
    *handle = device->dnn;
    return LS_OK;
}

void ls_cuda_products_close(struct ls_cuda_device *device) {
    if (device->dnn) (void)cudnnDestroy(device->dnn);
    if (device->blas) (void)cublasLtDestroy(device->blas);
    device->dnn = device->blas = NULL;
}

static ls_status fail_product(const struct ls_op *op, ls_status status, const char *library, const char *words) {
    return ls_fail(status, "%s: %s: %s: %s", ls_cuda_op_of(op)->device->device.name, ls_op_name(op->kind), library,
                   words);
}

ls_status ls_cuda_blas_check(const struct ls_op *op, cublasStatus_t code) {
    if (!code) return LS_OK;
    ls_status status = code == CUBLAS_STATUS_NOT_SUPPORTED  ? LS_UNIMPLEMENTED
                       : code == CUBLAS_STATUS_ALLOC_FAILED ? LS_RESOURCE_EXHAUSTED
                                                            : LS_INTERNAL;
    return fail_product(op, status, "cublasLt", cublasLtGetStatusString(code));
}

ls_status ls_cuda_dnn_check(const struct ls_op *op, cudnnStatus_t code) {
    if (!code) return LS_OK;
    bool memory = code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                  code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    ls_status status = CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED ? LS_UNIMPLEMENTED
                       : memory                                                  ? LS_RESOURCE_EXHAUSTED
                                                                                 : LS_INTERNAL;
    return fail_product(op, status, "cuDNN", cudnnGetErrorString(code));
}

void ls_cuda_products_discard(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    ls_free(handle->own);
    handle->own = NULL;
}

#define DENSE                                                                                                          \
    { ls_cuda_dense_run, ls_cuda_dense_build, ls_cuda_products_discard }
#define CONVOLUTION                                                                                                    \
    { ls_cuda_convolution_run, ls_cuda_convolution_build, ls_cuda_convolution_discard }
const struct ls_cuda_kind ls_cuda_product_kinds[LS_OP_KIND_COUNT] = {
    [LS_OP_DENSE_FORWARD] = DENSE,
    [LS_OP_DENSE_BACKWARD] = DENSE,
    [LS_OP_CONVOLUTION_FORWARD] = CONVOLUTION,
    [LS_OP_CONVOLUTION_BACKWARD_DATA] = CONVOLUTION,
    [LS_OP_CONVOLUTION_BACKWARD_WEIGHTS] = CONVOLUTION,
    [LS_OP_DEPTHWISE_BACKWARD] = CONVOLUTION,
};
