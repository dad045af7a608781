/* Depthwise convolutions: each filter sees one channel. A convolution op runs them if ls_cuda_is_depthwise is true. The
 * run functions are those of the op then; the op needs nothing beside its workspace. */
#pragma once
#include "device/cuda/cuda.h"

/* True if a convolution op, of any of the three kinds, has as many groups as channels, more than one. Any window will
 * do. */
bool ls_cuda_is_depthwise(const struct ls_op *op);
/* Bytes for op->workspace_size; 0 but for the weights' gradient. */
size_t ls_cuda_depthwise_workspace(const struct ls_op *op);
ls_status ls_cuda_depthwise_forward(const struct ls_op *op);
ls_status ls_cuda_depthwise_backward_data(const struct ls_op *op);
ls_status ls_cuda_depthwise_backward_weights(const struct ls_op *op);
