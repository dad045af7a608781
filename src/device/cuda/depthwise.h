/* Depthwise convolutions: each filter sees one channel. A convolution op runs them if ls_cuda_is_depthwise is true. The
 * run functions are those of the op then; the op needs nothing beside its workspace. */
#pragma once
#include "device/cuda/cuda.h"

/* True if a convolution op, of any kind, has as many groups as channels, more than one. Any window will do. */
bool ls_cuda_is_depthwise(const struct ls_op *op);
/* Bytes for op->workspace_size; 0 but for the kernel's gradient. */
size_t ls_cuda_depthwise_workspace(const struct ls_op *op);
ls_status ls_cuda_depthwise_forward(const struct ls_op *op);
ls_status ls_cuda_depthwise_backward_data(const struct ls_op *op);
/* Both gradients, or the kernel's. */
ls_status ls_cuda_depthwise_backward(const struct ls_op *op);
