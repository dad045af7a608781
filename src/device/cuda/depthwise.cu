/* Depthwise convolutions forward and to their input. Windows of 3 by 3 with stride 1 or 2, as in MobileNet, have
 * kernels of their own: a thread has 16 bytes of channels of a few neighbouring positions, and reads elements that
 * windows share once, or finds them in the cache as its block goes down the image. Memory sees x and y once each. All
 * other windows are gathered tap by tap. */
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"

namespace {

/* y = x filtered by 3 by 3 taps. dx of stride 1 is dy filtered by the taps in reverse. */
struct filter {
    ls_cuda_lines lines;
    int in[2], before[2], width; /* width: positions of a line of out */
    bool reversed;
    const void *x, *w;
    const float *bias;
    void *out;
};

__device__ inline bool within(int at, int size) {
    return at >= 0 && at < size;
}

/* The taps lie in registers for all positions of a thread. Reversed taps turn the gradient of a convolution of stride 1
 * into a convolution: dx is dy filtered by the kernel turned by half a turn. */
template <typename T, int V>
__device__ inline void read_taps(const void *w, int channel, int channels, bool reversed, ls_pack<T, V> (&taps)[9]) {
    LS_UNROLL
    for (int i = 0; i < 9; i++) {
        int64_t tap = reversed ? 8 - i : i;
        taps[i] = ls_read<T, V>(static_cast<const T *>(w) + tap * channels + channel);
    }
}

/* Adds the products of line `row` of the taps with a line of x: columns from column on, for WIDTH positions. */
template <typename T, int V, int STRIDE, int WIDTH>
__device__ inline void add_line(const T *line, int column, int size, int channels, const ls_pack<T, V> (&taps)[9],
                                int row, float (&y)[WIDTH][V]) {
    constexpr int REACH = (WIDTH - 1) * STRIDE + 3;
    ls_pack<T, V> x[REACH];
    LS_UNROLL
    for (int i = 0; i < REACH; i++)
        x[i] = within(column + i, size) ? ls_read<T, V>(line + (int64_t)(column + i) * channels) : ls_zeros<T, V>();
    LS_UNROLL
    for (int i = 0; i < REACH; i++) {
        LS_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            int tap = i - j * STRIDE;
            if (tap < 0 || tap > 2) continue;
            LS_UNROLL
            for (int v = 0; v < V; v++)
                y[j][v] = fmaf(ls_element(x[i], v), ls_element(taps[row * 3 + tap], v), y[j][v]);
        }
    }
}

template <typename T, int V, int STRIDE, int WIDTH>
__global__ void __launch_bounds__(LS_CUDA_THREADS, 2) filter_3x3(filter f) {
    const ls_line_place p = ls_place_of(f.lines);
    if (p.position >= f.lines.width) return;
    const int channels = f.lines.channels, column = p.position * WIDTH * STRIDE - f.before[1];
    ls_pack<T, V> taps[9];
    read_taps<T, V>(f.w, p.channel, channels, f.reversed, taps);
    ls_each_line(f.lines, [&](int n, int h) {
        float y[WIDTH][V] = {};
        for (int j = 0; f.bias && j < WIDTH; j++) ls_read_floats<V>(f.bias + p.channel, y[j]);
        const T *image = static_cast<const T *>(f.x) + (int64_t)n * f.in[0] * f.in[1] * channels + p.channel;
        LS_UNROLL
        for (int row = 0; row < 3; row++) {
            int line = h * STRIDE - f.before[0] + row;
            if (!within(line, f.in[0])) continue;
            add_line<T, V, STRIDE, WIDTH>(image + (int64_t)line * f.in[1] * channels, column, f.in[1], channels, taps,
                                          row, y);
        }
        int64_t line = ((int64_t)n * f.lines.height + h) * f.width;
        LS_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            int at = p.position * WIDTH + j;
            if (at < f.width) ls_write<T, V>(static_cast<T *>(f.out) + (line + at) * channels + p.channel, y[j]);
        }
    });
}

/* ---- dx of 3 by 3 taps with stride 2 ----
 * Counted from the first zero before the image, the elements of x in lines 2 a and 2 a + 1, columns 2 b and 2 b + 1
 * meet the elements of dy in lines a and a - 1, columns b and b - 1, and no others: a thread has such a square. */
struct square {
    ls_cuda_lines lines; /* of squares */
    ls_cuda_windows at;
    const void *w, *dy;
    void *dx;
};

template <typename T, int V>
__device__ inline void read_square(const square &s, int n, int a, int b, int channel, float (&g)[2][2][V]) {
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int64_t at = ((int64_t)n * s.at.out[0] + a - i) * s.at.out[1] + b - j;
            bool there = within(a - i, s.at.out[0]) && within(b - j, s.at.out[1]);
            ls_pack<T, V> pack =
                there ? ls_read<T, V>(static_cast<const T *>(s.dy) + at * s.at.channels + channel) : ls_zeros<T, V>();
            for (int v = 0; v < V; v++) g[i][j][v] = ls_element(pack, v);
        }
}

