/* cublasLt where there is no GPU: what the plugin uses of it, in plain loops and double precision, later and on the
 * stream as the real one. It is strict: what the real library refuses, or might, it refuses too, and what it does not
 * know it does not do. Attributes that it has not are errors. An algorithm serves the problem that it was chosen for,
 * at the alignment that was promised, and with its workspace, in which long sums are really added; or in place, where
 * that is allowed, in another order at each run. It has no bias for products of one row or column, so that callers show
 * what they do then. */
#include <cublasLt.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "runtime.h"

#define SPLIT_DEPTH 64 /* sums of as many products are added in two parts, or in place in so many: */
#define PLACE_PARTS 4

enum watch { HANDLE = 0x48414E44, MATRIX = 0x4D415452, PRODUCT = 0x50524F44, WISHES = 0x57495348, CHOSEN = 0x43484F53 };

struct cublasLtContext {
    enum watch watch;
};
struct matrix {
    enum watch watch;
    cudaDataType type;
    uint64_t rows, columns;
    int64_t step; /* elements from column to column */
};
struct description {
    enum watch watch;
    cublasComputeType_t compute;
    cublasOperation_t a, b;
    uint32_t epilogue;
    const void *bias;
};
struct wishes {
    enum watch watch;
    uint32_t reduction, alignment[4];
    uint64_t workspace;
};
/* The problem that an algorithm was chosen for. */
struct problem {
    uint32_t rows, columns, depth;
    uint8_t types[4], a, b, compute, epilogue; /* types: of A, B, C, D */
};
struct chosen {
    enum watch watch;
    struct problem problem;
    uint32_t workspace;
    uint16_t alignment[4], bias;
    bool in_place;
};
_Static_assert(sizeof(struct matrix) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a matrix fits");
_Static_assert(sizeof(struct description) <= sizeof(cublasLtMatmulDescOpaque_t), "a description fits");
_Static_assert(sizeof(struct wishes) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "wishes fit");
_Static_assert(sizeof(struct chosen) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

/* ---- handles and descriptions ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = malloc(sizeof(**handle));
    if (!*handle) return CUBLAS_STATUS_ALLOC_FAILED;
    (*handle)->watch = HANDLE;
    return CUBLAS_STATUS_SUCCESS;
}

static bool alive(cublasLtHandle_t handle) {
    return handle && handle->watch == HANDLE;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "the functionality requested is not supported";
    default:
        return "another error";
    }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t made, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
    if (!made || size < sizeof(*made)) return CUBLAS_STATUS_ALLOC_FAILED;
    if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    const struct description plain = {PRODUCT, compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL};
    memset(made, 0, sizeof(*made));
    memcpy(made, &plain, sizeof(plain));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t size) {
    struct description *d = (struct description *)(void *)opaque;
    const struct {
        void *place;
        size_t size;
    } known[] = {
        [CUBLASLT_MATMUL_DESC_TRANSA] = {&d->a, sizeof(int32_t)},
        [CUBLASLT_MATMUL_DESC_TRANSB] = {&d->b, sizeof(int32_t)},
        [CUBLASLT_MATMUL_DESC_EPILOGUE] = {&d->epilogue, sizeof(uint32_t)},
        [CUBLASLT_MATMUL_DESC_BIAS_POINTER] = {&d->bias, sizeof(void *)},
    };
    if (!d || d->watch != PRODUCT || !value || (size_t)name >= sizeof(known) / sizeof(known[0]))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!known[name].place || size != known[name].size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(known[name].place, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t made, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t step) {
    if (!made || size < sizeof(*made)) return CUBLAS_STATUS_ALLOC_FAILED;
    const struct matrix plain = {MATRIX, type, rows, columns, step};
    memset(made, 0, sizeof(*made));
    memcpy(made, &plain, sizeof(plain));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t made, size_t size) {
    if (!made || size < sizeof(*made)) return CUBLAS_STATUS_ALLOC_FAILED;
    const struct wishes plain = {WISHES, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}, 0};
    memset(made, 0, sizeof(*made));
    memcpy(made, &plain, sizeof(plain));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                    size_t size) {
    struct wishes *w = (struct wishes *)(void *)opaque;
    const struct {
        void *place;
        size_t size;
    } known[] = {
        [CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES] = {&w->workspace, sizeof(uint64_t)},
        [CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = {&w->reduction, sizeof(uint32_t)},
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = {&w->alignment[0], sizeof(uint32_t)},
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES] = {&w->alignment[1], sizeof(uint32_t)},
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES] = {&w->alignment[2], sizeof(uint32_t)},
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES] = {&w->alignment[3], sizeof(uint32_t)},
    };
    if (!w || w->watch != WISHES || !value || (size_t)name >= sizeof(known) / sizeof(known[0]))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!known[name].place || size != known[name].size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(known[name].place, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- what can be computed ---- */

static ls_dtype dtype_of(cudaDataType type) {
    return type == CUDA_R_16BF ? LS_BFLOAT16 : type == CUDA_R_16F ? LS_FLOAT16 : LS_FLOAT32;
}

static size_t size_of(const struct matrix *m) {
    return ((size_t)(m->columns - 1) * (size_t)m->step + (size_t)m->rows) * ls_numbers_size(dtype_of(m->type));
}

static bool is_matrix(const struct matrix *m) {
    return m && m->watch == MATRIX && m->rows && m->columns && m->rows <= INT32_MAX && m->columns <= INT32_MAX &&
           m->step >= (int64_t)m->rows;
}

/* The tables of types for float32 sums: factors alike; results as they are, or float32. */
static bool types_agree(const struct description *d, const struct matrix *const m[4]) {
    cudaDataType in = m[0]->type, out = m[3]->type;
    bool single = in == CUDA_R_32F, tf32 = d->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (m[1]->type != in || m[2]->type != out) return false;
    if (!single && in != CUDA_R_16BF && in != CUDA_R_16F) return false;
    if (out != in && out != CUDA_R_32F) return false;
    return d->compute == CUBLAS_COMPUTE_32F || (tf32 && single);
}

static cublasStatus_t pose(cublasLtMatmulDesc_t opaque, const cublasLtMatrixLayout_t layouts[4], struct problem *made) {
    const struct description *d = (const struct description *)(const void *)opaque;
    const struct matrix *m[4];
    for (int i = 0; i < 4; i++)
        if (m[i] = (const struct matrix *)(const void *)layouts[i], !is_matrix(m[i]))
            return CUBLAS_STATUS_INVALID_VALUE;
    if (!d || d->watch != PRODUCT) return CUBLAS_STATUS_INVALID_VALUE;
    bool a = d->a == CUBLAS_OP_T, b = d->b == CUBLAS_OP_T, biased = d->epilogue == CUBLASLT_EPILOGUE_BIAS;
    uint64_t rows = a ? m[0]->columns : m[0]->rows, depth = a ? m[0]->rows : m[0]->columns;
    uint64_t columns = b ? m[1]->rows : m[1]->columns;
    if ((!a && d->a != CUBLAS_OP_N) || (!b && d->b != CUBLAS_OP_N) || depth != (b ? m[1]->columns : m[1]->rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 2; i < 4; i++)
        if (m[i]->rows != rows || m[i]->columns != columns || m[i]->step != m[2]->step)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_agree(d, m)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!biased && d->epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (biased && !d->bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (biased && (rows == 1 || columns == 1)) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(made, 0, sizeof(*made));
    *made = (struct problem){(uint32_t)rows, (uint32_t)columns, (uint32_t)depth,     {0},
                             (uint8_t)d->a,  (uint8_t)d->b,     (uint8_t)d->compute, (uint8_t)d->epilogue};
    for (int i = 0; i < 4; i++) made->types[i] = (uint8_t)m[i]->type;
    return CUBLAS_STATUS_SUCCESS;
}

static uint32_t least_bit(uintptr_t place) {
    return (uint32_t)((place | 256) & (~(place | 256) + 1));
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t found[], int *count) {
    const struct description *description = (const struct description *)(const void *)operation;
    const struct wishes *wishes = (const struct wishes *)(const void *)preference;
    struct chosen chosen = {.watch = CHOSEN};
    if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!wishes || wishes->watch != WISHES || wanted < 1 || !found || !count) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t code = pose(operation, (const cublasLtMatrixLayout_t[]){a, b, c, d}, &chosen.problem);
    if (code) return code;
    *count = 0;
    const struct problem *p = &chosen.problem;
    bool in_place = wishes->reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE;
    bool rounds = wishes->reduction & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE || (in_place && p->types[3] != CUDA_R_32F);
    if (rounds) return CUBLAS_STATUS_SUCCESS; /* sums would be of 16 bits */
    size_t parts = (size_t)p->rows * p->columns * 2 * sizeof(float);
    chosen.in_place = in_place && p->depth >= SPLIT_DEPTH;
    bool split = !chosen.in_place && p->depth >= SPLIT_DEPTH && parts <= wishes->workspace &&
                 wishes->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    chosen.workspace = split ? (uint32_t)parts : 0;
    for (int i = 0; i < 4; i++) chosen.alignment[i] = (uint16_t)wishes->alignment[i];
    chosen.bias = (uint16_t)least_bit((uintptr_t)description->bias);
    memset(found, 0, sizeof(*found));
    memcpy(&found->algo, &chosen, sizeof(chosen));
    found->workspaceSize = chosen.workspace;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

struct work {
    struct matrix a, b, d;
    struct problem problem;
    bool a_transposed, b_transposed, tf32, split, in_place;
    unsigned turn; /* in place: with which part a sum begins */
    double alpha, beta;
    const void *a_data, *b_data, *bias;
    void *d_data;
    float *workspace;
};

/* Factors as (outer, depth) with depth innermost. */
static double *factor(const struct matrix *m, const void *data, bool depth_down, bool tf32) {
    size_t elements = size_of(m) / ls_numbers_size(dtype_of(m->type));
    double *plain = ls_numbers_load(data, dtype_of(m->type), elements, tf32);
    double *made = malloc(m->rows * m->columns * sizeof(*made));
    if (!made) abort();
    for (size_t r = 0; r < m->rows; r++)
        for (size_t c = 0; c < m->columns; c++)
            made[depth_down ? c * m->rows + r : r * m->columns + c] = plain[c * (size_t)m->step + r];
    free(plain);
    return made;
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static double add_in_place(const struct work *w, const double *a, const double *b) {
    size_t depth = w->problem.depth, step = (depth + PLACE_PARTS - 1) / PLACE_PARTS;
    float sum = 0;
    for (unsigned i = 0; i < PLACE_PARTS; i++) {
        size_t from = (i + w->turn) % PLACE_PARTS * step;
        if (from < depth) sum += (float)dot(a + from, b + from, depth - from < step ? depth - from : step);
    }
    return (double)sum;
}

static double element(const struct work *w, const double *a, const double *b, size_t at) {
    size_t depth = w->problem.depth, half = depth / 2, all = (size_t)w->problem.rows * w->problem.columns;
    if (w->in_place) return add_in_place(w, a, b);
    if (!w->split) return dot(a, b, depth);
    w->workspace[at] = (float)dot(a, b, half);
    w->workspace[all + at] = (float)dot(a + half, b + half, depth - half);
    return (double)(w->workspace[at] + w->workspace[all + at]);
}

static double number_at(const void *at, ls_dtype dtype) {
    double *loaded = ls_numbers_load(at, dtype, 1, false), value = *loaded;
    free(loaded);
    return value;
}

static int multiply(void *work) {
    const struct work *w = work;
    const struct problem *p = &w->problem;
    ls_dtype out = dtype_of(w->d.type);
    double *a = factor(&w->a, w->a_data, w->a_transposed, w->tf32);
    double *b = factor(&w->b, w->b_data, !w->b_transposed, w->tf32);
    double *bias = w->bias ? ls_numbers_load(w->bias, out, p->rows, false) : NULL;
    for (size_t c = 0; c < p->columns; c++)
        for (size_t r = 0; r < p->rows; r++) {
            double value = element(w, a + r * p->depth, b + c * p->depth, c * p->rows + r) * w->alpha;
            char *to = (char *)w->d_data + (c * (size_t)w->d.step + r) * ls_numbers_size(out);
            value += bias ? bias[r] : 0;
            if (w->beta != 0) value += w->beta * number_at(to, out);
            ls_numbers_store(to, out, &value, 1);
        }
    free(a);
    free(b);
    free(bias);
    return 1;
}

static bool placed(const void *data, size_t size, uint32_t alignment) {
    return data && (uintptr_t)data % alignment == 0 && ls_emulated_is_device(data, size);
}

static bool all_placed(const struct work *w, const struct chosen *chosen, size_t workspace_size) {
    size_t bias = w->problem.rows * ls_numbers_size(dtype_of(w->d.type));
    return placed(w->a_data, size_of(&w->a), chosen->alignment[0]) &&
           placed(w->b_data, size_of(&w->b), chosen->alignment[1]) &&
           placed(w->d_data, size_of(&w->d), chosen->alignment[3]) &&
           (!w->bias || placed(w->bias, bias, chosen->bias)) &&
           (!chosen->workspace ||
            (workspace_size >= chosen->workspace && placed(w->workspace, chosen->workspace, 256)));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_size, cudaStream_t stream) {
    static atomic_uint turns;
    const struct chosen *chosen = (const struct chosen *)(const void *)algorithm;
    struct work work = {.a_data = a, .b_data = b, .d_data = d, .workspace = workspace};
    if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || c != d || !chosen || chosen->watch != CHOSEN) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t code =
        pose(operation, (const cublasLtMatrixLayout_t[]){a_layout, b_layout, c_layout, d_layout}, &work.problem);
    if (code) return code;
    if (memcmp(&work.problem, &chosen->problem, sizeof(work.problem))) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&work.a, a_layout, sizeof(work.a));
    memcpy(&work.b, b_layout, sizeof(work.b));
    memcpy(&work.d, d_layout, sizeof(work.d));
    const struct description *description = (const struct description *)(const void *)operation;
    work.a_transposed = description->a == CUBLAS_OP_T;
    work.b_transposed = description->b == CUBLAS_OP_T;
    work.tf32 = description->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    work.bias = description->epilogue == CUBLASLT_EPILOGUE_BIAS ? description->bias : NULL;
    work.split = chosen->workspace > 0;
    work.in_place = chosen->in_place;
    work.turn = work.in_place ? atomic_fetch_add(&turns, 1) : 0;
    work.alpha = (double)*(const float *)alpha;
    work.beta = (double)*(const float *)beta;
    if (!all_placed(&work, chosen, workspace_size)) return CUBLAS_STATUS_INVALID_VALUE;
    return ls_emulated_queue(stream, multiply, &work, sizeof(work)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}
