/* Dropout, with the CPU's random numbers. */
#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"
#include "device/dropout.h"

namespace {

#define GROUP 4 /* elements that share a draw */

/* Once a run, so that not every block reads the step over the bus. */
__global__ void draw_seed(uint64_t *seed, const struct ls_optimizer_step *step, struct ls_randomness random) {
    *seed = ls_dropout_seed(&random, step->iteration, step->pass);
}

struct drawing {
    uint64_t stream;
    uint32_t limit;
    float factor;
};

template <typename T>
__global__ void drop(T *y, const T *x, int64_t packs, int64_t count, const uint64_t *seed, struct drawing draw) {
    constexpr int size = ls_wide<T>;
    for (int64_t i = ls_thread(); i < packs; i += ls_all_threads()) {
        uint32_t words[GROUP];
        float values[size];
        ls_read_pack<T, size>(x + i * size, values);
        for (int k = 0; k < size; k++) {
            if (k % GROUP == 0) ls_philox_words(*seed, draw.stream, static_cast<uint64_t>(i * size + k) / GROUP, words);
            values[k] = words[k % GROUP] >= draw.limit ? values[k] * draw.factor : 0;
        }
        ls_write<T, size>(y + i * size, values);
    }
    for (int64_t i = packs * size + ls_thread(); i < count; i += ls_all_threads()) {
        uint32_t words[GROUP];
        ls_philox_words(*seed, draw.stream, static_cast<uint64_t>(i) / GROUP, words);
        y[i] = ls_store<T>(words[i % GROUP] >= draw.limit ? ls_load<T>(x[i]) * draw.factor : 0);
    }
}

template <typename T> cudaError_t launch_drop(const struct ls_cuda_dropout *dropout, cudaStream_t stream) {
    const struct ls_cuda_elements *e = &dropout->elements;
    const struct drawing draw = {dropout->random.stream, ls_dropout_limit(dropout->rate), 1 / (1 - dropout->rate)};
    int64_t packs = ls_is_aligned(e->x) && ls_is_aligned(e->y) ? e->count / ls_wide<T> : 0;
    const uint64_t *seed = dropout->seed;
    auto *kernel = drop<T>;
    return LS_LAUNCH(kernel, ls_blocks(packs ? packs : e->count), LS_THREADS, stream, static_cast<T *>(e->y),
                     static_cast<const T *>(e->x), packs, e->count, seed, draw);
}

} // namespace

cudaError_t ls_cuda_dropout(const struct ls_cuda_dropout *dropout, cudaStream_t stream) {
    cudaError_t error = LS_LAUNCH(draw_seed, 1, 1, stream, dropout->seed, dropout->step, dropout->random);
    if (error) return error;
    LS_WITH_TYPE(dropout->elements.dtype, error = launch_drop<T>(dropout, stream));
    return error;
}
