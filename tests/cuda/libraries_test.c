/* The fakes of cublasLt and cuDNN: what they must refuse, because the real ones would. That they compute right, the
 * tests of ops show. */
#include <cublasLt.h>
#include <cudnn.h>
#include <stdint.h>

#include "harness.h"

enum { SMALL = 8, DEEP = 128 };

static cudaStream_t stream;
static float *memory; /* of the device, 64 KiB */
static cublasLtHandle_t blas;

static void set_up(void) {
    void *made;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ck_assert_int_eq(cudaMalloc(&made, 1 << 16), cudaSuccess);
    memory = made;
    ck_assert_int_eq(cublasLtCreate(&blas), 0);
}

static void tear_down(void) {
    ck_assert_int_eq(cublasLtDestroy(blas), 0);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
    ck_assert_int_eq(cudaFree(memory), cudaSuccess);
    ck_assert_int_eq(cudaStreamDestroy(stream), cudaSuccess);
}

/* ---- cublasLt ---- */

/* d(8, 8) of a(8, depth) and b(depth, 8), as it should be; tests spoil it. */
struct product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a, b, d;
    cublasLtMatmulPreferenceOpaque_t wishes;
    cublasLtMatmulHeuristicResult_t found;
    int count;
};

static void wish(struct product *p, cublasLtMatmulPreferenceAttributes_t name, uint32_t value) {
    ck_assert_int_eq(cublasLtMatmulPreferenceSetAttribute(&p->wishes, name, &value, sizeof(value)), 0);
}

