/* A row that is added to each row of the batch, and its gradient. A thread has an element of all rows, and adds them in
 * their order: the bits are the CPU's. */
#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"

namespace {

template <typename T> __global__ void add_positions(ls_cuda_positions p) {
    const T *x = static_cast<const T *>(p.x);
    T *y = static_cast<T *>(p.y);
    const float *first = p.b + (p.at ? *p.at * p.channels : 0);
    for (int64_t i = ls_thread(); i < p.count; i += ls_all_threads()) {
        float b = first[i];
        LS_AHEAD
        for (int64_t r = 0; r < p.rows; r++) y[r * p.count + i] = ls_store<T>(ls_load<T>(x[r * p.count + i]) + b);
    }
}

template <typename T> __global__ void sum_positions(ls_cuda_positions p) {
    const T *dy = static_cast<const T *>(p.x);
    for (int64_t i = ls_thread(); i < p.count; i += ls_all_threads()) {
        float sum = ls_load<T>(dy[i]);
        LS_AHEAD
        for (int64_t r = 1; r < p.rows; r++) sum += ls_load<T>(dy[r * p.count + i]);
        p.b[i] = sum;
    }
}

template <typename T> cudaError_t launch_positions(const ls_cuda_positions &p, bool sums, cudaStream_t stream) {
    auto *kernel = sums ? sum_positions<T> : add_positions<T>;
    return LS_LAUNCH(kernel, ls_blocks(p.count), LS_THREADS, stream, p);
}

} // namespace

cudaError_t ls_cuda_position_forward(const struct ls_cuda_positions *positions, cudaStream_t stream) {
    LS_WITH_TYPE(positions->dtype, return launch_positions<T>(*positions, false, stream));
}

cudaError_t ls_cuda_position_backward(const struct ls_cuda_positions *positions, cudaStream_t stream) {
    LS_WITH_TYPE(positions->dtype, return launch_positions<T>(*positions, true, stream));
}
