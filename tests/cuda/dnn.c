/* cuDNN where there is no GPU: descriptors, and the heuristics that choose algorithms. Strict as blas.c is. Some of its
 * answers are there to be left: one that wants all memory, one that fails, and where equal bits are wanted a fast one
 * whose bits vary, as they really do. Convolutions that are dilated and strided it has not at all, nor
 * groups of an odd number of channels, nor an odd number of filters over 8 channels. */
#include "dnn.h"

#include <stdint.h>
#include <stdlib.h>

/* ---- descriptors ---- */

#define CREATE(made, mark)                                                                                             \
    do {                                                                                                               \
        if (!(made)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;                                                       \
        if (!(*(made) = calloc(1, sizeof(**(made))))) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;       \
        (*(made))->watch = (mark);                                                                                     \
        return CUDNN_STATUS_SUCCESS;                                                                                   \
    } while (0)
#define DESTROY(made, mark)                                                                                            \
    do {                                                                                                               \
        if (!(made) || (made)->watch != (mark)) return CUDNN_STATUS_BAD_PARAM;                                         \
        free(made);                                                                                                    \
        return CUDNN_STATUS_SUCCESS;                                                                                   \
    } while (0)

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    CREATE(handle, LS_FAKE_HANDLE);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    DESTROY(handle, LS_FAKE_HANDLE);
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *made) {
    CREATE(made, LS_FAKE_TENSOR);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t made) {
    DESTROY(made, LS_FAKE_TENSOR);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *made) {
    CREATE(made, LS_FAKE_FILTER);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t made) {
    DESTROY(made, LS_FAKE_FILTER);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *made) {
    CREATE(made, LS_FAKE_CONVOLUTION);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t made) {
    DESTROY(made, LS_FAKE_CONVOLUTION);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    if (!handle || handle->watch != LS_FAKE_HANDLE || !stream) return CUDNN_STATUS_BAD_PARAM;
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    if (!status) return "CUDNN_STATUS_SUCCESS";
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return "CUDNN_STATUS_NOT_SUPPORTED";
    return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "another error";
}

static bool to_dtype(cudnnDataType_t type, ls_dtype *dtype) {
    *dtype = type == CUDNN_DATA_BFLOAT16 ? LS_BFLOAT16 : type == CUDNN_DATA_HALF ? LS_FLOAT16 : LS_FLOAT32;
    return type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_HALF || type == CUDNN_DATA_FLOAT;
}

