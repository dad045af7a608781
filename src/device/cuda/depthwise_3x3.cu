/* Depthwise convolutions by 3 by 3 taps with stride 1 or 2, as in MobileNet. A line of x meets all the taps that it has
 * when it comes: the sums of the lines of y that are not complete yet wait in registers. Memory sees x and y once, but
 * for the edges of strips. */
#include "device/cuda/strips.cuh"

namespace {

template <typename T> constexpr int channels_of = LS_CUDA_STRIP_BYTES / sizeof(T); /* a thread */

/* The channels, and where the strip begins in x and in y. */
template <typename T> struct filtered {
    ls_strip strip;
    int line; /* of x */
    const T *from;
    T *to;
    float taps[9][channels_of<T>], bias[channels_of<T>];
};

/* Returns false if the thread has nothing to do. */
template <typename T> __device__ inline bool begin_filter(const ls_cuda_depthwise &d, filtered<T> &f) {
    constexpr int V = channels_of<T>;
    const int item = ls_strip_chunk(d.strips) * (int)blockDim.y + (int)threadIdx.y;
    const int channel = ls_strip_channel(d.strips), stride = d.at.strides[0];
    if (item >= d.strips.items || channel >= d.at.channels) return false;
    ls_read_taps<T, V>(d, channel, f.taps);
    LS_UNROLL
    for (int v = 0; v < V; v++) f.bias[v] = d.bias ? d.bias[channel + v] : 0;
    const ls_strip &s = f.strip = ls_strip_of(d.strips, item);
    f.line = s.first * stride - d.at.before[0];
    const int column = s.column * stride - d.at.before[1];
    f.from = static_cast<const T *>(d.x) + ls_strip_offset(d.at, d.at.image, s.image, f.line, column, channel);
    f.to = static_cast<T *>(d.out) + ls_strip_offset(d.at, d.at.out, s.image, s.first, s.column, channel);
    return true;
}

/* Adds the products of one line of the taps. BEGIN: they are the first, and are added to the bias. */
template <int STRIDE, bool BEGIN, typename T, int V, int SEEN, int COLUMNS>
__device__ inline void add_taps(const filtered<T> &f, const float (&x)[SEEN][V], int line, float (&y)[COLUMNS][V]) {
    LS_UNROLL
    for (int i = 0; i < COLUMNS; i++) {
        LS_UNROLL
        for (int j = 0; j < 3; j++) {
            LS_UNROLL
            for (int v = 0; v < V; v++)
                y[i][v] = fmaf(x[i * STRIDE + j][v], f.taps[line * 3 + j][v], BEGIN && j == 0 ? f.bias[v] : y[i][v]);
        }
    }
}

template <bool INNER, typename T, int V, int COLUMNS>
__device__ inline void write_columns(T *to, uint32_t within, int channels, const float (&y)[COLUMNS][V]) {
    LS_UNROLL
    for (int i = 0; i < COLUMNS; i++)
        if (INNER || (within >> i & 1)) ls_write<T, V>(to + i * channels, y[i]);
}

/* Line i of those that the strip sees is the last for y's line i - 2, and the first for line i. */
template <typename T, int COLUMNS, bool INNER>
__global__ void __launch_bounds__(LS_CUDA_STRIP_THREADS, COLUMNS == LS_CUDA_STRIP_WIDE ? 4
                                                         : INNER                       ? 7
                                                                 : 5) filter_strips(ls_cuda_depthwise d) {
    constexpr int V = channels_of<T>, SEEN = COLUMNS + 2;
    filtered<T> f;
    if (!begin_filter<T>(d, f)) return;
    const uint32_t seen = ls_columns_within<SEEN>(f.strip.column - d.at.before[1], d.at.image[1]);
    const uint32_t made = ls_columns_within<COLUMNS>(f.strip.column, d.at.out[1]);
    const int channels = d.at.channels, last = f.strip.end - f.strip.first + 1;
    float y[3][COLUMNS][V] = {};
    ls_pack<T, V> next[SEEN];
    ls_read_columns<INNER>(f.from, ls_within(f.line, d.at.image[0]), seen, channels, next);
    for (int i = 0;;) {
        LS_UNROLL
        for (int k = 0; k < 3; k++) {
            float x[SEEN][V];
            ls_floats_of(next, x);
            f.from += d.at.image[1] * channels;
            ls_read_columns<INNER>(f.from, i < last && ls_within(++f.line, d.at.image[0]), seen, channels, next);
            add_taps<1, false>(f, x, 2, y[k]);
            add_taps<1, false>(f, x, 1, y[(k + 1) % 3]);
            add_taps<1, true>(f, x, 0, y[(k + 2) % 3]);
            if (i > 1) {
                write_columns<INNER>(f.to, made, channels, y[k]);
                f.to += d.at.out[1] * channels;
            }
            if (i++ == last) return;
        }
    }
}

/* With stride 2 each second line of x is the last of one line of y, and the first of the next. */
template <typename T, int COLUMNS, bool INNER>
__global__ void __launch_bounds__(LS_CUDA_STRIP_THREADS, 5) halve_strips(ls_cuda_depthwise d) {
    constexpr int V = channels_of<T>, SEEN = 2 * COLUMNS + 1;
    filtered<T> f;
    if (!begin_filter<T>(d, f)) return;
    const uint32_t seen = ls_columns_within<SEEN>(f.strip.column * 2 - d.at.before[1], d.at.image[1]);
    const uint32_t made = ls_columns_within<COLUMNS>(f.strip.column, d.at.out[1]);
    const int channels = d.at.channels;
    float y[2][COLUMNS][V], x[SEEN][V];
    ls_pack<T, V> next[SEEN];
    auto advance = [&](bool more) { /* x becomes the line that was read, and the one after it is read */
                                    ls_floats_of(next, x);
                                    f.from += d.at.image[1] * channels;
                                    ls_read_columns<INNER>(f.from, more && ls_within(++f.line, d.at.image[0]), seen,
                                                           channels, next);
    };
    ls_read_columns<INNER>(f.from, ls_within(f.line, d.at.image[0]), seen, channels, next);
    advance(true);
    add_taps<2, true>(f, x, 0, y[0]);
    for (int h = f.strip.first;;) {
        LS_UNROLL
        for (int k = 0; k < 2; k++) {
            advance(true);
            add_taps<2, false>(f, x, 1, y[k]);
            advance(h + 1 < f.strip.end);
            add_taps<2, false>(f, x, 2, y[k]);
            add_taps<2, true>(f, x, 0, y[1 - k]);
            write_columns<INNER>(f.to, made, channels, y[k]);
            f.to += d.at.out[1] * channels;
            if (++h == f.strip.end) return;
        }
    }
}

typedef void filter_kernel(ls_cuda_depthwise d);

template <typename T> filter_kernel *kernel_for(const ls_cuda_depthwise *d) {
    constexpr int NARROW = LS_CUDA_STRIP_COLUMNS, WIDE = LS_CUDA_STRIP_WIDE;
    if (d->at.strides[0] == 2) return d->inner ? halve_strips<T, NARROW, true> : halve_strips<T, NARROW, false>;
    if (d->strips.columns == WIDE) return filter_strips<T, WIDE, true>;
    return d->inner ? filter_strips<T, NARROW, true> : filter_strips<T, NARROW, false>;
}

} // namespace

cudaError_t ls_cuda_depthwise_3x3(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    filter_kernel *kernel = nullptr;
    LS_WITH_TYPE(d->dtype, kernel = kernel_for<T>(d));
    return LS_LAUNCH(kernel, ls_grid_of(d->strips), ls_block_of(d->strips), stream, *d);
}
