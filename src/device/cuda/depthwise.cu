/* Depthwise convolutions by any window: one position a thread, tap by tap, and several channels only where each has one
 * filter. Windows of 3 by 3 in packs of channels have kernels of their own, in depthwise_3x3.cu. */
#include "device/cuda/strips.cuh"

namespace {

template <typename T, int V>
__global__ void __launch_bounds__(LS_CUDA_THREADS) filter_any(ls_cuda_depthwise d, ls_cuda_lines lines) {
    const ls_line_place p = ls_place_of(lines);
    if (p.position >= lines.width) return;
    const ls_cuda_windows &at = d.at;
    ls_each_line(lines, [&](int n, int h) {
        float y[V] = {};
        if (d.bias) ls_read_floats<V>(d.bias + p.channel, y);
        for (int tap = 0; tap < at.kernel[0] * at.kernel[1]; tap++) {
            int line = h * at.strides[0] - at.before[0] + tap / at.kernel[1] * at.dilation[0];
            int column = p.position * at.strides[1] - at.before[1] + tap % at.kernel[1] * at.dilation[1];
            if (!ls_within(line, at.image[0]) || !ls_within(column, at.image[1])) continue;
            int64_t from = ((int64_t)n * at.image[0] + line) * at.image[1] + column;
            ls_pack<T, V> x =
                ls_read<T, V>(static_cast<const T *>(d.x) + from * at.channels + p.channel / d.multiplier);
            ls_pack<T, V> w = ls_read<T, V>(static_cast<const T *>(d.w) + (int64_t)tap * lines.channels + p.channel);
            for (int v = 0; v < V; v++) y[v] = fmaf(ls_element(x, v), ls_element(w, v), y[v]);
        }
        int64_t to = ((int64_t)n * lines.height + h) * lines.width + p.position;
        ls_write<T, V>(static_cast<T *>(d.out) + to * lines.channels + p.channel, y);
    });
}

/* The position whose window has its tap at place `at` of the image; -1 if there is none. */
__device__ inline int position_of(const ls_cuda_windows &windows, int axis, int at, int tap) {
    int from = at + windows.before[axis] - tap * windows.dilation[axis];
    if (from < 0 || from % windows.strides[axis]) return -1;
    return from / windows.strides[axis] < windows.out[axis] ? from / windows.strides[axis] : -1;
}

template <typename T, int V>
__global__ void __launch_bounds__(LS_CUDA_THREADS) spread_any(ls_cuda_depthwise d, ls_cuda_lines lines) {
    const ls_line_place p = ls_place_of(lines);
    if (p.position >= lines.width) return;
    const ls_cuda_windows &at = d.at;
    const int64_t filters = (int64_t)at.channels * d.multiplier;
    ls_each_line(lines, [&](int n, int h) {
        float dx[V] = {};
        for (int tap = 0; tap < at.kernel[0] * at.kernel[1]; tap++) {
            int line = position_of(at, 0, h, tap / at.kernel[1]);
            int column = position_of(at, 1, p.position, tap % at.kernel[1]);
            if (line < 0 || column < 0) continue;
            int64_t from = (((int64_t)n * at.out[0] + line) * at.out[1] + column) * filters;
            for (int64_t m = (int64_t)p.channel * d.multiplier, i = 0; i < d.multiplier; i++, m++) {
                ls_pack<T, V> dy = ls_read<T, V>(static_cast<const T *>(d.dy) + from + m);
                ls_pack<T, V> w = ls_read<T, V>(static_cast<const T *>(d.w) + tap * filters + m);
                for (int v = 0; v < V; v++) dx[v] = fmaf(ls_element(dy, v), ls_element(w, v), dx[v]);
            }
        }
        int64_t to = ((int64_t)n * lines.height + h) * lines.width + p.position;
        ls_write<T, V>(static_cast<T *>(d.out) + to * at.channels + p.channel, dx);
    });
}

/* ---- launching ---- */

typedef void any_kernel(ls_cuda_depthwise d, ls_cuda_lines lines);

cudaError_t launch_any(any_kernel *kernel, const ls_cuda_depthwise *d, const int64_t out[4], cudaStream_t stream) {
    ls_cuda_lines lines = ls_cuda_lines_over(out, d->vector, 1);
    return LS_LAUNCH(kernel, ls_grid_of(lines), ls_block_of(lines), stream, *d, lines);
}

template <typename T> cudaError_t launch_y(const ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_windows &w = d->at;
    const int64_t out[] = {w.images, w.out[0], w.out[1], (int64_t)w.channels * d->multiplier};
    return launch_any(d->vector > 1 ? filter_any<T, ls_wide<T>> : filter_any<T, 1>, d, out, stream);
}

template <typename T> cudaError_t launch_dx(const ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_windows &w = d->at;
    const int64_t image[] = {w.images, w.image[0], w.image[1], w.channels};
    return launch_any(d->vector > 1 ? spread_any<T, ls_wide<T>> : spread_any<T, 1>, d, image, stream);
}

} // namespace

cudaError_t ls_cuda_depthwise_y(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    LS_WITH_TYPE(d->dtype, return launch_y<T>(d, stream));
}

cudaError_t ls_cuda_depthwise_dx(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    LS_WITH_TYPE(d->dtype, return launch_dx<T>(d, stream));
}
