/* A convolution as cuDNN has it, and which of its algorithms does it. */
#pragma once
#include "device/cuda/kernels_products.h"
#include "device/cuda/products.h"

/* image is the tensor that the window slides over, x or dx; out is the result, y or dy. */
struct ls_cuda_dnn {
    cudnnTensorDescriptor_t image, out;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    struct ls_cuda_filter layout;
    int algorithm;      /* cudnnConvolutionFwdAlgo_t, ...BwdDataAlgo_t, ...BwdFilterAlgo_t, by the op's kind */
    size_t filter_size; /* bytes of the workspace that the filter takes in cuDNN's layout; it comes first */
    size_t scratch;     /* bytes that cuDNN needs behind it */
};
/* Chooses algorithm, math and scratch. UNIMPLEMENTED where cuDNN has none, or, unless the op is nondeterministic,
 * none that gives equal bits again. */
ls_status ls_cuda_dnn_choose(const struct ls_op *op, cudnnHandle_t handle, struct ls_cuda_dnn *d);
