/* Batch normalization over rows of channels, fused with the next steps: a residual is added, then ReLU or ReLU6 is
 * applied. A pass reads and writes each tensor once: the moments x, y = x, y (and the residual), the gradients' sums x,
 * dy, dx = x, dy, dx. Sums run over the rows of a block in float, then over the blocks in double.
 *
 * Rows are dealt out to all threads in turn, so all blocks of a wave end together. A pass that follows sums goes from
 * the last row to the first: what the sums read last is still in the cache. */
#include "device/cuda/kernels_image.h"
#include "device/cuda/image.cuh"

#define PASS __global__ void __launch_bounds__(LS_CUDA_THREADS, LS_CUDA_RESIDENT)

namespace {

/* Rows that a thread has under way at once: as many as its registers hold. FEWER where a pass needs more of them. */
constexpr int ROWS = 4, FEWER_ROWS = 3;

template <int V> __device__ inline int64_t channel_of() {
    return (int64_t)(blockIdx.x * blockDim.x + threadIdx.x) * V;
}

/* Calls read(k, at), then use(k, at), for each row of the thread: k is its number among those under way, at its place
 * in a tensor. The main loop tests once for COUNT of them. */
template <int COUNT, bool BACKWARDS, typename R, typename U>
__device__ inline void each_row(const ls_cuda_stripes &rows, int64_t channel, R read, U use) {
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, step = (int64_t)gridDim.y * blockDim.y;
    int64_t pitch = BACKWARDS ? -rows.channels : rows.channels, stride = step * pitch;
    int64_t at = (BACKWARDS ? (rows.rows - 1) * rows.channels : 0) + row * pitch + channel;
    for (; row + (COUNT - 1) * step < rows.rows; row += COUNT * step, at += COUNT * stride) {
        LS_UNROLL
        for (int k = 0; k < COUNT; k++) read(k, at + k * stride);
        LS_UNROLL
        for (int k = 0; k < COUNT; k++) use(k, at + k * stride);
    }
    for (; row < rows.rows; row += step, at += stride) {
        read(0, at);
        use(0, at);
    }
}

template <typename T, int V> __device__ inline ls_pack<T, V> read_at(const void *from, int64_t at) {
    return ls_read<T, V>(static_cast<const T *>(from) + at);
}

template <typename T, int V> __device__ inline void write_at(void *to, int64_t at, const float (&values)[V]) {
    ls_write<T, V>(static_cast<T *>(to) + at, values);
}

/* The number of rows of a block. */
__device__ inline int64_t rows_of(const ls_cuda_stripes &rows, int64_t block) {
    int64_t turn = (int64_t)rows.blocks * rows.lines, rest = rows.rows % turn - block * rows.lines;
    return rows.rows / turn * rows.lines + (rest < 0 ? 0 : rest < rows.lines ? rest : rows.lines);
}

template <int V>
__device__ inline void write_partials(const ls_cuda_norm &n, int64_t channel, const float (&a)[V],
                                      const float (&b)[V]) {
    float *to = n.partials + 2 * (int64_t)blockIdx.y * n.rows.channels + channel;
    ls_write_floats<V>(to, a);
    ls_write_floats<V>(to + n.rows.channels, b);
}

/* ---- statistics ---- */

/* Squares are taken around the first row of the block, so they lose no bits where the mean is large against the
 * deviation. With s the sum of x - first and q that of its squares: mean = first + s / n, and the squares around the
 * mean are q - s^2 / n. One pass over x is enough for both, where the CPU takes two passes over a chunk in its cache.
 */
template <typename T, int V> PASS norm_moments(ls_cuda_norm n) {
    LS_SHARED(float, shared);
    const int64_t channel = channel_of<V>();
    const bool inside = channel < n.rows.channels;
    float sums[2 * V] = {}, around[V] = {}, mean[V], squares[V];
    ls_pack<T, V> x[ROWS];
    if (inside) {
        x[0] = read_at<T, V>(n.x, (int64_t)blockIdx.y * blockDim.y * n.rows.channels + channel);
        for (int v = 0; v < V; v++) around[v] = ls_element(x[0], v);
        each_row<ROWS, false>(
            n.rows, channel, [&](int k, int64_t at) { x[k] = read_at<T, V>(n.x, at); },
            [&](int k, int64_t) {
                LS_UNROLL
                for (int v = 0; v < V; v++) {
                    float away = ls_element(x[k], v) - around[v];
                    sums[v] += away;
                    sums[V + v] += away * away;
                }
            });
    }
    ls_block_add<2 * V>(sums, shared);
    if (!inside || threadIdx.y) return;
    float share = 1 / (float)rows_of(n.rows, blockIdx.y);
    for (int v = 0; v < V; v++) {
        float away = sums[v] * share;
        mean[v] = around[v] + away;
        squares[v] = sums[V + v] - sums[v] * away;
        squares[v] = squares[v] < 0 ? 0 : squares[v]; /* NaN stays */
    }
    write_partials<V>(n, channel, mean, squares);
}

/* ---- y ---- */

/* The values of a thread's channels. */
template <int V> struct channel_values { float mean[V], factor[V], beta[V]; };

template <int V> __device__ inline channel_values<V> values_of(const ls_cuda_norm &n, int64_t channel) {
    channel_values<V> c;
    float given[V];
    ls_read_floats<V>(n.mean + channel, c.mean);
    ls_read_floats<V>((n.inverse ? n.inverse : n.variance) + channel, c.factor);
    if (!n.inverse)
        for (int v = 0; v < V; v++) c.factor[v] = 1 / sqrtf(c.factor[v] + n.epsilon);
    if (n.gamma) {
        ls_read_floats<V>(n.gamma + channel, given);
        for (int v = 0; v < V; v++) c.factor[v] *= given[v];
    }
    for (int v = 0; v < V; v++) c.beta[v] = 0;
    if (n.beta) ls_read_floats<V>(n.beta + channel, c.beta);
    return c;
}

/* Before residual and activation: the same bits wherever it is computed. */
template <int V> __device__ inline float normalize(const channel_values<V> &c, int v, float x) {
    return fmaf(x - c.mean[v], c.factor[v], c.beta[v]);
}

template <typename T, int V, bool RESIDUAL> PASS norm_apply(ls_cuda_norm n) {
    const int64_t channel = channel_of<V>();
    if (channel >= n.rows.channels) return;
    const channel_values<V> c = values_of<V>(n, channel);
    ls_pack<T, V> x[ROWS], residual[ROWS];
    each_row<ROWS, true>(
        n.rows, channel,
        [&](int k, int64_t at) {
            x[k] = read_at<T, V>(n.x, at);
            if (RESIDUAL) residual[k] = read_at<T, V>(n.residual, at);
        },
        [&](int k, int64_t at) {
            float y[V];
            LS_UNROLL
            for (int v = 0; v < V; v++) {
                float value = normalize<V>(c, v, ls_element(x[k], v));
                if (RESIDUAL) value += ls_element(residual[k], v);
                value = value < n.low ? n.low : value; /* NaN stays */
                y[v] = value > n.high ? n.high : value;
            }
            write_at<T, V>(n.out, at, y);
        });
}

/* ---- backward ---- */

/* Is an element whose value this is inside the activation? */
__device__ inline bool passes(const ls_cuda_norm &n, float value) {
    return value > n.low && value < n.high;
}

/* RESIDUAL: y decides which elements pass, and g is written. */
template <typename T, int V, bool RESIDUAL> PASS norm_gradients(ls_cuda_norm n) {
    LS_SHARED(float, shared);
    constexpr int COUNT = RESIDUAL ? FEWER_ROWS : ROWS;
    const int64_t channel = channel_of<V>();
    const bool inside = channel < n.rows.channels;
    float sums[2 * V] = {}, sum[V], product[V];
    if (inside) {
        const channel_values<V> c = values_of<V>(n, channel);
        ls_pack<T, V> x[COUNT], dy[COUNT], y[COUNT];
        each_row<COUNT, false>(
            n.rows, channel,
            [&](int k, int64_t at) {
                x[k] = read_at<T, V>(n.x, at);
                dy[k] = read_at<T, V>(n.dy, at);
                if (RESIDUAL) y[k] = read_at<T, V>(n.y, at);
            },
            [&](int k, int64_t at) {
                float g[V];
                LS_UNROLL
                for (int v = 0; v < V; v++) {
                    float value = ls_element(x[k], v);
                    float decides = RESIDUAL ? ls_element(y[k], v) : normalize<V>(c, v, value);
                    g[v] = passes(n, decides) ? ls_element(dy[k], v) : 0;
                    sums[v] += g[v];
                    sums[V + v] += g[v] * (value - c.mean[v]);
                }
                if (RESIDUAL) write_at<T, V>(n.dresidual, at, g);
            });
    }
    ls_block_add<2 * V>(sums, shared);
    if (!inside || threadIdx.y) return;
    for (int v = 0; v < V; v++) sum[v] = sums[v], product[v] = sums[V + v];
    write_partials<V>(n, channel, sum, product);
}

/* MASKED: the activation has ends. */
template <typename T, int V, bool MASKED> PASS norm_data(ls_cuda_norm n) {
    constexpr int COUNT = MASKED ? FEWER_ROWS : ROWS;
    const int64_t channel = channel_of<V>();
    if (channel >= n.rows.channels) return;
    const channel_values<V> c = values_of<V>(n, channel);
    float shift[V], slope[V];
    ls_read_floats<V>(n.shift + channel, shift);
    ls_read_floats<V>(n.slope + channel, slope);
    ls_pack<T, V> x[COUNT], dy[COUNT];
    each_row<COUNT, true>(
        n.rows, channel,
        [&](int k, int64_t at) {
            x[k] = read_at<T, V>(n.x, at);
            dy[k] = read_at<T, V>(n.dy, at);
        },
        [&](int k, int64_t at) {
            float dx[V];
            LS_UNROLL
            for (int v = 0; v < V; v++) {
                float value = ls_element(x[k], v), g = ls_element(dy[k], v);
                if (MASKED) g = passes(n, normalize<V>(c, v, value)) ? g : 0;
                dx[v] = g * c.factor[v] - shift[v] - (value - c.mean[v]) * slope[v];
            }
            write_at<T, V>(n.out, at, dx);
        });
}

/* ---- sums over the blocks ---- */

/* Sums x and its square, from means and squares, if MEANS; else just the sums. Blocks are added by threads in y, then
 * by the block, in an order that follows from the shape alone. With MEANS a block's partials are its mean and the
 * squares around it, from which sums of x and x^2 are made in double. */
template <bool MEANS>
__device__ inline void add_blocks(const ls_cuda_norm_sums &s, int64_t channel, double (&sums)[2]) {
    const ls_cuda_stripes &rows = s.rows;
    LS_AHEAD
    for (int64_t k = threadIdx.y; k < rows.blocks; k += blockDim.y) {
        const float *at = s.partials + 2 * k * rows.channels + channel;
        double a = (double)at[0], b = (double)at[rows.channels], count = (double)rows_of(rows, k);
        sums[0] += MEANS ? count * a : a;
        sums[1] += MEANS ? b + count * a * a : b;
    }
}

/* Fetches the sums of a channel for its thread with threadIdx.y 0, or keeps them for all replicas to add theirs. All
 * threads of the block come here. */
template <bool MEANS>
__device__ inline void sums_of(const ls_cuda_norm_sums &s, int64_t channel, double *shared, double (&sums)[2]) {
    if (s.partials && channel < s.rows.channels) add_blocks<MEANS>(s, channel, sums);
    if (s.partials) ls_block_add<2>(sums, shared);
    if (threadIdx.y || channel >= s.rows.channels || !s.sums) return;
    for (int i = 0; i < 2; i++) {
        double *at = s.sums + i * s.rows.channels + channel;
        if (s.partials)
            *at = sums[i];
        else
            sums[i] = *at;
    }
}

__global__ void __launch_bounds__(LS_FINISH_SUMS *LS_FINISH_CHUNKS) norm_statistics(ls_cuda_norm_sums s) {
    LS_SHARED(double, shared);
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sums[2] = {};
    sums_of<true>(s, c, shared, sums);
    if (threadIdx.y || c >= s.rows.channels || (s.partials && s.sums)) return;
    double mean = sums[0] / s.count, squares = sums[1] - mean * sums[0];
    double of = s.fused && s.count > 1 ? s.count - 1 : s.count;
    squares = squares < 0 ? 0 : squares; /* NaN stays */
    s.saved[c] = (float)mean;
    s.saved[s.rows.channels + c] = (float)(1 / sqrt(squares / s.count + (double)s.epsilon));
    s.dmean[c] = (float)((mean - (double)s.moving_mean[c]) * s.share);
    s.dvariance[c] = (float)((squares / of - (double)s.moving_variance[c]) * s.share);
}

__global__ void __launch_bounds__(LS_FINISH_SUMS *LS_FINISH_CHUNKS) norm_shifts(ls_cuda_norm_sums s) {
    LS_SHARED(double, shared);
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sums[2] = {};
    sums_of<false>(s, c, shared, sums);
    if (threadIdx.y || c >= s.rows.channels) return;
    double inverse = (double)s.inverse[c];
    if (s.partials && s.dgamma) s.dgamma[c] = (float)(sums[1] * inverse);
    if (s.partials && s.dbeta) s.dbeta[c] = (float)sums[0];
    if (!s.shifts || (s.partials && s.sums)) return;
    double factor = (s.gamma ? (double)s.gamma[c] * inverse : inverse) / s.count;
    s.shifts[c] = (float)(factor * sums[0]);
    s.shifts[s.rows.channels + c] = (float)(factor * sums[1] * inverse * inverse);
}

/* ---- launching ---- */

typedef void norm_kernel(ls_cuda_norm n);
typedef void sums_kernel(ls_cuda_norm_sums s);

/* The kernel of the widest access, or of one element where channels or addresses do not allow it. */
cudaError_t launch_pass(norm_kernel *vector, norm_kernel *scalar, const ls_cuda_norm *n, cudaStream_t stream) {
    const ls_cuda_stripes &rows = n->rows;
    norm_kernel *kernel = rows.vector > 1 ? vector : scalar;
    return LS_LAUNCH(kernel, dim3(rows.across, rows.blocks), dim3(rows.columns, rows.lines), stream, *n);
}

cudaError_t launch_sums(norm_kernel *vector, norm_kernel *scalar, const ls_cuda_norm *n, cudaStream_t stream) {
    const ls_cuda_stripes &rows = n->rows;
    norm_kernel *kernel = rows.vector > 1 ? vector : scalar;
    size_t bytes = sizeof(float) * 2 * rows.vector * rows.columns * rows.lines;
    return LS_LAUNCH_SYNC(kernel, dim3(rows.across, rows.blocks), dim3(rows.columns, rows.lines), bytes, stream, *n);
}

template <typename T> cudaError_t launch_moments(const ls_cuda_norm *n, cudaStream_t stream) {
    return launch_sums(norm_moments<T, ls_wide<T>>, norm_moments<T, 1>, n, stream);
}

template <typename T> cudaError_t launch_apply(const ls_cuda_norm *n, cudaStream_t stream) {
    if (n->residual) return launch_pass(norm_apply<T, ls_wide<T>, true>, norm_apply<T, 1, true>, n, stream);
    return launch_pass(norm_apply<T, ls_wide<T>, false>, norm_apply<T, 1, false>, n, stream);
}

template <typename T> cudaError_t launch_gradients(const ls_cuda_norm *n, cudaStream_t stream) {
    if (n->dresidual) return launch_sums(norm_gradients<T, ls_wide<T>, true>, norm_gradients<T, 1, true>, n, stream);
    return launch_sums(norm_gradients<T, ls_wide<T>, false>, norm_gradients<T, 1, false>, n, stream);
}

template <typename T> cudaError_t launch_data(const ls_cuda_norm *n, cudaStream_t stream) {
    if (isinf(n->low) && isinf(n->high))
        return launch_pass(norm_data<T, ls_wide<T>, false>, norm_data<T, 1, false>, n, stream);
    return launch_pass(norm_data<T, ls_wide<T>, true>, norm_data<T, 1, true>, n, stream);
}

cudaError_t launch_finish(sums_kernel *kernel, const ls_cuda_norm_sums *s, cudaStream_t stream) {
    dim3 block = ls_finish_block(s->rows.blocks);
    size_t bytes = sizeof(double) * 2 * block.x * block.y;
    return LS_LAUNCH_SYNC(kernel, ls_finish_grid(s->rows.channels), block, bytes, stream, *s);
}

} // namespace

cudaError_t ls_cuda_norm_moments(const struct ls_cuda_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype, return launch_moments<T>(n, stream));
}

cudaError_t ls_cuda_norm_apply(const struct ls_cuda_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype, return launch_apply<T>(n, stream));
}

cudaError_t ls_cuda_norm_gradients(const struct ls_cuda_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype, return launch_gradients<T>(n, stream));
}

cudaError_t ls_cuda_norm_data(const struct ls_cuda_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype, return launch_data<T>(n, stream));
}

cudaError_t ls_cuda_norm_statistics(const struct ls_cuda_norm_sums *s, cudaStream_t stream) {
    return launch_finish(norm_statistics, s, stream);
}

cudaError_t ls_cuda_norm_shifts(const struct ls_cuda_norm_sums *s, cudaStream_t stream) {
    return launch_finish(norm_shifts, s, stream);
}
