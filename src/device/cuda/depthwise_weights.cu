/* The gradients of a depthwise convolution's taps and bias, in two stages: a block adds over a chunk of the lines of
 * dy, then the chunks are added in double, in order. For 3 by 3 taps a thread has all ten sums of its channels, and
 * reads elements that neighbouring positions share once: memory sees x and dy once each, and the partial sums. */
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"

namespace {

constexpr int SUMS_3X3 = 10; /* nine taps and the bias */

__device__ inline bool within(int at, int size) {
    return at >= 0 && at < size;
}

/* A line of dy: of which image, which one in it, and where it begins for this thread's channels. */
template <typename T> struct dy_line {
    int image, line;
    const T *at;
};

template <typename T> __device__ inline dy_line<T> line_of(const ls_cuda_depthwise &d, int64_t line, int64_t filter) {
    const T *at = static_cast<const T *>(d.dy) + line * d.at.out[1] * d.lines.channels + filter;
    return {(int)(line / d.at.out[0]), (int)(line % d.at.out[0]), at};
}

template <typename T>
__device__ inline const T *x_line(const ls_cuda_depthwise &d, int image, int line, int64_t channel) {
    return static_cast<const T *>(d.x) + ((int64_t)image * d.at.image[0] + line) * d.at.image[1] * d.at.channels +
           channel;
}

template <typename T, int V, int COUNT>
__device__ inline void read_run(const T *line, int column, int size, int channels, ls_pack<T, V> (&to)[COUNT]) {
    LS_UNROLL
    for (int i = 0; i < COUNT; i++)
        to[i] = within(column + i, size) ? ls_read<T, V>(line + (int64_t)(column + i) * channels) : ls_zeros<T, V>();
}

/* Adds the products of WIDTH neighbouring positions with the elements that line `row` of the taps finds in a line of x.
 */
template <typename T, int V, int STRIDE, int WIDTH>
__device__ inline void add_products(const ls_pack<T, V> (&dy)[WIDTH],
                                    const ls_pack<T, V> (&x)[(WIDTH - 1) * STRIDE + 3], int row,
                                    float (&sums)[SUMS_3X3 * V]) {
    LS_UNROLL
    for (int i = 0; i < (WIDTH - 1) * STRIDE + 3; i++) {
        LS_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            int tap = i - j * STRIDE;
            if (tap < 0 || tap > 2) continue;
            LS_UNROLL
            for (int v = 0; v < V; v++) {
                float &sum = sums[(row * 3 + tap) * V + v];
                sum = fmaf(ls_element(x[i], v), ls_element(dy[j], v), sum);
            }
        }
    }
}

template <typename T, int V, int STRIDE, int WIDTH>
__device__ inline void add_line(const ls_cuda_depthwise &d, const dy_line<T> &line, int64_t channel,
                                float (&sums)[SUMS_3X3 * V]) {
    for (int w = 0; w < d.at.out[1]; w += WIDTH) {
        ls_pack<T, V> dy[WIDTH], x[(WIDTH - 1) * STRIDE + 3];
        read_run<T, V, WIDTH>(line.at, w, d.at.out[1], d.at.channels, dy);
        LS_UNROLL
        for (int row = 0; row < 3; row++) {
            int h = line.line * STRIDE - d.at.before[0] + row;
            if (!within(h, d.at.image[0])) continue;
            read_run<T, V>(x_line<T>(d, line.image, h, channel), w * STRIDE - d.at.before[1], d.at.image[1],
                           d.at.channels, x);
            add_products<T, V, STRIDE, WIDTH>(dy, x, row, sums);
        }
        LS_UNROLL
        for (int j = 0; j < WIDTH; j++)
            for (int v = 0; v < V; v++) sums[9 * V + v] += ls_element(dy[j], v);
    }
}

template <typename T, int V, int STRIDE, int WIDTH>
__global__ void __launch_bounds__(LS_CUDA_THREADS) weights_3x3(ls_cuda_depthwise d) {
    LS_SHARED(float, shared);
    const ls_row_place p = ls_place_of(d.lines);
    float sums[SUMS_3X3 * V] = {};
    for (int64_t line = p.begin; p.inside && line < p.end; line += p.step)
        add_line<T, V, STRIDE, WIDTH>(d, line_of<T>(d, line, p.channel), p.channel, sums);
    ls_block_add<SUMS_3X3 * V>(sums, shared);
    if (!p.inside || threadIdx.y) return;
    LS_UNROLL
    for (int i = 0; i < SUMS_3X3; i++) {
        float sum[V];
        for (int v = 0; v < V; v++) sum[v] = sums[i * V + v];
        ls_write_floats<V>(d.partials + ((int64_t)blockIdx.y * SUMS_3X3 + i) * d.lines.channels + p.channel, sum);
    }
}

/* ---- any window: a block has one tap, blockIdx.z; the bias is the one after the last ---- */

