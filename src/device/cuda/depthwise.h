/* Depthwise convolutions: each filter sees one channel. What the convolution ops are when ls_cuda_is_depthwise says so;
 * the run functions are then those of the op, which needs nothing beside its workspace. */
#pragma once
#include "device/cuda/cuda.h"

/* Of a convolution op of any of the three kinds: as many groups as channels, more than one; any window. */
bool ls_cuda_is_depthwise(const struct ls_op *op);
/* Bytes for op->workspace_size; 0 but for the weights' gradient. */
size_t ls_cuda_depthwise_workspace(const struct ls_op *op);
ls_status ls_cuda_depthwise_forward(const struct ls_op *op);
ls_status ls_cuda_depthwise_backward_data(const struct ls_op *op);
ls_status ls_cuda_depthwise_backward_weights(const struct ls_op *op);