static bool all_positive(int a, int b, int c, int d) {
    return a > 0 && b > 0 && c > 0 && d > 0 && (int64_t)a * b <= INT32_MAX && (int64_t)a * b * c <= INT32_MAX &&
           (int64_t)a * b * c * d <= INT32_MAX;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t made, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
    if (!made || made->watch != LS_FAKE_TENSOR || !all_positive(n, c, h, w)) return CUDNN_STATUS_BAD_PARAM;
    if (format != CUDNN_TENSOR_NHWC || !to_dtype(type, &made->dtype)) return CUDNN_STATUS_NOT_SUPPORTED;
    made->n = n, made->c = c, made->h = h, made->w = w;
    made->set = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t made, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
    if (!made || made->watch != LS_FAKE_FILTER || !all_positive(k, c, h, w)) return CUDNN_STATUS_BAD_PARAM;
    if (format != CUDNN_TENSOR_NHWC || !to_dtype(type, &made->dtype)) return CUDNN_STATUS_NOT_SUPPORTED;
    made->k = k, made->c = c, made->h = h, made->w = w;
    made->set = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t made, int pad_h, int pad_w, int down,
                                              int across, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
    if (!made || made->watch != LS_FAKE_CONVOLUTION || pad_h < 0 || pad_w < 0) return CUDNN_STATUS_BAD_PARAM;
    if (!all_positive(down, across, dilation_h, dilation_w)) return CUDNN_STATUS_BAD_PARAM;
    if (mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
    made->pad[0] = pad_h, made->pad[1] = pad_w;
    made->strides[0] = down, made->strides[1] = across;
    made->dilation[0] = dilation_h, made->dilation[1] = dilation_w;
    made->groups = 1;
    made->set = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t made, int groups) {
    if (!made || !made->set || groups < 1) return CUDNN_STATUS_BAD_PARAM;
    made->groups = groups;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t made, cudnnMathType_t math) {
    if (!made || !made->set) return CUDNN_STATUS_BAD_PARAM;
    made->math = math;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- do they go together ---- */

static int positions(const struct cudnnConvolutionStruct *w, int axis, int size, int kernel) {
    return (size + 2 * w->pad[axis] - (kernel - 1) * w->dilation[axis] - 1) / w->strides[axis] + 1;
}

cudnnStatus_t ls_fake_gather(cudnnHandle_t handle, cudnnTensorDescriptor_t image, cudnnFilterDescriptor_t filter,
                             cudnnConvolutionDescriptor_t window, cudnnTensorDescriptor_t out,
                             struct ls_fake_convolution *made) {
    if (!handle || handle->watch != LS_FAKE_HANDLE || !handle->stream) return CUDNN_STATUS_NOT_INITIALIZED;
    if (!image || !filter || !window || !out || !image->set || !filter->set || !window->set || !out->set)
        return CUDNN_STATUS_BAD_PARAM;
    *made = (struct ls_fake_convolution){*image, *out, *filter, *window};
    if (image->dtype != filter->dtype || image->dtype != out->dtype) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    bool channels = image->c == filter->c * window->groups && filter->k % window->groups == 0 && out->c == filter->k;
    bool places = image->n == out->n && out->h == positions(window, 0, image->h, filter->h) &&
                  out->w == positions(window, 1, image->w, filter->w);
    if (!channels || !places) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    bool spread = window->dilation[0] > 1 || window->dilation[1] > 1;
    bool strided = window->strides[0] > 1 || window->strides[1] > 1;
    bool odd = window->groups > 1 && filter->c % 2;
    bool few = window->groups == 1 && filter->c % 8 == 0 && filter->k % 2;
    return (spread && strided) || odd || few ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

/* Which algorithm does the work, and needs workspace for that. */
static const int served[] = {[LS_FAKE_FORWARD] = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                             [LS_FAKE_DATA] = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                             [LS_FAKE_WEIGHTS] = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};

bool ls_fake_varies(enum ls_fake_direction direction, int algorithm) {
    return (direction == LS_FAKE_DATA && algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) ||
           (direction == LS_FAKE_WEIGHTS && algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0);
}

/* True if the math of the descriptor suits the type: tensor cores for 16 bits, and for them only. */
static bool suits(const struct ls_fake_convolution *c) {
    bool single = c->image.dtype == LS_FLOAT32;
    return single ? c->window.math != CUDNN_TENSOR_OP_MATH : c->window.math == CUDNN_TENSOR_OP_MATH;
}

cudnnStatus_t ls_fake_workspace(enum ls_fake_direction direction, int algorithm, const struct ls_fake_convolution *c,
                                size_t *size) {
    bool varies = ls_fake_varies(direction, algorithm);
    if (!suits(c) || (algorithm != served[direction] && !varies)) return CUDNN_STATUS_NOT_SUPPORTED;
    *size = varies ? 0 : 512 + (size_t)c->filter.k;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- heuristics ---- */

/* One answer: an algorithm beside the one that does the work, to be left. */
static const struct decoy {
    int algorithms[3];
    cudnnStatus_t status;
    cudnnDeterminism_t determinism;
    size_t memory;
} decoys[] = {
    {{CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0},
     CUDNN_STATUS_SUCCESS,
     CUDNN_NON_DETERMINISTIC,
     0},
    {{CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT},
     CUDNN_STATUS_SUCCESS,
     CUDNN_DETERMINISTIC,
     (size_t)1 << 40},
    {{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD},
     CUDNN_STATUS_NOT_SUPPORTED,
     CUDNN_DETERMINISTIC,
     0},
};
#define DECOYS ((int)(sizeof(decoys) / sizeof(decoys[0])))

#define ANSWERS (DECOYS + 1)

struct answers {
    struct decoy list[ANSWERS]; /* algorithms[0] is the one of the direction */
    int count;
    cudnnMathType_t math;
};

/* All decoys first, as if they were faster. */
static cudnnStatus_t answer(enum ls_fake_direction direction, const struct ls_fake_convolution *c, int wanted,
                            struct answers *made) {
    struct decoy last = {{served[direction]}, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, 0};
    bool possible = !ls_fake_workspace(direction, served[direction], c, &last.memory);
    if (wanted < 1) return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < DECOYS; i++) {
        made->list[i] = decoys[i];
        made->list[i].algorithms[0] = decoys[i].algorithms[direction];
    }
    made->list[DECOYS] = last;
    made->count = DECOYS + possible < wanted ? DECOYS + possible : wanted;
    made->math = c->window.math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t window,
                                                     const cudnnTensorDescriptor_t y, const int wanted, int *count,
                                                     cudnnConvolutionFwdAlgoPerf_t *found) {
    struct ls_fake_convolution c;
    struct answers a;
    cudnnStatus_t code = ls_fake_gather(handle, x, w, window, y, &c);
    if (!code) code = answer(LS_FAKE_FORWARD, &c, wanted, &a);
    if (code) return code;
    *count = a.count;
    for (int i = 0; i < a.count; i++)
        found[i] = (cudnnConvolutionFwdAlgoPerf_t){.algo = (cudnnConvolutionFwdAlgo_t)a.list[i].algorithms[0],
                                                   .status = a.list[i].status,
                                                   .memory = a.list[i].memory,
                                                   .determinism = a.list[i].determinism,
                                                   .mathType = a.math};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t dy,
                                                          const cudnnConvolutionDescriptor_t window,
                                                          const cudnnTensorDescriptor_t dx, const int wanted,
                                                          int *count, cudnnConvolutionBwdDataAlgoPerf_t *found) {
    struct ls_fake_convolution c;
    struct answers a;
    cudnnStatus_t code = ls_fake_gather(handle, dx, w, window, dy, &c);
    if (!code) code = answer(LS_FAKE_DATA, &c, wanted, &a);
    if (code) return code;
    *count = a.count;
    for (int i = 0; i < a.count; i++)
        found[i] = (cudnnConvolutionBwdDataAlgoPerf_t){.algo = (cudnnConvolutionBwdDataAlgo_t)a.list[i].algorithms[0],
                                                       .status = a.list[i].status,
                                                       .memory = a.list[i].memory,
                                                       .determinism = a.list[i].determinism,
                                                       .mathType = a.math};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t dy,
                                                            const cudnnConvolutionDescriptor_t window,
                                                            const cudnnFilterDescriptor_t dw, const int wanted,
                                                            int *count, cudnnConvolutionBwdFilterAlgoPerf_t *found) {
    struct ls_fake_convolution c;
    struct answers a;
    cudnnStatus_t code = ls_fake_gather(handle, x, dw, window, dy, &c);
    if (!code) code = answer(LS_FAKE_WEIGHTS, &c, wanted, &a);
    if (code) return code;
    *count = a.count;
    for (int i = 0; i < a.count; i++)
        found[i] =
            (cudnnConvolutionBwdFilterAlgoPerf_t){.algo = (cudnnConvolutionBwdFilterAlgo_t)a.list[i].algorithms[0],
                                                  .status = a.list[i].status,
                                                  .memory = a.list[i].memory,
                                                  .determinism = a.list[i].determinism,
                                                  .mathType = a.math};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t window,
                                                      const cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t *size) {
    struct ls_fake_convolution c;
    cudnnStatus_t code = ls_fake_gather(handle, x, w, window, y, &c);
    return code ? code : ls_fake_workspace(LS_FAKE_FORWARD, (int)algorithm, &c, size);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                           const cudnnTensorDescriptor_t dy,
                                                           const cudnnConvolutionDescriptor_t window,
                                                           const cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm, size_t *size) {
    struct ls_fake_convolution c;
    cudnnStatus_t code = ls_fake_gather(handle, dx, w, window, dy, &c);
    return code ? code : ls_fake_workspace(LS_FAKE_DATA, (int)algorithm, &c, size);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                             const cudnnTensorDescriptor_t dy,
                                                             const cudnnConvolutionDescriptor_t window,
                                                             const cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm, size_t *size) {
    struct ls_fake_convolution c;
    cudnnStatus_t code = ls_fake_gather(handle, x, dw, window, dy, &c);
    return code ? code : ls_fake_workspace(LS_FAKE_WEIGHTS, (int)algorithm, &c, size);
}