/* Sums of a line of dy; tap: line, column; -1: the bias. */
template <typename T, int V>
__device__ inline void add_line_any(const ls_cuda_depthwise &d, const dy_line<T> &line, int64_t filter,
                                    const int (&tap)[2], float (&sums)[V]) {
    bool bias = tap[0] < 0;
    int h = line.line * d.at.strides[0] - d.at.before[0] + tap[0] * d.at.dilation[0];
    if (!bias && !within(h, d.at.image[0])) return;
    const T *x = x_line<T>(d, line.image, bias ? 0 : h, filter / d.multiplier);
    for (int w = 0; w < d.at.out[1]; w++) {
        int column = w * d.at.strides[1] - d.at.before[1] + tap[1] * d.at.dilation[1];
        if (!bias && !within(column, d.at.image[1])) continue;
        ls_pack<T, V> dy = ls_read<T, V>(line.at + (int64_t)w * d.lines.channels);
        ls_pack<T, V> with = bias ? dy : ls_read<T, V>(x + (int64_t)column * d.at.channels);
        for (int v = 0; v < V; v++)
            sums[v] = bias ? sums[v] + ls_element(dy, v) : fmaf(ls_element(with, v), ls_element(dy, v), sums[v]);
    }
}

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) weights_any(ls_cuda_depthwise d) {
    LS_SHARED(float, shared);
    const ls_row_place p = ls_place_of(d.lines);
    const int taps = d.at.kernel[0] * d.at.kernel[1], own = (int)blockIdx.z;
    const int tap[2] = {own < taps ? own / d.at.kernel[1] : -1, own < taps ? own % d.at.kernel[1] : -1};
    float sums[V] = {};
    for (int64_t line = p.begin; p.inside && line < p.end; line += p.step)
        add_line_any<T, V>(d, line_of<T>(d, line, p.channel), p.channel, tap, sums);
    ls_block_add<V>(sums, shared);
    if (!p.inside || threadIdx.y) return;
    ls_write_floats<V>(d.partials + ((int64_t)blockIdx.y * (taps + 1) + own) * d.lines.channels + p.channel, sums);
}

/* ---- over the chunks ---- */

__global__ void __launch_bounds__(LS_FINISH_SUMS *LS_FINISH_CHUNKS) weights_finish(ls_cuda_depthwise d) {
    LS_SHARED(double, shared);
    const int64_t filters = d.lines.channels, taps = (int64_t)d.at.kernel[0] * d.at.kernel[1] * filters;
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, width = taps + filters;
    double sum[1] = {};
    if (at < width) {
        LS_AHEAD
        for (int k = (int)threadIdx.y; k < d.lines.chunks; k += (int)blockDim.y)
            sum[0] += (double)d.partials[k * width + at];
    }
    ls_block_add<1>(sum, shared);
    if (threadIdx.y || at >= width) return;
    if (at < taps)
        d.dw[at] = (float)sum[0];
    else if (d.db)
        d.db[at - taps] = (float)sum[0];
}

/* ---- launching ---- */

typedef void weights_kernel(ls_cuda_depthwise d);

cudaError_t launch(weights_kernel *kernel, const ls_cuda_depthwise *d, int sums, int deep, cudaStream_t stream) {
    dim3 grid = ls_grid_of(d->lines), block = ls_block_of(d->lines);
    size_t bytes = sizeof(float) * (size_t)(sums * d->lines.vector) * block.x * block.y;
    grid.z = (unsigned)deep;
    return LS_LAUNCH_SYNC(kernel, grid, block, bytes, stream, *d);
}

template <typename T> cudaError_t launch_partials(const ls_cuda_depthwise *d, cudaStream_t stream) {
    constexpr int V = LS_CUDA_WEIGHT_CHANNELS;
    const ls_cuda_windows &w = d->at;
    bool three = d->lines.vector > 1 && w.kernel[0] == 3 && w.kernel[1] == 3 && w.dilation[0] == 1 &&
                 w.dilation[1] == 1 && w.strides[0] == w.strides[1];
    if (three && w.strides[0] == 1) return launch(weights_3x3<T, V, 1, 4>, d, SUMS_3X3, 1, stream);
    if (three && w.strides[0] == 2) return launch(weights_3x3<T, V, 2, 2>, d, SUMS_3X3, 1, stream);
    return launch(d->lines.vector > 1 ? weights_any<T, V> : weights_any<T, 1>, d, 1, w.kernel[0] * w.kernel[1] + 1,
                  stream);
}

} // namespace

cudaError_t ls_cuda_depthwise_dw(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(d->dtype, error = launch_partials<T>(d, stream));
    if (error != cudaSuccess) return error;
    int64_t width = ((int64_t)d->at.kernel[0] * d->at.kernel[1] + 1) * d->lines.channels;
    dim3 block = ls_finish_block(d->lines.chunks);
    size_t bytes = sizeof(double) * block.x * block.y;
    return LS_LAUNCH_SYNC(weights_finish, ls_finish_grid(width), block, bytes, stream, *d);
}
