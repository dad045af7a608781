/* Products of matrices, from the inside: the declarations that dense layers and convolutions share. */
#pragma once
#include <cublasLt.h>
#include <cudnn.h>
#include <stdint.h>

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/kernels_products.h"

/* The device's handles, made by the first caller. */
ls_status ls_cuda_blas_handle(struct ls_cuda_device *device, cublasLtHandle_t *handle);
ls_status ls_cuda_dnn_handle(struct ls_cuda_device *device, cudnnHandle_t *handle);
/* Returns OK, or an error with device and op in the library's words: UNIMPLEMENTED for a missing feature,
 * RESOURCE_EXHAUSTED for memory, else INTERNAL. */
ls_status ls_cuda_blas_check(const struct ls_op *op, cublasStatus_t code);
ls_status ls_cuda_dnn_check(const struct ls_op *op, cudnnStatus_t code);

/* c(rows, columns) = a(rows, depth) b(depth, columns), and bias(columns) added to each row unless NULL. All by rows; a
 * transposed one lies as (depth, rows), or (columns, depth). Sums are of float32. */
struct ls_cuda_matrices {
    int64_t rows, columns, depth;
    bool transpose_a, transpose_b;
    bool adds;               /* c is not overwritten: the product is added to it */
    ls_dtype dtype, c_dtype; /* of a and b; of c and bias: the same, or float32 */
    const void *a, *b, *bias;
    void *c;
    int64_t a_pitch, b_pitch, c_pitch; /* elements from one row to the next, as it lies; 0 if packed */
};
struct ls_cuda_product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace; /* bytes that a run needs */
    bool biased;      /* false although there is a bias: the caller adds it */
};
/* Chooses the algorithm, once; the same for the same shapes and places modulo 16 bytes. */
ls_status ls_cuda_product_build(const struct ls_op *op, const struct ls_cuda_matrices *m, struct ls_cuda_product *made);
/* The places, no more, may differ from those of build. */
ls_status ls_cuda_product_run(const struct ls_op *op, struct ls_cuda_product *product, const struct ls_cuda_matrices *m,
                              void *workspace);

/* cublasLt takes its workspace at a multiple of 256 bytes only. So pieces of an op's workspace begin at such multiples,
 * the first at ls_cuda_workspace. Ops that need the size of all of them get the bytes that the caller's alignment may
 * cost in addition. */
#define LS_CUDA_PIECE 256
static inline size_t ls_cuda_piece(size_t size) {
    return (size + LS_CUDA_PIECE - 1) / LS_CUDA_PIECE * LS_CUDA_PIECE;
}
static inline char *ls_cuda_workspace(const struct ls_op *op) {
    return (char *)op->workspace + (ls_cuda_piece((uintptr_t)op->workspace) - (uintptr_t)op->workspace);
}
static inline void ls_cuda_need(struct ls_op *op, size_t size) {
    size_t all = size ? size + LS_CUDA_PIECE - LS_ALIGNMENT : 0;
    if (all > op->workspace_size) op->workspace_size = all;
}

/* Frees what an op keeps in host memory, in one piece. */
void ls_cuda_products_discard(struct ls_op *op);
/* Rows of the table. dense.c: also convolutions of 1 x 1 elements; dnn.c: any convolution, by cuDNN; windows.c:
 * convolutions that cuDNN does not support, or is slower at. */
ls_status ls_cuda_dense_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_dense_run(const struct ls_op *op);
ls_status ls_cuda_convolution_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_convolution_run(const struct ls_op *op);
void ls_cuda_convolution_discard(struct ls_op *op);
ls_status ls_cuda_dnn_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_dnn_run(const struct ls_op *op);
void ls_cuda_dnn_discard(struct ls_op *op);
ls_status ls_cuda_windows_build(struct ls_cuda_device *device, struct ls_op *op);
bool ls_cuda_windows_are_faster(const struct ls_op *op); /* than cuDNN; of a convolution over more than one position */
ls_status ls_cuda_windows_run(const struct ls_op *op);

/* The separate steps for a convolution's bias: it is added to y, and db is summed from dy. A convolution without a bias
 * skips them. */
ls_status ls_cuda_convolution_add_bias(const struct ls_op *op);
ls_status ls_cuda_convolution_sum_bias(const struct ls_op *op);
size_t ls_cuda_convolution_sum_workspace(const struct ls_op *op); /* bytes, from the workspace's beginning */

/* A convolution as cuDNN has it, and which of its algorithms does it. */

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
