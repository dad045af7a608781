/* Both gradients of a depthwise convolution by 3 by 3 taps in one pass: an element of x is read by the thread that
 * writes the same element of dx, so that dx may be x. Memory sees x, dy and dx once each, but for the edges of strips.
 * A thread adds the products of all its items, a block those of its threads, each in order; depthwise.cu adds the
 * blocks.
 */
#include "device/cuda/strips.cuh"

namespace {

/* The sums of a thread's channels, and its taps. */
template <int V> struct gradients { float taps[9][V], sums[9 * V]; };

template <typename T, int V>
__device__ inline void begin_gradients(const ls_cuda_depthwise &d, int channel, gradients<V> &g) {
    LS_UNROLL
    for (int i = 0; i < 9 * V; i++) g.sums[i] = g.taps[i / V][i % V] = 0;
    if (d.w && channel < d.at.channels) ls_read_taps<T, V>(d, channel, g.taps); /* none where only dw is wanted */
}

/* The sums of a block. All its threads come here. */
template <int V> __device__ inline void end_gradients(const ls_cuda_depthwise &d, int channel, gradients<V> &g) {
    LS_SHARED(float, shared);
    if (!d.dw) return;
    ls_block_add<9 * V>(g.sums, shared);
    if (channel >= d.at.channels || threadIdx.y) return;
    float *to = d.partials + (int64_t)ls_strip_chunk(d.strips) * 9 * d.at.channels + channel;
    LS_UNROLL
    for (int i = 0; i < 9; i++) {
        LS_UNROLL
        for (int v = 0; v < V; v++) to[(int64_t)i * d.at.channels + v] = g.sums[i * V + v];
    }
}

/* One tap of an element of x: of dx, and of the tap's gradient. */
template <int V>
__device__ inline void meet(gradients<V> &g, int tap, const float (&x)[V], const float (&dy)[V], float (&dx)[V]) {
    LS_UNROLL
    for (int v = 0; v < V; v++) {
        dx[v] = fmaf(dy[v], g.taps[tap][v], dx[v]);
        g.sums[tap * V + v] = fmaf(x[v], dy[v], g.sums[tap * V + v]);
    }
}

template <typename F> __device__ inline void each_item(const ls_cuda_strips &strips, int channel, F body) {
    if (channel >= strips.channels) return;
    const int first = ls_strip_chunk(strips) * (int)blockDim.y + (int)threadIdx.y;
    for (int item = first; item < strips.items; item += strips.chunks * (int)blockDim.y)
        body(ls_strip_of(strips, item));
}

/* ---- stride 1: an element of x meets three lines of dy, the first tap the one below ---- */

template <typename T, int V, int COLUMNS>
__device__ inline void meet_lines(gradients<V> &g, const float (&above)[COLUMNS + 2][V],
                                  const float (&beside)[COLUMNS + 2][V], const float (&below)[COLUMNS + 2][V], int i,
                                  const float (&x)[V], float (&dx)[V]) {
    LS_UNROLL
    for (int j = 0; j < 3; j++) {
        meet<V>(g, j, x, below[i + 2 - j], dx);
        meet<V>(g, 3 + j, x, beside[i + 2 - j], dx);
        meet<V>(g, 6 + j, x, above[i + 2 - j], dx);
    }
}

template <typename T, int V, int COLUMNS, bool INNER>
__device__ inline void back_strip(const ls_cuda_depthwise &d, const ls_strip &s, int channel, gradients<V> &g) {
    constexpr int SEEN = COLUMNS + 2;
    const int channels = d.at.channels, column = s.column + d.at.before[1] - 2, pitch = d.at.out[1] * channels;
    const uint32_t seen = ls_columns_within<SEEN>(column, d.at.out[1]);
    const uint32_t made = ls_columns_within<COLUMNS>(s.column, d.at.image[1]);
    int line = s.first + d.at.before[0] - 2;
    int64_t place = ls_strip_offset(d.at, d.at.image, s.image, s.first, s.column, channel); /* in x and dx */
    const T *from = static_cast<const T *>(d.dy) + ls_strip_offset(d.at, d.at.out, s.image, line, column, channel);
    float dy[3][SEEN][V];
    ls_pack<T, V> next_dy[SEEN], next_x[COLUMNS];
    auto read_dy = [&](bool more) {
        ls_read_columns<INNER>(from, more && ls_within(line++, d.at.out[0]), seen, channels, next_dy);
        from += pitch;
    };
    read_dy(true);
    ls_floats_of(next_dy, dy[0]);
    read_dy(true);
    ls_floats_of(next_dy, dy[1]);
    read_dy(true);
    const uint32_t whole = INNER ? ~0U : made;
    ls_read_columns<false>(static_cast<const T *>(d.x) + place, true, whole, channels, next_x);
    for (int h = s.first;;) {
        LS_UNROLL
        for (int k = 0; k < 3; k++) {
            float x[COLUMNS][V];
            ls_floats_of(next_dy, dy[(k + 2) % 3]);
            ls_floats_of(next_x, x);
            const bool more = ++h < s.end;
            read_dy(more);
            const int64_t next = place + (int64_t)d.at.image[1] * channels;
            ls_read_columns<false>(static_cast<const T *>(d.x) + next, more, whole, channels, next_x);
            LS_UNROLL
            for (int i = 0; i < COLUMNS; i++) {
                float dx[V] = {};
                meet_lines<T, V, COLUMNS>(g, dy[k], dy[(k + 1) % 3], dy[(k + 2) % 3], i, x[i], dx);
                if (d.out && (INNER || (made >> i & 1)))
                    ls_write<T, V>(static_cast<T *>(d.out) + place + i * channels, dx);
            }
            if (!more) return;
            place = next;
        }
    }
}

template <typename T, int COLUMNS, bool INNER>
__global__ void __launch_bounds__(LS_CUDA_STRIP_THREADS,
                                  COLUMNS == LS_CUDA_STRIP_WIDE ? LS_CUDA_WIDE_BLOCKS : LS_CUDA_BACK_BLOCKS)
    back_strips(ls_cuda_depthwise d) {
    constexpr int V = LS_CUDA_STRIP_BYTES / sizeof(T);
    const int channel = ls_strip_channel(d.strips);
    gradients<V> g;
    begin_gradients<T, V>(d, channel, g);
    each_item(d.strips, channel, [&](const ls_strip &s) { back_strip<T, V, COLUMNS, INNER>(d, s, channel, g); });
    end_gradients<V>(d, channel, g);
}

/* ---- stride 2 ----
 * Counted from the first zero before the image, the elements of x in lines 2 a and 2 a + 1, columns 2 b and 2 b + 1
 * meet the elements of dy in lines a and a - 1, columns b and b - 1, and no others: an item is a column of such
 * squares. Odd elements meet the middle tap, even ones the outer two. */

/* The element (p, q) of a square; dy: lines a - 1 and a, columns b - 1 and b. */
template <int V>
__device__ inline void meet_square(gradients<V> &g, const float (&above)[2][V], const float (&beside)[2][V], int p,
                                   int q, const float (&x)[V], float (&dx)[V]) {
    LS_UNROLL
    for (int j = q; j < 3; j += 2) {
        meet<V>(g, p * 3 + j, x, beside[j == 2 ? 0 : 1], dx);
        if (p == 0) meet<V>(g, 6 + j, x, above[j == 2 ? 0 : 1], dx);
    }
}

template <typename T, int V>
__device__ inline void back_squares_strip(const ls_cuda_depthwise &d, const ls_strip &s, int channel, gradients<V> &g) {
    const int channels = d.at.channels, a = s.first + d.at.before[0] / 2, b = s.column + d.at.before[1] / 2;
    const int column = 2 * b - d.at.before[1], pitch = d.at.image[1] * channels;
    const uint32_t seen = ls_columns_within<2>(b - 1, d.at.out[1]);
    const uint32_t made = ls_columns_within<2>(column, d.at.image[1]);
    int line = 2 * a - d.at.before[0], dy_line = a - 1; /* the next ones */
    int64_t place = ls_strip_offset(d.at, d.at.image, s.image, line, column, channel);
    const T *from = static_cast<const T *>(d.dy) + ls_strip_offset(d.at, d.at.out, s.image, dy_line, b - 1, channel);
    float dy[2][2][V];
    ls_pack<T, V> next[2];
    auto read_dy = [&](bool more) {
        ls_read_columns<false>(from, more && ls_within(dy_line++, d.at.out[0]), seen, channels, next);
        from += d.at.out[1] * channels;
    };
    read_dy(true);
    ls_floats_of(next, dy[1]);
    read_dy(true);
    for (int h = s.first;;) {
        LS_UNROLL
        for (int k = 0; k < 2; k++) {
            ls_pack<T, V> packs[2][2];
            bool there[2];
            LS_UNROLL
            for (int p = 0; p < 2; p++) {
                there[p] = ls_within(line + p, d.at.image[0]);
                ls_read_columns<false>(static_cast<const T *>(d.x) + place + p * pitch, d.dw && there[p], made,
                                       channels, packs[p]);
            }
            ls_floats_of(next, dy[k]);
            read_dy(++h < s.end);
            LS_UNROLL
            for (int p = 0; p < 2; p++) {
                float x[2][V];
                ls_floats_of(packs[p], x);
                LS_UNROLL
                for (int q = 0; q < 2; q++) {
                    float dx[V] = {};
                    meet_square<V>(g, dy[1 - k], dy[k], p, q, x[q], dx);
                    if (d.out && there[p] && (made >> q & 1))
                        ls_write<T, V>(static_cast<T *>(d.out) + place + p * pitch + q * channels, dx);
                }
            }
            if (h == s.end) return;
            line += 2;
            place += 2 * pitch;
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(LS_CUDA_STRIP_THREADS, LS_CUDA_BACK_BLOCKS) back_squares(ls_cuda_depthwise d) {
    constexpr int V = LS_CUDA_SQUARE_BYTES / sizeof(T);
    const int channel = ls_strip_channel(d.strips);
    gradients<V> g;
    begin_gradients<T, V>(d, channel, g);
    each_item(d.strips, channel, [&](const ls_strip &s) { back_squares_strip<T, V>(d, s, channel, g); });
    end_gradients<V>(d, channel, g);
}

typedef void back_kernel(ls_cuda_depthwise d);

template <typename T> back_kernel *back_kernel_for(const ls_cuda_depthwise *d) {
    constexpr int NARROW = LS_CUDA_STRIP_COLUMNS, WIDE = LS_CUDA_STRIP_WIDE;
    if (d->at.strides[0] == 2) return back_squares<T>;
    if (d->strips.columns == WIDE) return back_strips<T, WIDE, true>;
    return d->inner ? back_strips<T, NARROW, true> : back_strips<T, NARROW, false>;
}

} // namespace

cudaError_t ls_cuda_depthwise_3x3_back(const struct ls_cuda_depthwise *d, cudaStream_t stream) {
    const ls_cuda_strips &s = d->strips;
    size_t bytes = d->dw ? sizeof(float) * (size_t)(9 * s.vector * s.lanes * s.tall) : 0;
    back_kernel *kernel = nullptr;
    LS_WITH_TYPE(d->dtype, kernel = back_kernel_for<T>(d));
    return LS_LAUNCH_SYNC(kernel, ls_grid_of(s), ls_block_of(s), bytes, stream, *d);
}
