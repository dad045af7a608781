/* Rooms of kernels that are not there yet are empty. */
#include "device/cuda/cuda.h"
#include "device/cuda/depthwise.h"

__attribute__((weak)) const struct ls_cuda_kind ls_cuda_image_kinds[LS_OP_KIND_COUNT] = {{0}};
__attribute__((weak)) const struct ls_cuda_kind ls_cuda_element_kinds[LS_OP_KIND_COUNT] = {{0}};

/* Without depthwise kernels cuDNN does their convolutions, group by group. */
__attribute__((weak)) bool ls_cuda_is_depthwise(const struct ls_op *op) {
    return op->kind == LS_OP_KIND_COUNT;
}
__attribute__((weak)) size_t ls_cuda_depthwise_workspace(const struct ls_op *op) {
    return op->workspace_size;
}
__attribute__((weak)) ls_status ls_cuda_depthwise_forward(const struct ls_op *op) {
    return ls_fail(LS_UNIMPLEMENTED, "%s by channels", ls_op_name(op->kind));
}
__attribute__((weak)) ls_status ls_cuda_depthwise_backward_data(const struct ls_op *op) {
    return ls_fail(LS_UNIMPLEMENTED, "%s by channels", ls_op_name(op->kind));
}
__attribute__((weak)) ls_status ls_cuda_depthwise_backward_weights(const struct ls_op *op) {
    return ls_fail(LS_UNIMPLEMENTED, "%s by channels", ls_op_name(op->kind));
}
