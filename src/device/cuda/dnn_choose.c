/* Which of cuDNN's algorithms does a convolution: asked once, by its heuristics, which measure nothing, so that the
 * answer is always the same. Algorithms whose bits vary from run to run are taken only where an op allows them. */
#include "device/cuda/products.h"

#define CANDIDATES   16
#define MOST_SCRATCH ((size_t)2 << 30) /* bytes; an algorithm that needs more is left out */

/* One answer of the heuristics, for any direction; they are ordered by time. */
struct candidate {
    int algorithm;
    bool possible, deterministic;
    bool plain; /* adds products as they are; Fourier and Winograd transforms round more */
    size_t memory;
    cudnnMathType_t math;
};

static struct candidate candidate(int algorithm, cudnnStatus_t status, cudnnDeterminism_t determinism, size_t memory,
                                  cudnnMathType_t math) {
    return (struct candidate){.algorithm = algorithm,
                              .possible = !status && memory <= MOST_SCRATCH,
                              .deterministic = determinism == CUDNN_DETERMINISTIC,
                              .memory = memory,
                              .math = math};
}

static cudnnStatus_t list_forward(cudnnHandle_t handle, const struct ls_cuda_dnn *d, struct candidate *found,
                                  int *count) {
    cudnnConvolutionFwdAlgoPerf_t all[CANDIDATES];
    cudnnStatus_t code = cudnnGetConvolutionForwardAlgorithm_v7(handle, d->image, d->filter, d->convolution, d->out,
                                                                CANDIDATES, count, all);
    for (int i = 0; !code && i < *count; i++) {
        found[i] = candidate((int)all[i].algo, all[i].status, all[i].determinism, all[i].memory, all[i].mathType);
        found[i].plain = all[i].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
                         all[i].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
                         all[i].algo == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
    }
    return code;
}

static cudnnStatus_t list_data(cudnnHandle_t handle, const struct ls_cuda_dnn *d, struct candidate *found, int *count) {
    cudnnConvolutionBwdDataAlgoPerf_t all[CANDIDATES];
    cudnnStatus_t code = cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, d->filter, d->out, d->convolution,
                                                                     d->image, CANDIDATES, count, all);
    for (int i = 0; !code && i < *count; i++) {
        found[i] = candidate((int)all[i].algo, all[i].status, all[i].determinism, all[i].memory, all[i].mathType);
        found[i].plain =
            all[i].algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 || all[i].algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
    }
    return code;
}

static cudnnStatus_t list_weights(cudnnHandle_t handle, const struct ls_cuda_dnn *d, struct candidate *found,
                                  int *count) {
    cudnnConvolutionBwdFilterAlgoPerf_t all[CANDIDATES];
    cudnnStatus_t code = cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, d->image, d->out, d->convolution,
                                                                       d->filter, CANDIDATES, count, all);
    for (int i = 0; !code && i < *count; i++) {
        found[i] = candidate((int)all[i].algo, all[i].status, all[i].determinism, all[i].memory, all[i].mathType);
        found[i].plain = all[i].algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 ||
                         all[i].algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
                         all[i].algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
    }
    return code;
}

static cudnnStatus_t list(enum ls_op_kind kind, cudnnHandle_t handle, const struct ls_cuda_dnn *d,
                          struct candidate *found, int *count) {
    if (kind == LS_OP_CONVOLUTION_FORWARD) return list_forward(handle, d, found, count);
    return kind == LS_OP_CONVOLUTION_BACKWARD_DATA ? list_data(handle, d, found, count)
                                                   : list_weights(handle, d, found, count);
}

static cudnnStatus_t ask_scratch(enum ls_op_kind kind, cudnnHandle_t handle, struct ls_cuda_dnn *d) {
    if (kind == LS_OP_CONVOLUTION_FORWARD)
        return cudnnGetConvolutionForwardWorkspaceSize(handle, d->image, d->filter, d->convolution, d->out,
                                                       (cudnnConvolutionFwdAlgo_t)d->algorithm, &d->scratch);
    if (kind == LS_OP_CONVOLUTION_BACKWARD_DATA)
        return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d->filter, d->out, d->convolution, d->image,
                                                            (cudnnConvolutionBwdDataAlgo_t)d->algorithm, &d->scratch);
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d->image, d->out, d->convolution, d->filter,
                                                          (cudnnConvolutionBwdFilterAlgo_t)d->algorithm, &d->scratch);
}

/* True if cuDNN can run the candidate; d has its settings then. */
static bool settle_candidate(const struct ls_op *op, cudnnHandle_t handle, struct ls_cuda_dnn *d,
                             const struct candidate *one, bool proper) {
    if (!one->possible || !(one->deterministic || op->nondeterministic)) return false;
    d->algorithm = one->algorithm;
    if (!proper && cudnnSetConvolutionMathType(d->convolution, one->math)) return false;
    return !ask_scratch(op->kind, handle, d) && d->scratch <= MOST_SCRATCH;
}

/* The fastest plain one, else the fastest of all. An algorithm is tied to the math that the heuristics name beside it.
 * Float32 proper stays with the kernels that multiply and add: the default math would be TF32. 16-bit types need tensor
 * cores to be allowed. */
ls_status ls_cuda_dnn_choose(const struct ls_op *op, cudnnHandle_t handle, struct ls_cuda_dnn *d) {
    struct candidate found[CANDIDATES];
    int count = 0;
    bool single = op->tensors[ls_op_out(op)].dtype == LS_FLOAT32;
    bool proper = single && !op->tf32;
    cudnnStatus_t code = cudnnSetConvolutionMathType(d->convolution, proper   ? CUDNN_FMA_MATH
                                                                     : single ? CUDNN_DEFAULT_MATH
                                                                              : CUDNN_TENSOR_OP_MATH);
    if (!code) code = list(op->kind, handle, d, found, &count);
    for (int plain = 1; !code && plain >= 0; plain--)
        for (int i = 0; i < count; i++)
            if (found[i].plain == (plain == 1) && settle_candidate(op, handle, d, &found[i], proper)) return LS_OK;
    return ls_cuda_dnn_check(op, code ? code : CUDNN_STATUS_NOT_SUPPORTED);
}