static struct product make_product(cudaDataType in, cudaDataType out, uint64_t depth) {
    struct product p;
    const uint64_t workspace = 1 << 14;
    ck_assert_int_eq(cublasLtMatmulDescInit(&p.description, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    ck_assert_int_eq(cublasLtMatrixLayoutInit(&p.a, in, SMALL, depth, SMALL), 0);
    ck_assert_int_eq(cublasLtMatrixLayoutInit(&p.b, in, depth, SMALL, (int64_t)depth), 0);
    ck_assert_int_eq(cublasLtMatrixLayoutInit(&p.d, out, SMALL, SMALL, SMALL), 0);
    ck_assert_int_eq(cublasLtMatmulPreferenceInit(&p.wishes), 0);
    ck_assert_int_eq(cublasLtMatmulPreferenceSetAttribute(&p.wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                          &workspace, sizeof(workspace)),
                     0);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    wish(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 16);
    wish(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 16);
    wish(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 16);
    wish(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 16);
    return p;
}

static cublasStatus_t ask(struct product *p) {
    return cublasLtMatmulAlgoGetHeuristic(blas, &p->description, &p->a, &p->b, &p->d, &p->d, &p->wishes, 1, &p->found,
                                          &p->count);
}

static cublasStatus_t run(struct product *p, void *a, void *b, void *d, void *workspace, size_t size) {
    const float one = 1, zero = 0;
    return cublasLtMatmul(blas, &p->description, &one, a, &p->a, b, &p->b, &zero, d, &p->d, d, &p->d, &p->found.algo,
                          workspace, size, stream);
}

TEST(products_refuse_wrong_places) {
    struct product p = make_product(CUDA_R_32F, CUDA_R_32F, DEEP);
    float *a = memory, *b = memory + 2048, *d = memory + 4096, *workspace = memory + 8192, own[4096];
    ck_assert_int_eq(ask(&p), 0);
    ck_assert_uint_gt(p.found.workspaceSize, 0);
    ck_assert_int_eq(run(&p, a, b, d, workspace, p.found.workspaceSize), 0);
    ck_assert_int_eq(run(&p, a, b, d, NULL, 0), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(run(&p, a, b, d, workspace, p.found.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(run(&p, a, b, d, workspace + 16, p.found.workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(run(&p, a + 1, b, d, workspace, p.found.workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(run(&p, a, own, d, workspace, p.found.workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(run(&p, a, b, memory + 16384 - 60, workspace, p.found.workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
    p.b = make_product(CUDA_R_32F, CUDA_R_32F, SMALL).b; /* another problem than it was chosen for */
    ck_assert_int_eq(run(&p, a, b, d, workspace, p.found.workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(products_refuse_unknown_types) {
    struct product p = make_product(CUDA_R_16BF, CUDA_R_32F, SMALL);
    ck_assert_int_eq(ask(&p), 0);
    p = make_product(CUDA_R_16BF, CUDA_R_16F, SMALL);
    ck_assert_int_eq(ask(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    p = make_product(CUDA_R_32F, CUDA_R_16F, SMALL);
    ck_assert_int_eq(ask(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    p = make_product(CUDA_R_16F, CUDA_R_16F, SMALL);
    ck_assert_int_eq(cublasLtMatmulDescInit(&p.description, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F), 0);
    ck_assert_int_eq(ask(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    p = make_product(CUDA_R_32F, CUDA_R_32F, SMALL);
    ck_assert_int_eq(cublasLtMatrixLayoutInit(&p.a, CUDA_R_32F, SMALL, SMALL, SMALL - 1), 0);
    ck_assert_int_eq(ask(&p), CUBLAS_STATUS_INVALID_VALUE);
}

/* Sums of 16 bits, a bias that is not there, and attributes that nobody has. */
TEST(products_refuse_unknown_attributes) {
    struct product p = make_product(CUDA_R_32F, CUDA_R_32F, SMALL);
    const uint32_t bias = CUBLASLT_EPILOGUE_BIAS;
    const int64_t stride = 0;
    ck_assert_int_eq(cublasLtMatmulDescSetAttribute(&p.description, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 4), 0);
    ck_assert_int_eq(ask(&p), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasLtMatmulDescSetAttribute(&p.description, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasLtMatmulDescSetAttribute(&p.description, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    p = make_product(CUDA_R_32F, CUDA_R_32F, SMALL);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_MASK);
    ck_assert_int_eq(ask(&p), 0);
    ck_assert_int_eq(p.count, 0);
    p = make_product(CUDA_R_16BF, CUDA_R_16BF, SMALL);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_INPLACE);
    ck_assert_int_eq(ask(&p), 0);
    ck_assert_int_eq(p.count, 0);
}

/* Long sums in place need no workspace. */
TEST(long_sums_in_place_need_no_workspace) {
    struct product p = make_product(CUDA_R_32F, CUDA_R_32F, DEEP);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    ck_assert_int_eq(ask(&p), 0);
    ck_assert_int_eq(p.count, 1);
    ck_assert_uint_eq(p.found.workspaceSize, 0);
    ck_assert_int_eq(run(&p, memory, memory + 2048, memory + 4096, NULL, 0), 0);
}

/* ---- cuDNN ---- */

/* y(1, 4, 4, 4) of x(1, 4, 4, 2) and w(4, 3, 3, 2), as it should be. */
struct convolution {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t window;
};

static struct convolution make_convolution(cudnnDataType_t type) {
    struct convolution c;
    ck_assert_int_eq(cudnnCreate(&c.handle), 0);
    ck_assert_int_eq(cudnnSetStream(c.handle, stream), 0);
    ck_assert_int_eq(cudnnCreateTensorDescriptor(&c.x), 0);
    ck_assert_int_eq(cudnnCreateTensorDescriptor(&c.y), 0);
    ck_assert_int_eq(cudnnCreateFilterDescriptor(&c.w), 0);
    ck_assert_int_eq(cudnnCreateConvolutionDescriptor(&c.window), 0);
    ck_assert_int_eq(cudnnSetTensor4dDescriptor(c.x, CUDNN_TENSOR_NHWC, type, 1, 2, 4, 4), 0);
    ck_assert_int_eq(cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, type, 1, 4, 4, 4), 0);
    ck_assert_int_eq(cudnnSetFilter4dDescriptor(c.w, type, CUDNN_TENSOR_NHWC, 4, 2, 3, 3), 0);
    ck_assert_int_eq(
        cudnnSetConvolution2dDescriptor(c.window, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT), 0);
    return c;
}

static void end_convolution(struct convolution *c) {
    ck_assert_int_eq(cudnnDestroyConvolutionDescriptor(c->window), 0);
    ck_assert_int_eq(cudnnDestroyFilterDescriptor(c->w), 0);
    ck_assert_int_eq(cudnnDestroyTensorDescriptor(c->y), 0);
    ck_assert_int_eq(cudnnDestroyTensorDescriptor(c->x), 0);
    ck_assert_int_eq(cudnnDestroy(c->handle), 0);
}

static cudnnStatus_t convolve(const struct convolution *c, float *workspace, size_t size) {
    const float one = 1, zero = 0;
    return cudnnConvolutionForward(c->handle, &one, c->x, memory, c->w, memory + 512, c->window,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace, size, &zero, c->y,
                                   memory + 1024);
}

TEST(convolutions_refuse_wrong_places) {
    struct convolution c = make_convolution(CUDNN_DATA_FLOAT);
    size_t size = 0;
    ck_assert_int_eq(cudnnGetConvolutionForwardWorkspaceSize(c.handle, c.x, c.w, c.window, c.y,
                                                             CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &size),
                     0);
    ck_assert_int_eq(convolve(&c, memory + 2048, size), 0);
    ck_assert_int_eq(convolve(&c, NULL, size), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    ck_assert_int_eq(convolve(&c, memory + 2049, size), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    ck_assert_int_eq(convolve(&c, memory + 2048, size - 1), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    ck_assert_int_eq(cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 4, 4, 3), 0);
    ck_assert_int_eq(convolve(&c, memory + 2048, size), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    ck_assert_int_eq(cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 1, 4, 4, 4), 0);
    ck_assert_int_eq(convolve(&c, memory + 2048, size), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    ck_assert_int_eq(cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 4, 4, 4),
                     CUDNN_STATUS_NOT_SUPPORTED);
    ck_assert_int_eq(cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1 << 15, 64, 64, 64),
                     CUDNN_STATUS_BAD_PARAM);
    end_convolution(&c);
}

/* 16 bits by what multiplies and adds only: perhaps not there. The one deterministic answer comes last. */
TEST(convolutions_answer_by_type_of_math) {
    struct convolution c = make_convolution(CUDNN_DATA_BFLOAT16);
    cudnnConvolutionFwdAlgoPerf_t found[8];
    int count = 0;
    ck_assert_int_eq(cudnnSetConvolutionMathType(c.window, CUDNN_FMA_MATH), 0);
    ck_assert_int_eq(convolve(&c, memory + 2048, 4096), CUDNN_STATUS_NOT_SUPPORTED);
    ck_assert_int_eq(cudnnSetConvolutionMathType(c.window, CUDNN_TENSOR_OP_MATH), 0);
    ck_assert_int_eq(convolve(&c, memory + 2048, 4096), 0);
    ck_assert_int_eq(cudnnGetConvolutionForwardAlgorithm_v7(c.handle, c.x, c.w, c.window, c.y, 8, &count, found), 0);
    ck_assert_int_gt(count, 1);
    ck_assert_int_eq(found[0].determinism, CUDNN_NON_DETERMINISTIC);
    ck_assert_int_eq(found[count - 1].algo, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
    end_convolution(&c);
}

TESTS("libraries", .before = set_up, .after = tear_down)
