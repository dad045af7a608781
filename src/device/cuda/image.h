/* Shared by the files of ops on images. */
#pragma once
#include "device/cuda/cuda.h"
#include "device/cuda/kernels_image.h"

ls_status ls_cuda_batch_norm_build(struct ls_cuda_device *device, struct ls_op *op);
void ls_cuda_batch_norm_discard(struct ls_op *op);
ls_status ls_cuda_batch_norm_forward(const struct ls_op *op);
ls_status ls_cuda_batch_norm_inference(const struct ls_op *op);
ls_status ls_cuda_batch_norm_again(const struct ls_op *op);
ls_status ls_cuda_batch_norm_backward(const struct ls_op *op);
ls_status ls_cuda_batch_norm_backward_data(const struct ls_op *op);

ls_status ls_cuda_layer_norm_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_layer_norm_forward(const struct ls_op *op);
ls_status ls_cuda_layer_norm_backward(const struct ls_op *op);

/* The windows of an op whose window slides over the tensor at image; out is the tensor with its positions. */
struct ls_cuda_windows ls_cuda_windows_of(const struct ls_op *op, int image, int out);