/* One element of the square: odd ones meet the middle tap, even ones the outer two. */
template <typename T, int V>
__device__ inline void meet(const float (&g)[2][2][V], const ls_pack<T, V> (&taps)[9], int p, int q, float (&dx)[V]) {
    LS_UNROLL
    for (int i = 0; i < 2 - p; i++) {
        LS_UNROLL
        for (int j = 0; j < 2 - q; j++) {
            LS_UNROLL
            for (int v = 0; v < V; v++)
                dx[v] = fmaf(g[i][j][v], ls_element(taps[(p + 2 * i) * 3 + q + 2 * j], v), dx[v]);
        }
    }
}

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS, 2) spread_3x3(square s) {
    const ls_line_place place = ls_place_of(s.lines);
    if (place.position >= s.lines.width) return;
    const int b = place.position + s.at.before[1] / 2;
    ls_pack<T, V> taps[9];
    read_taps<T, V>(s.w, place.channel, s.at.channels, false, taps);
    ls_each_line(s.lines, [&](int n, int line) {
        const int a = line + s.at.before[0] / 2;
        float g[2][2][V];
        read_square<T, V>(s, n, a, b, place.channel, g);
        LS_UNROLL
        for (int p = 0; p < 2; p++) {
            LS_UNROLL
            for (int q = 0; q < 2; q++) {
                int h = 2 * a + p - s.at.before[0], w = 2 * b + q - s.at.before[1];
                float dx[V] = {};
                if (!within(h, s.at.image[0]) || !within(w, s.at.image[1])) continue;
                meet<T, V>(g, taps, p, q, dx);
                int64_t at = ((int64_t)n * s.at.image[0] + h) * s.at.image[1] + w;
                ls_write<T, V>(static_cast<T *>(s.dx) + at * s.at.channels + place.channel, dx);
            }
        }
    });
}

/* ---- any window: one position a thread; several channels only where each has one filter ---- */

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
            if (!within(line, at.image[0]) || !within(column, at.image[1])) continue;
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

/* Is there a kernel of its own for the window? */
bool is_3x3(const ls_cuda_depthwise *d) {
    const ls_cuda_windows &w = d->at;
    return d->vector > 1 && w.kernel[0] == 3 && w.kernel[1] == 3 && w.dilation[0] == 1 && w.dilation[1] == 1 &&
           w.strides[0] == w.strides[1] && w.strides[0] <= 2;
}

/* Positions of a thread, as its registers allow: fewer where they share less, or hold more channels. */
template <typename T, int STRIDE> constexpr int positions_3x3 = STRIDE == 1 && sizeof(T) == 4 ? 4 : 2;

template <typename T, int STRIDE> cudaError_t launch_filter(filter f, const int64_t out[4], cudaStream_t stream) {
    constexpr int WIDTH = positions_3x3<T, STRIDE>;
    void (*kernel)(filter) = filter_3x3<T, ls_wide<T>, STRIDE, WIDTH>;
    f.lines = ls_cuda_lines_over(out, ls_wide<T>, WIDTH);
    return LS_LAUNCH(kernel, ls_grid_of(f.lines), ls_block_of(f.lines), stream, f);
}

template <typename T> cudaError_t launch_y_3x3(const ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_windows &w = d->at;
    const int64_t out[] = {w.images, w.out[0], w.out[1], w.channels};
    filter f = {{}, {w.image[0], w.image[1]}, {w.before[0], w.before[1]}, w.out[1], false, d->x, d->w, d->bias, d->out};
    return w.strides[0] == 1 ? launch_filter<T, 1>(f, out, stream) : launch_filter<T, 2>(f, out, stream);
}

template <typename T> cudaError_t launch_dx_3x3(const ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_windows &w = d->at;
    if (w.strides[0] == 1) {
        const int64_t image[] = {w.images, w.image[0], w.image[1], w.channels};
        filter f = {
            {},    {w.out[0], w.out[1]}, {2 - w.before[0], 2 - w.before[1]}, w.image[1], true, d->dy, d->w, nullptr,
            d->out};
        return launch_filter<T, 1>(f, image, stream);
    }
    int64_t squares[] = {w.images, 0, 0, w.channels};
    for (int i = 0; i < 2; i++) squares[i + 1] = (w.image[i] - 1 + w.before[i]) / 2 - w.before[i] / 2 + 1;
    square s = {ls_cuda_lines_over(squares, ls_wide<T>, 1), w, d->w, d->dy, d->out};
    void (*kernel)(square) = spread_3x3<T, ls_wide<T>>;
    return LS_LAUNCH(kernel, ls_grid_of(s.lines), ls_block_of(s.lines), stream, s);
}

typedef void any_kernel(ls_cuda_depthwise d, ls_cuda_lines lines);

cudaError_t launch_any(any_kernel *kernel, const ls_cuda_depthwise *d, const int64_t out[4], cudaStream_t stream) {
    ls_cuda_lines lines = ls_cuda_lines_over(out, d->vector, 1);
    return LS_LAUNCH(kernel, ls_grid_of(lines), ls_block_of(lines), stream, *d, lines);
}

template <typename T> cudaError_t launch_y(const ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_windows &w = d->at;
    const int64_t out[] = {w.images, w.out[0], w.out[1], (int64_t)w.channels * d->multiplier};
    if (is_3x3(d)) return launch_y_3x3<T>(d, stream);
    return launch_any(d->vector > 1 ? filter_any<T, ls_wide<T>> : filter_any<T, 1>, d, out, stream);
}

template <typename T> cudaError_t launch_dx(const ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_windows &w = d->at;
    const int64_t image[] = {w.images, w.image[0], w.image[1], w.channels};
    if (is_3x3(d)) return launch_dx_3x3<T>(d, stream);
    return launch_any(d->vector > 1 ? spread_any<T, ls_wide<T>> : spread_any<T, 1>, d, image, stream);
}

} // namespace

cudaError_t ls_cuda_depthwise_y(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(d->dtype, error = launch_y<T>(d, stream));
    return error;
}

cudaError_t ls_cuda_depthwise_dx(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(d->dtype, error = launch_dx<T>(d, stream));
    return error;
}
