/* Windows over images as rows of a matrix: gathered into it, and scattered back as sums. A block takes one position;
 * its threads take neighbouring channels. */
#include "device/cuda/kernel.h"
#include "device/cuda/kernels_products.h"

namespace {

constexpr unsigned THREADS = 128;

/* The position along an axis that a tap of a window sees; -1 in the padding. */
__device__ inline int64_t seen(const ls_cuda_gathered_windows &g, int axis, int64_t window, int64_t tap) {
    int64_t at = window * g.strides[axis] + tap * g.dilation[axis] - g.before[axis];
    return at < g.image[axis] ? at : -1;
}

/* The window along an axis of which a tap sees a position; -1 if none does. */
__device__ inline int64_t seeing(const ls_cuda_gathered_windows &g, int axis, int64_t at, int64_t tap) {
    int64_t from = at + g.before[axis] - tap * g.dilation[axis];
    if (from < 0 || from % g.strides[axis] || from / g.strides[axis] >= g.out[axis]) return -1;
    return from / g.strides[axis];
}

/* Row (row, h, w) of windows: (kernel, channels). */
template <typename T> __global__ void gather(T *windows, const T *images, ls_cuda_gathered_windows g) {
    int64_t w = blockIdx.x % g.out[1], h = blockIdx.x / g.out[1] % g.out[0], row = blockIdx.x / g.out[1] / g.out[0];
    T *to = windows + blockIdx.x * g.kernel[0] * g.kernel[1] * g.channels;
    for (int64_t r = 0; r < g.kernel[0]; r++)
        for (int64_t s = 0; s < g.kernel[1]; s++, to += g.channels) {
            int64_t y = seen(g, 0, h, r), x = seen(g, 1, w, s), place = (row * g.image[0] + y) * g.image[1] + x;
            for (int64_t c = threadIdx.x; c < g.channels; c += THREADS)
                to[c] = y >= 0 && x >= 0 ? images[place * g.pitch + c] : ls_store<T>(0.0f);
        }
}

/* Each position's sum over the windows that see it, by taps in order. */
template <typename T> __global__ void scatter(T *images, const T *windows, ls_cuda_gathered_windows g) {
    int64_t x = blockIdx.x % g.image[1], y = blockIdx.x / g.image[1] % g.image[0];
    int64_t row = blockIdx.x / g.image[1] / g.image[0], taps = g.kernel[0] * g.kernel[1];
    for (int64_t c = threadIdx.x; c < g.channels; c += THREADS) {
        float sum = 0;
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t h = seeing(g, 0, y, tap / g.kernel[1]), w = seeing(g, 1, x, tap % g.kernel[1]);
            if (h < 0 || w < 0) continue;
            sum += ls_load(windows[(((row * g.out[0] + h) * g.out[1] + w) * taps + tap) * g.channels + c]);
        }
        images[blockIdx.x * g.pitch + c] = ls_store<T>(sum);
    }
}

} // namespace

cudaError_t ls_cuda_gather_windows(const ls_cuda_gathered_windows *g, void *windows, const void *images, ls_dtype dtype,
                                   cudaStream_t stream) {
    cudaError_t error;
    dim3 blocks((unsigned)(g->rows * g->out[0] * g->out[1]));
    LS_WITH_TYPE(dtype, error = LS_LAUNCH(gather<T>, blocks, dim3(THREADS), stream, static_cast<T *>(windows),
                                          static_cast<const T *>(images), *g));
    return error;
}

cudaError_t ls_cuda_scatter_windows(const ls_cuda_gathered_windows *g, void *images, const void *windows,
                                    ls_dtype dtype, cudaStream_t stream) {
    cudaError_t error;
    dim3 blocks((unsigned)(g->rows * g->image[0] * g->image[1]));
    LS_WITH_TYPE(dtype, error = LS_LAUNCH(scatter<T>, blocks, dim3(THREADS), stream, static_cast<T *>(images),
                                          static_cast<const T *>(windows), *g));
    return error;
}
