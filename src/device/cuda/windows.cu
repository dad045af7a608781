/* Windows over images as rows of a matrix: gathered into it, and scattered back as sums. A block takes a line of
 * positions; its threads take neighbouring channels, in packs where addresses allow it. */
#include "device/cuda/kernel.h"
#include "device/cuda/kernels_products.h"
#include "device/cuda/pack.cuh"

namespace {

constexpr int THREADS = 128;

/* A thread has some channels of one tap: it writes them for all windows of a line. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS) gather(T *windows, const T *images, ls_cuda_gathered_windows g) {
    const int groups = (int)g.channels / V, across = (int)g.kernel[1] * groups, lanes = (int)g.kernel[0] * across;
    const int lane = (int)(blockIdx.y * THREADS + threadIdx.x);
    if (lane >= lanes) return;
    const int line = (int)(blockIdx.x % (unsigned)g.out[0]), first = lane % across / groups * (int)g.dilation[1];
    const int64_t row = blockIdx.x / (unsigned)g.out[0];
    const int y = line * (int)g.strides[0] + lane / across * (int)g.dilation[0] - (int)g.before[0];
    const bool inside = y >= 0 && y < g.image[0];
    const T *from = images + (row * g.image[0] + (inside ? y : 0)) * g.image[1] * g.pitch + lane % groups * V;
    T *to = windows + ((int64_t)blockIdx.x * g.out[1] * lanes + lane) * V;
    LS_AHEAD
    for (int w = 0; w < (int)g.out[1]; w++) {
        const int x = w * (int)g.strides[1] + first - (int)g.before[1];
        const bool there = inside && x >= 0 && x < g.image[1];
        ls_pack<T, V> pack = there ? ls_read<T, V>(from + x * g.pitch) : ls_zeros<T, V>();
        *reinterpret_cast<ls_pack<T, V> *>(to + (int64_t)w * lanes * V) = pack;
    }
}

/* The window along an axis of which a tap sees a position; -1 if none does. */
__device__ inline int seeing(const ls_cuda_gathered_windows &g, int axis, int at, int tap) {
    const int from = at + (int)g.before[axis] - tap * (int)g.dilation[axis], stride = (int)g.strides[axis];
    return from < 0 || from % stride || from / stride >= g.out[axis] ? -1 : from / stride;
}

/* A thread has some channels of positions of a line: each one's sum over the windows that see it, by taps in order. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS) scatter(T *images, const T *windows, ls_cuda_gathered_windows g) {
    const int channel = (int)(blockIdx.y * blockDim.x + threadIdx.x) * V;
    if (channel >= g.channels) return;
    const int y = (int)(blockIdx.x % (unsigned)g.image[0]), taps = (int)(g.kernel[0] * g.kernel[1]);
    const int64_t row = blockIdx.x / (unsigned)g.image[0];
    for (int x = (int)threadIdx.y; x < g.image[1]; x += (int)blockDim.y) {
        float sums[V] = {};
        for (int tap = 0; tap < taps; tap++) {
            const int h = seeing(g, 0, y, tap / (int)g.kernel[1]), w = seeing(g, 1, x, tap % (int)g.kernel[1]);
            if (h < 0 || w < 0) continue;
            float seen[V];
            ls_read_pack<T, V>(windows + (((row * g.out[0] + h) * g.out[1] + w) * taps + tap) * g.channels + channel,
                               seen);
            LS_UNROLL
            for (int i = 0; i < V; i++) sums[i] += seen[i];
        }
        ls_write<T, V>(images + ((int64_t)blockIdx.x * g.image[1] + x) * g.pitch + channel, sums);
    }
}

template <typename T> bool has_packs(const ls_cuda_gathered_windows *g, const void *images) {
    return g->channels % ls_wide<T> == 0 && g->pitch % ls_wide<T> == 0 && ls_is_aligned(images);
}

template <typename T>
cudaError_t gather_as(const ls_cuda_gathered_windows *g, void *windows, const void *images, cudaStream_t stream) {
    const bool packs = has_packs<T>(g, images);
    const int64_t lanes = g->kernel[0] * g->kernel[1] * g->channels / (packs ? ls_wide<T> : 1);
    auto kernel = packs ? gather<T, ls_wide<T>> : gather<T, 1>;
    return LS_LAUNCH(kernel, dim3((unsigned)(g->rows * g->out[0]), (unsigned)((lanes + THREADS - 1) / THREADS)),
                     dim3(THREADS), stream, static_cast<T *>(windows), static_cast<const T *>(images), *g);
}

template <typename T>
cudaError_t scatter_as(const ls_cuda_gathered_windows *g, void *images, const void *windows, cudaStream_t stream) {
    const bool packs = has_packs<T>(g, images);
    const int64_t groups = g->channels / (packs ? ls_wide<T> : 1);
    const unsigned lanes = (unsigned)(groups < THREADS ? groups : THREADS);
    auto kernel = packs ? scatter<T, ls_wide<T>> : scatter<T, 1>;
    return LS_LAUNCH(kernel, dim3((unsigned)(g->rows * g->image[0]), (unsigned)((groups + lanes - 1) / lanes)),
                     dim3(lanes, THREADS / lanes), stream, static_cast<T *>(images), static_cast<const T *>(windows),
                     *g);
}

} // namespace

cudaError_t ls_cuda_gather_windows(const ls_cuda_gathered_windows *g, void *windows, const void *images, ls_dtype dtype,
                                   cudaStream_t stream) {
    LS_WITH_TYPE(dtype, return gather_as<T>(g, windows, images, stream));
}

cudaError_t ls_cuda_scatter_windows(const ls_cuda_gathered_windows *g, void *images, const void *windows,
                                    ls_dtype dtype, cudaStream_t stream) {
    LS_WITH_TYPE(dtype, return scatter_as<T>(g, images, windows, stream));
}
