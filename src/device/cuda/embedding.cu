/* Rows of a table by number, and their gradients. Each thread of backward has one column, and goes through the batch in
 * its order: no two threads add to one number. */
#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"

namespace {

/* -1: no row's. */
__device__ inline int64_t row_of(const ls_cuda_embedding &e, int64_t i) {
    if (e.integers) {
        int32_t integer = static_cast<const int32_t *>(e.ids)[i];
        return integer >= 0 && integer < e.limit ? integer : -1;
    }
    float id = static_cast<const float *>(e.ids)[i];
    return id >= 0 && id < static_cast<float>(e.limit) ? static_cast<int64_t>(id) : -1;
}

template <typename T> __global__ void take_rows(ls_cuda_embedding e) {
    const T *table = static_cast<const T *>(e.table);
    T *rows = static_cast<T *>(e.rows);
    for (int64_t i = ls_thread(); i < e.count * e.width; i += ls_all_threads()) {
        int64_t row = row_of(e, i / e.width);
        rows[i] = row < 0 ? ls_store<T>(0) : table[row * e.width + i % e.width];
    }
}

__global__ void write_zeros(float *table, int64_t count) {
    for (int64_t i = ls_thread(); i < count; i += ls_all_threads()) table[i] = 0;
}

template <typename T> __global__ void add_rows(ls_cuda_embedding e) {
    float *table = static_cast<float *>(e.table);
    const T *rows = static_cast<const T *>(e.rows);
    for (int64_t k = ls_thread(); k < e.width; k += ls_all_threads())
        for (int64_t i = 0; i < e.count; i++) {
            int64_t row = row_of(e, i);
            if (row >= 0) table[row * e.width + k] += ls_load<T>(rows[i * e.width + k]);
        }
}

template <typename T> cudaError_t launch_take(const ls_cuda_embedding &e, cudaStream_t stream) {
    auto *kernel = take_rows<T>;
    return LS_LAUNCH(kernel, ls_blocks(e.count * e.width), LS_THREADS, stream, e);
}

template <typename T> cudaError_t launch_add(const ls_cuda_embedding &e, cudaStream_t stream) {
    auto *kernel = add_rows<T>;
    return LS_LAUNCH(kernel, ls_blocks(e.width), LS_THREADS, stream, e);
}

} // namespace

cudaError_t ls_cuda_embedding_forward(const struct ls_cuda_embedding *embedding, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(embedding->dtype, error = launch_take<T>(*embedding, stream));
    return error;
}

cudaError_t ls_cuda_embedding_backward(const struct ls_cuda_embedding *embedding, cudaStream_t stream) {
    int64_t count = embedding->limit * embedding->width;
    cudaError_t error =
        LS_LAUNCH(write_zeros, ls_blocks(count), LS_THREADS, stream, static_cast<float *>(embedding->table), count);
    if (error) return error;
    LS_WITH_TYPE(embedding->dtype, error = launch_add<T>(*embedding, stream));
    return error;
}
