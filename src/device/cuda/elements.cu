/* Sums, products, scaling, casts, copies of columns, and the report of a step. Every byte is read and written once, 16
 * at a time where the memory's alignment allows. */
#include <float.h>

#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/reduce.cuh"

namespace {

/* ---- y = f(x, w) ---- */

struct adding {
    __device__ float operator()(float x, float w) const {
        return x + w;
    }
};
struct multiplying {
    __device__ float operator()(float x, float w) const {
        return x * w;
    }
};
struct scaling {
    float factor, offset;
    __device__ float operator()(float x, float) const {
        return x * factor + offset;
    }
};
struct merging {
    float factor, scale;
    __device__ float operator()(float x, float w) const {
        return (x + w * factor) * scale;
    }
};

/* y, x and w may be the same. w is not read where there are not two. */
template <typename T, bool two, typename F>
__global__ void map(T *y, const T *x, const T *w, int64_t packs, int64_t count, F f) {
    constexpr int size = ls_wide<T>;
    for (int64_t i = ls_thread(); i < packs; i += ls_all_threads()) {
        float a[size], b[size] = {};
        ls_read_pack<T, size>(x + i * size, a);
        if (two) ls_read_pack<T, size>(w + i * size, b);
        for (int k = 0; k < size; k++) a[k] = f(a[k], b[k]);
        ls_write<T, size>(y + i * size, a);
    }
    for (int64_t i = packs * size + ls_thread(); i < count; i += ls_all_threads())
        y[i] = ls_store<T>(f(ls_load<T>(x[i]), two ? ls_load<T>(w[i]) : 0));
}

template <typename T, bool two, typename F>
cudaError_t launch_map(const struct ls_cuda_elements *e, F f, cudaStream_t stream) {
    bool aligned = ls_is_aligned(e->y) && ls_is_aligned(e->x) && (!two || ls_is_aligned(e->w));
    int64_t packs = aligned ? e->count / ls_wide<T> : 0;
    auto *kernel = map<T, two, F>;
    return LS_LAUNCH(kernel, ls_blocks(packs ? packs : e->count), LS_THREADS, stream, static_cast<T *>(e->y),
                     static_cast<const T *>(e->x), static_cast<const T *>(e->w), packs, e->count, f);
}

/* ---- casts ---- */

#define CAST_PACK 8 /* elements: 16 bytes of the 16-bit types, 32 of float32 */

template <typename To, typename From> __global__ void convert(To *y, const From *x, int64_t packs, int64_t count) {
    for (int64_t i = ls_thread(); i < packs; i += ls_all_threads()) {
        float values[CAST_PACK];
        ls_read_pack<From, CAST_PACK>(x + i * CAST_PACK, values);
        ls_write<To, CAST_PACK>(y + i * CAST_PACK, values);
    }
    for (int64_t i = packs * CAST_PACK + ls_thread(); i < count; i += ls_all_threads())
        y[i] = ls_store<To>(ls_load<From>(x[i]));
}

template <typename To, typename From>
cudaError_t launch_convert(To *y, const From *x, int64_t count, cudaStream_t stream) {
    int64_t packs = ls_is_aligned(y) && ls_is_aligned(x) ? count / CAST_PACK : 0;
    auto *kernel = convert<To, From>;
    return LS_LAUNCH(kernel, ls_blocks(packs ? packs : count), LS_THREADS, stream, y, x, packs, count);
}

template <typename From>
cudaError_t cast_from(void *y, ls_dtype to, const From *x, int64_t count, cudaStream_t stream) {
    LS_WITH_TYPE(to, return (launch_convert<T, From>(static_cast<T *>(y), x, count, stream)));
}

/* ---- bytes ---- */

#define EXPAND_PACK 16 /* bytes */
#define EXPAND_MOST 3  /* channels */

/* The table is a block's own: neighbours look up different places. A pack's elements are written half by half. */
template <typename To> __global__ void expand_bytes(To *y, struct ls_cuda_expansion e, int64_t packs) {
    __shared__ float table[EXPAND_MOST * LS_BYTE_VALUES];
    for (int i = static_cast<int>(threadIdx.x); i < e.channels * LS_BYTE_VALUES; i += static_cast<int>(blockDim.x))
        table[i] = e.table[i];
    __syncthreads();
    for (int64_t i = ls_thread(); i < packs; i += ls_all_threads()) {
        const ls_pack<uint8_t, EXPAND_PACK> bytes = ls_read<uint8_t, EXPAND_PACK>(e.x + i * EXPAND_PACK);
        int channel = static_cast<int>(i * EXPAND_PACK % e.channels);
        float values[EXPAND_PACK];
        LS_UNROLL
        for (int k = 0; k < EXPAND_PACK; k++) {
            values[k] = table[channel * LS_BYTE_VALUES + bytes.values[k]];
            channel = channel + 1 < e.channels ? channel + 1 : 0;
        }
        ls_write<To, EXPAND_PACK / 2>(y + i * EXPAND_PACK, values);
        ls_write<To, EXPAND_PACK / 2>(y + i * EXPAND_PACK + EXPAND_PACK / 2, values + EXPAND_PACK / 2);
    }
    for (int64_t i = packs * EXPAND_PACK + ls_thread(); i < e.count; i += ls_all_threads())
        y[i] = ls_store<To>(table[i % e.channels * LS_BYTE_VALUES + e.x[i]]);
}

template <typename To> cudaError_t launch_expand(const struct ls_cuda_expansion *e, cudaStream_t stream) {
    int64_t packs = ls_is_aligned(e->y) && ls_is_aligned(e->x) ? e->count / EXPAND_PACK : 0;
    auto *kernel = expand_bytes<To>;
    return LS_LAUNCH_SYNC(kernel, ls_blocks(packs ? packs : e->count), LS_THREADS, 0, stream, static_cast<To *>(e->y),
                          *e, packs);
}

/* ---- columns ---- */

/* Lines in units of U, in blocks of columns and rows, so that nothing is divided. */
template <typename U> __global__ void copy_lines(struct ls_cuda_copied_lines lines) {
    int64_t width = lines.width / static_cast<int64_t>(sizeof(U));
    for (int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < lines.rows;
         r += static_cast<int64_t>(gridDim.x) * blockDim.y) {
        const U *from = reinterpret_cast<const U *>(static_cast<const char *>(lines.from) + r * lines.from_pitch);
        U *to = reinterpret_cast<U *>(static_cast<char *>(lines.to) + r * lines.to_pitch);
        for (int64_t i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
    }
}

template <typename U> cudaError_t launch_lines(const struct ls_cuda_copied_lines *lines, cudaStream_t stream) {
    int64_t width = lines->width / static_cast<int64_t>(sizeof(U));
    unsigned columns = 1;
    while (columns < width && columns < LS_THREADS) columns *= 2;
    unsigned rows = LS_THREADS / columns;
    auto *kernel = copy_lines<U>;
    return LS_LAUNCH(kernel, ls_blocks(lines->rows * columns), dim3(columns, rows), stream, *lines);
}

/* ---- what is not finite ---- */

#define FINITE_ELEMENTS 16 /* a thread, at least, before there are more blocks */
#define FINITE_PACK     4

__global__ void count_infinite(const float *x, int64_t packs, int64_t count, int64_t *counts) {
    int found = 0;
    for (int64_t i = ls_thread(); i < packs; i += ls_all_threads()) {
        float values[FINITE_PACK];
        ls_read_pack<float, FINITE_PACK>(x + i * FINITE_PACK, values);
        for (int k = 0; k < FINITE_PACK; k++) found += !(fabsf(values[k]) <= FLT_MAX);
    }
    for (int64_t i = packs * FINITE_PACK + ls_thread(); i < count; i += ls_all_threads())
        found += !(fabsf(x[i]) <= FLT_MAX);
    double sum = ls_block_sum(found);
    if (threadIdx.x == 0) counts[blockIdx.x] = static_cast<int64_t>(sum);
}

__global__ void add_counts(const int64_t *counts, int64_t count, double *value) {
    double mine = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) mine += static_cast<double>(counts[i]);
    double sum = ls_block_sum(mine);
    if (threadIdx.x == 0) *value = sum;
}

/* ---- report ---- */

__device__ inline float told(const struct ls_loss_sums *sums, const struct ls_loss_sums *gathered, int at) {
    const struct ls_loss_sums none = {}, *more = gathered ? gathered : &none;
    if (at == LS_REPORT_LOSS) return static_cast<float>(sums->loss + more->loss);
    int64_t correct = sums->correct + more->correct, rows = sums->rows + more->rows;
    if (at == LS_REPORT_CORRECT) return static_cast<float>(correct % LS_REPORT_UNIT);
    if (at == LS_REPORT_CORRECT_UNITS) return static_cast<float>(correct / LS_REPORT_UNIT);
    if (at == LS_REPORT_ROWS) return static_cast<float>(rows % LS_REPORT_UNIT);
    if (at == LS_REPORT_ROWS_UNITS) return static_cast<float>(rows / LS_REPORT_UNIT);
    if (at == LS_REPORT_WEIGHT) return static_cast<float>(sums->weight + more->weight);
    int64_t uncounted = sums->uncounted + more->uncounted;
    if (at == LS_REPORT_UNCOUNTED) return static_cast<float>(uncounted % LS_REPORT_UNIT);
    if (at == LS_REPORT_UNCOUNTED_UNITS) return static_cast<float>(uncounted / LS_REPORT_UNIT);
    int metric = at - LS_REPORT_METRICS;
    return metric < LS_MAX_METRICS ? static_cast<float>(sums->metrics[metric] + more->metrics[metric]) : 0;
}

__global__ void write_report(struct ls_cuda_report report) {
    int at = static_cast<int>(threadIdx.x);
    if (at < report.count) report.y[at] = report.values[at] + told(report.sums, report.gathered, at);
}

} // namespace

