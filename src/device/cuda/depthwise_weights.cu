/* The gradient of a depthwise convolution's taps, in two stages: a block adds over a chunk of the lines of dy, for one
 * tap, then the chunks are added in double, in order. The second stage serves the kernels of 3 by 3 taps too. */
#include "device/cuda/strips.cuh"

namespace {

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

/* Sums of a line of dy for a tap: line, column. */
template <typename T, int V>
__device__ inline void add_line_any(const ls_cuda_depthwise &d, const dy_line<T> &line, int64_t filter,
                                    const int (&tap)[2], float (&sums)[V]) {
    int h = line.line * d.at.strides[0] - d.at.before[0] + tap[0] * d.at.dilation[0];
    if (!ls_within(h, d.at.image[0])) return;
    const T *x = x_line<T>(d, line.image, h, filter / d.multiplier);
    for (int w = 0; w < d.at.out[1]; w++) {
        int column = w * d.at.strides[1] - d.at.before[1] + tap[1] * d.at.dilation[1];
        if (!ls_within(column, d.at.image[1])) continue;
        ls_pack<T, V> dy = ls_read<T, V>(line.at + (int64_t)w * d.lines.channels);
        ls_pack<T, V> with = ls_read<T, V>(x + (int64_t)column * d.at.channels);
        LS_UNROLL
        for (int v = 0; v < V; v++) sums[v] = fmaf(ls_element(with, v), ls_element(dy, v), sums[v]);
    }
}

/* A block has one tap, blockIdx.z. */
template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) weights_any(ls_cuda_depthwise d) {
    LS_SHARED(float, shared);
    const ls_row_place p = ls_place_of(d.lines);
    const int taps = d.at.kernel[0] * d.at.kernel[1], own = (int)blockIdx.z;
    const int tap[2] = {own / d.at.kernel[1], own % d.at.kernel[1]};
    float sums[V] = {};
    for (int64_t line = p.begin; p.inside && line < p.end; line += p.step)
        add_line_any<T, V>(d, line_of<T>(d, line, p.channel), p.channel, tap, sums);
    ls_block_add<V>(sums, shared);
    if (!p.inside || threadIdx.y) return;
    ls_write_floats<V>(d.partials + ((int64_t)blockIdx.y * taps + own) * d.lines.channels + p.channel, sums);
}

/* ---- over the chunks ---- */

__global__ void __launch_bounds__(LS_FINISH_SUMS *LS_FINISH_CHUNKS) weights_finish(ls_cuda_depthwise d, int64_t width) {
    LS_SHARED(double, shared);
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sum[1] = {};
    if (at < width) {
        LS_AHEAD
        for (int k = (int)threadIdx.y; k < d.chunks; k += (int)blockDim.y) sum[0] += (double)d.partials[k * width + at];
    }
    ls_block_add<1>(sum, shared);
    if (!threadIdx.y && at < width) d.dw[at] = (float)sum[0];
}

template <typename T> cudaError_t launch_partials(const ls_cuda_depthwise *d, cudaStream_t stream) {
    dim3 grid = ls_grid_of(d->lines), block = ls_block_of(d->lines);
    size_t bytes = sizeof(float) * (size_t)d->lines.vector * block.x * block.y;
    void (*kernel)(ls_cuda_depthwise) = d->lines.vector > 1 ? weights_any<T, ls_wide<T>> : weights_any<T, 1>;
    grid.z = (unsigned)(d->at.kernel[0] * d->at.kernel[1]);
    return LS_LAUNCH_SYNC(kernel, grid, block, bytes, stream, *d);
}

} // namespace

cudaError_t ls_cuda_depthwise_dw(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    LS_WITH_TYPE(d->dtype, return launch_partials<T>(d, stream));
}

cudaError_t ls_cuda_depthwise_finish(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    int64_t width = (int64_t)d->at.kernel[0] * d->at.kernel[1] * d->at.channels * d->multiplier;
    dim3 block = ls_finish_block(d->chunks);
    size_t bytes = sizeof(double) * block.x * block.y;
    return LS_LAUNCH_SYNC(weights_finish, ls_finish_grid(width), block, bytes, stream, *d, width);
}
