/* A convolution as cuDNN has it, and which of its algorithms does it. */
#pragma once
#include "device/cuda/kernels_products.h"
#include "device/cuda/products.h"

/* image is the tensor that the window slides over, x or dx; out is the result, y or dy. */
struct ls_cuda_dnn {
    cudnnTensorDescriptor_t image, out;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    bool squared; /* over squares of the image, else over the image as it is, with the filter in layout */
    struct ls_cuda_squares squares;
    struct ls_cuda_filter layout;
    int algorithm; /* cudnnConvolutionFwdAlgo_t, ...BwdDataAlgo_t, ...BwdFilterAlgo_t, by the op's kind */
    /* bytes of the workspace: of the image's squares, of the filter in cuDNN's layout, of what cuDNN needs */
    size_t image_size, filter_size, scratch;
};
/* squares.c: whether cuDNN gets a convolution over squares of its image, and what they are. */
bool ls_cuda_squares_fit(const struct ls_op *op);
struct ls_cuda_squares ls_cuda_squares_of(const struct ls_op *op);
/* Chooses algorithm, math and scratch. UNIMPLEMENTED where cuDNN has none, or, unless the op is nondeterministic,
 * none that gives equal bits again. */
ls_status ls_cuda_dnn_choose(const struct ls_op *op, cudnnHandle_t handle, struct ls_cuda_dnn *d);