cudaError_t ls_cuda_add(const struct ls_cuda_elements *elements, cudaStream_t stream) {
    LS_WITH_TYPE(elements->dtype, return (launch_map<T, true, adding>(elements, adding(), stream)));
}

cudaError_t ls_cuda_multiply(const struct ls_cuda_elements *elements, cudaStream_t stream) {
    LS_WITH_TYPE(elements->dtype, return (launch_map<T, true, multiplying>(elements, multiplying(), stream)));
}

cudaError_t ls_cuda_scale(const struct ls_cuda_elements *elements, float factor, float offset, cudaStream_t stream) {
    const scaling f = {factor, offset};
    LS_WITH_TYPE(elements->dtype, return (launch_map<T, false, scaling>(elements, f, stream)));
}

cudaError_t ls_cuda_merge(const struct ls_cuda_elements *elements, float factor, float scale, cudaStream_t stream) {
    return launch_map<float, true, merging>(elements, merging{factor, scale}, stream);
}

cudaError_t ls_cuda_cast(void *y, ls_dtype to, const void *x, ls_dtype from, int64_t count, cudaStream_t stream) {
    LS_WITH_TYPE(from, return cast_from<T>(y, to, static_cast<const T *>(x), count, stream));
}

cudaError_t ls_cuda_expand(const struct ls_cuda_expansion *expansion, cudaStream_t stream) {
    LS_WITH_TYPE(expansion->to, return launch_expand<T>(expansion, stream));
}

