/* Products of matrices by cublasLt. It thinks in columns, the library in rows: c by rows is c transposed by columns, so
 * the factors change places. */
#include <stdint.h>

#include "device/cuda/products.h"

/* for the sum along depth if it is divided over multiprocessors; NVIDIA's advice for Hopper */
#define WORKSPACE ((uint64_t)32 << 20)
/* Bytes. There are no wider accesses than of 16 bytes, and places in the arena agree modulo 64 only. The chosen
 * algorithm must not depend on the address of memory. */
#define ALIGNMENT 16

static cudaDataType cublas_type(ls_dtype dtype) {
    return dtype == LS_BFLOAT16 ? CUDA_R_16BF : dtype == LS_FLOAT16 ? CUDA_R_16F : CUDA_R_32F;
}

static uint32_t alignment_of(const void *place) {
    uintptr_t bits = (uintptr_t)place | ALIGNMENT;
    return (uint32_t)(bits & (~bits + 1));
}

/* Describes memory that holds rows x columns by rows. */
static cublasStatus_t describe_matrix(cublasLtMatrixLayoutOpaque_t *made, ls_dtype dtype, int64_t rows, int64_t columns,
                                      int64_t pitch) {
    return cublasLtMatrixLayoutInit(made, cublas_type(dtype), (uint64_t)columns, (uint64_t)rows,
                                    pitch ? pitch : columns);
}

static cublasStatus_t describe_product(const struct ls_op *op, const struct ls_cuda_matrices *m,
                                       struct ls_cuda_product *made) {
    bool a = m->transpose_a, b = m->transpose_b;
    const cublasOperation_t first = b ? CUBLAS_OP_T : CUBLAS_OP_N, second = a ? CUBLAS_OP_T : CUBLAS_OP_N;
    bool tf32 = op->tf32 && m->dtype == LS_FLOAT32;
    cublasStatus_t code = cublasLtMatmulDescInit(&made->description,
                                                 tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!code)
        code = cublasLtMatmulDescSetAttribute(&made->description, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first));
    if (!code)
        code = cublasLtMatmulDescSetAttribute(&made->description, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second));
    if (!code) code = describe_matrix(&made->a, m->dtype, a ? m->depth : m->rows, a ? m->rows : m->depth, m->a_pitch);
    if (!code)
        code = describe_matrix(&made->b, m->dtype, b ? m->columns : m->depth, b ? m->depth : m->columns, m->b_pitch);
    if (!code) code = describe_matrix(&made->c, m->c_dtype, m->rows, m->columns, m->c_pitch);
    return code;
}

static cublasStatus_t set_bias(struct ls_cuda_product *product, const void *bias) {
    return cublasLtMatmulDescSetAttribute(&product->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                          sizeof(bias));
}

/* The bias must be of c's type (cublasLt's tables have no other for these types), and its place there when an algorithm
 * is asked for: that looks at the alignment. */
static cublasStatus_t set_epilogue(struct ls_cuda_product *product, const struct ls_cuda_matrices *m, bool biased) {
    const uint32_t epilogue = biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    product->biased = biased;
    cublasStatus_t code = set_bias(product, biased ? (const void *)(uintptr_t)alignment_of(m->bias) : NULL);
    if (code) return code;
    return cublasLtMatmulDescSetAttribute(&product->description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                          sizeof(epilogue));
}

/* The permitted reductions of parts of the depth. In the workspace they are added as float32 and in order, which gives
 * equal bits again. In place they are added in any order, and a 16-bit result would be rounded each time, so in place
 * is for float32 only. */
static uint32_t reductions(const struct ls_op *op, const struct ls_cuda_matrices *m) {
    const uint32_t in_order = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    bool in_place = op->nondeterministic && m->c_dtype == LS_FLOAT32;
    return in_place ? in_order | CUBLASLT_REDUCTION_SCHEME_INPLACE : in_order;
}

static cublasStatus_t prefer(const struct ls_op *op, cublasLtMatmulPreferenceOpaque_t *made,
                             const struct ls_cuda_matrices *m) {
    const uint64_t workspace = WORKSPACE;
    const uint32_t reduction = reductions(op, m);
    /* the factors change places */
    const uint32_t a = alignment_of(m->b), b = alignment_of(m->a), c = alignment_of(m->c);
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof(reduction)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof(a)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof(b)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof(c)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof(c)},
    };
    cublasStatus_t code = cublasLtMatmulPreferenceInit(made);
    for (size_t i = 0; !code && i < sizeof(attributes) / sizeof(attributes[0]); i++)
        code = cublasLtMatmulPreferenceSetAttribute(made, attributes[i].name, attributes[i].value, attributes[i].size);
    return code;
}

/* The first that the library's heuristic has; it measures nothing, so it always has the same. */
static cublasStatus_t choose_algorithm(cublasLtHandle_t handle, struct ls_cuda_product *product,
                                       cublasLtMatmulPreferenceOpaque_t *preference) {
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(handle, &product->description, &product->b, &product->a,
                                                         &product->c, &product->c, preference, 1, &found, &count);
    if (code) return code;
    if (!count) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (found.state) return found.state;
    product->algorithm = found.algo;
    product->workspace = found.workspaceSize;
    return CUBLAS_STATUS_SUCCESS;
}

ls_status ls_cuda_product_build(const struct ls_op *op, const struct ls_cuda_matrices *m,
                                struct ls_cuda_product *made) {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtHandle_t handle;
    ls_status status = ls_cuda_blas_handle(ls_cuda_op_of(op)->device, &handle);
    if (status) return status;
    cublasStatus_t code = describe_product(op, m, made);
    if (!code) code = prefer(op, &preference, m);
    /* the preferences do not speak of the bias' alignment */
    bool biased = m->bias && alignment_of(m->bias) == ALIGNMENT;
    if (!code) code = set_epilogue(made, m, biased);
    if (!code) code = choose_algorithm(handle, made, &preference);
    if (code && biased) { /* for any code: without the epilogue the caller adds the bias */
        code = set_epilogue(made, m, false);
        if (!code) code = choose_algorithm(handle, made, &preference);
    }
    return ls_cuda_blas_check(op, code);
}

ls_status ls_cuda_product_run(const struct ls_op *op, struct ls_cuda_product *product, const struct ls_cuda_matrices *m,
                              void *workspace) {
    const float one = 1, beta = m->adds ? 1 : 0;
    cublasLtHandle_t handle;
    ls_status status = ls_cuda_blas_handle(ls_cuda_op_of(op)->device, &handle);
    if (status) return status;
    cublasStatus_t code = product->biased ? set_bias(product, m->bias) : CUBLAS_STATUS_SUCCESS;
    if (!code)
        code = cublasLtMatmul(handle, &product->description, &one, m->b, &product->b, m->a, &product->a, &beta, m->c,
                              &product->c, m->c, &product->c, &product->algorithm,
                              product->workspace ? workspace : NULL, product->workspace, ls_cuda_stream(op));
    return ls_cuda_blas_check(op, code);
}