cudaError_t ls_cuda_copy_lines(const struct ls_cuda_copied_lines *lines, cudaStream_t stream) {
    uintptr_t all = reinterpret_cast<uintptr_t>(lines->to) | reinterpret_cast<uintptr_t>(lines->from) |
                    static_cast<uintptr_t>(lines->to_pitch | lines->from_pitch | lines->width);
    if (all % 16 == 0) return launch_lines<ls_pack<uint32_t, 4>>(lines, stream);
    return all % 4 == 0 ? launch_lines<uint32_t>(lines, stream) : launch_lines<uint16_t>(lines, stream);
}

cudaError_t ls_cuda_finite(const float *x, int64_t count, int64_t *counts, double *value, cudaStream_t stream) {
    unsigned wanted = ls_blocks(count / FINITE_ELEMENTS);
    unsigned blocks = wanted < LS_CUDA_FINITE_BLOCKS ? wanted : LS_CUDA_FINITE_BLOCKS;
    int64_t packs = ls_is_aligned(x) ? count / FINITE_PACK : 0;
    cudaError_t error = LS_LAUNCH_SYNC(count_infinite, blocks, LS_THREADS, 0, stream, x, packs, count, counts);
    if (error) return error;
    return LS_LAUNCH_SYNC(add_counts, 1, LS_THREADS, 0, stream, counts, static_cast<int64_t>(blocks), value);
}

cudaError_t ls_cuda_report(const struct ls_cuda_report *report, cudaStream_t stream) {
    return LS_LAUNCH(write_report, 1, LS_CUDA_REPORT_VALUES, stream, *report);
}
