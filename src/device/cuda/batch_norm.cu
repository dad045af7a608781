/* Batch normalization over rows of channels, fused with the next steps: a residual is added, then ReLU or ReLU6 is
 * applied. Sums run over chunks of rows, in float inside a chunk and around its first row, so that little cancels; then
 * in double over the chunks. A pass reads and writes each tensor once: the statistics x, y = x, y (and the residual),
 * the gradients' sums x, dy, dx = x, dy, dx. */
#include "device/cuda/kernels_image.h"
#include "device/cuda/image.cuh"

namespace {

constexpr int FORWARD_ROWS = 4, BACKWARD_ROWS = 2; /* that a thread has under way at once */

/* ROWS rows of a thread, from row on; zeros after the end. */
template <typename T, int V, int ROWS>
__device__ inline void read_rows(const void *from, const ls_row_place &p, int64_t row, int64_t channels,
                                 ls_pack<T, V> (&to)[ROWS]) {
    const T *at = static_cast<const T *>(from) + p.channel;
    LS_UNROLL
    for (int i = 0; i < ROWS; i++) {
        int64_t r = row + (int64_t)i * p.step;
        to[i] = r < p.end ? ls_read<T, V>(at + r * channels) : ls_zeros<T, V>();
    }
}

template <int V>
__device__ inline void write_partials(const ls_cuda_norm &n, const ls_row_place &p, const float (&a)[V],
                                      const float (&b)[V]) {
    float *to = n.partials + 2 * (int64_t)blockIdx.y * n.rows.channels + p.channel;
    ls_write_floats<V>(to, a);
    ls_write_floats<V>(to + n.rows.channels, b);
}

/* ---- statistics ---- */

template <typename T, int V>
__device__ inline void chunk_sums(const ls_cuda_norm &n, const ls_row_place &p, const float (&around)[V],
                                  float (&sums)[2 * V]) {
    for (int64_t row = p.begin; row < p.end; row += FORWARD_ROWS * p.step) {
        ls_pack<T, V> x[FORWARD_ROWS];
        read_rows<T, V>(n.x, p, row, n.rows.channels, x);
        LS_UNROLL
        for (int i = 0; i < FORWARD_ROWS; i++) {
            if (row + (int64_t)i * p.step >= p.end) break;
            LS_UNROLL
            for (int v = 0; v < V; v++) {
                float away = ls_element(x[i], v) - around[v];
                sums[v] += away;
                sums[V + v] += away * away;
            }
        }
    }
}

/* Squares are taken around the first row of the chunk, so they lose no bits where the mean is large against the
 * deviation. With s the sum of x - first and q that of its squares: mean = first + s / n, and the squares around the
 * mean are q - s^2 / n. One pass over x is enough for both, where the CPU takes two passes over a chunk in its cache.
 */
template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) norm_chunks(ls_cuda_norm n) {
    LS_SHARED(float, shared);
    const ls_row_place p = ls_place_of(n.rows);
    float sums[2 * V] = {}, around[V] = {}, mean[V], squares[V];
    if (p.inside) {
        ls_pack<T, V> first = ls_read<T, V>(static_cast<const T *>(n.x) + p.first * n.rows.channels + p.channel);
        for (int v = 0; v < V; v++) around[v] = ls_element(first, v);
        chunk_sums<T, V>(n, p, around, sums);
    }
    ls_block_add<2 * V>(sums, shared);
    if (!p.inside || threadIdx.y) return;
    float share = 1 / (float)(p.end - p.first);
    for (int v = 0; v < V; v++) {
        float away = sums[v] * share;
        mean[v] = around[v] + away;
        squares[v] = sums[V + v] - sums[v] * away;
        squares[v] = squares[v] < 0 ? 0 : squares[v]; /* NaN stays */
    }
    write_partials<V>(n, p, mean, squares);
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

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) norm_apply(ls_cuda_norm n) {
    const ls_row_place p = ls_place_of(n.rows);
    if (!p.inside) return;
    const channel_values<V> c = values_of<V>(n, p.channel);
    for (int64_t row = p.begin; row < p.end; row += FORWARD_ROWS * p.step) {
        ls_pack<T, V> x[FORWARD_ROWS], residual[FORWARD_ROWS];
        read_rows<T, V>(n.x, p, row, n.rows.channels, x);
        if (n.residual) read_rows<T, V>(n.residual, p, row, n.rows.channels, residual);
        LS_UNROLL
        for (int i = 0; i < FORWARD_ROWS; i++) {
            int64_t r = row + (int64_t)i * p.step;
            float y[V];
            if (r >= p.end) break;
            LS_UNROLL
            for (int v = 0; v < V; v++) {
                float value = normalize<V>(c, v, ls_element(x[i], v));
                if (n.residual) value += ls_element(residual[i], v);
                value = value < n.low ? n.low : value; /* NaN stays */
                y[v] = value > n.high ? n.high : value;
            }
            ls_write<T, V>(static_cast<T *>(n.out) + r * n.rows.channels + p.channel, y);
        }
    }
}

/* ---- backward ---- */

/* Is an element whose value this is inside the activation? */
__device__ inline bool passes(const ls_cuda_norm &n, float value) {
    return value > n.low && value < n.high;
}

/* g of a row, and its part in the sums. y: read only where there is one. */
template <typename T, int V>
__device__ inline void add_row(const ls_cuda_norm &n, const channel_values<V> &c, const ls_pack<T, V> &x,
                               const ls_pack<T, V> &dy, const ls_pack<T, V> &y, float (&g)[V], float (&sums)[2 * V]) {
    LS_UNROLL
    for (int v = 0; v < V; v++) {
        float value = ls_element(x, v), decides = n.y ? ls_element(y, v) : normalize<V>(c, v, value);
        g[v] = passes(n, decides) ? ls_element(dy, v) : 0;
        sums[v] += g[v];
        sums[V + v] += g[v] * (value - c.mean[v]);
    }
}

template <typename T, int V>
__device__ inline void gradient_sums(const ls_cuda_norm &n, const ls_row_place &p, float (&sums)[2 * V]) {
    const channel_values<V> c = values_of<V>(n, p.channel);
    for (int64_t row = p.begin; row < p.end; row += BACKWARD_ROWS * p.step) {
        ls_pack<T, V> x[BACKWARD_ROWS], dy[BACKWARD_ROWS], y[BACKWARD_ROWS];
        read_rows<T, V>(n.x, p, row, n.rows.channels, x);
        read_rows<T, V>(n.dy, p, row, n.rows.channels, dy);
        if (n.y) read_rows<T, V>(n.y, p, row, n.rows.channels, y);
        LS_UNROLL
        for (int i = 0; i < BACKWARD_ROWS; i++) {
            int64_t r = row + (int64_t)i * p.step;
            float g[V];
            if (r >= p.end) break;
            add_row<T, V>(n, c, x[i], dy[i], y[i], g, sums);
            if (n.dresidual) ls_write<T, V>(static_cast<T *>(n.dresidual) + r * n.rows.channels + p.channel, g);
        }
    }
}

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) norm_gradients(ls_cuda_norm n) {
    LS_SHARED(float, shared);
    const ls_row_place p = ls_place_of(n.rows);
    float sums[2 * V] = {}, sum[V], product[V];
    if (p.inside) gradient_sums<T, V>(n, p, sums);
    ls_block_add<2 * V>(sums, shared);
    if (!p.inside || threadIdx.y) return;
    for (int v = 0; v < V; v++) sum[v] = sums[v], product[v] = sums[V + v];
    write_partials<V>(n, p, sum, product);
}

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) norm_data(ls_cuda_norm n) {
    const ls_row_place p = ls_place_of(n.rows);
    if (!p.inside) return;
    const channel_values<V> c = values_of<V>(n, p.channel);
    float shift[V], slope[V];
    ls_read_floats<V>(n.shift + p.channel, shift);
    ls_read_floats<V>(n.slope + p.channel, slope);
    for (int64_t row = p.begin; row < p.end; row += BACKWARD_ROWS * p.step) {
        ls_pack<T, V> x[BACKWARD_ROWS], dy[BACKWARD_ROWS];
        read_rows<T, V>(n.x, p, row, n.rows.channels, x);
        read_rows<T, V>(n.dy, p, row, n.rows.channels, dy);
        LS_UNROLL
        for (int i = 0; i < BACKWARD_ROWS; i++) {
            int64_t r = row + (int64_t)i * p.step;
            float dx[V];
            if (r >= p.end) break;
            LS_UNROLL
            for (int v = 0; v < V; v++) {
                float value = ls_element(x[i], v);
                float g = passes(n, normalize<V>(c, v, value)) ? ls_element(dy[i], v) : 0;
                dx[v] = g * c.factor[v] - shift[v] - (value - c.mean[v]) * slope[v];
            }
            ls_write<T, V>(static_cast<T *>(n.out) + r * n.rows.channels + p.channel, dx);
        }
    }
}

/* ---- sums over the chunks ---- */

/* Sums x and its square, from means and squares, if MEANS; else just the sums. Chunks are added by threads in y, then
 * by the block, in an order that follows from the shape alone. With MEANS a chunk's partials are its mean and the
 * squares around it, from which sums of x and x^2 are made in double. */
template <bool MEANS>
__device__ inline void add_chunks(const ls_cuda_norm_sums &s, int64_t channel, double (&sums)[2]) {
    const ls_cuda_rows &rows = s.rows;
    LS_AHEAD
    for (int64_t k = threadIdx.y; k < rows.chunks; k += blockDim.y) {
        const float *at = s.partials + 2 * k * rows.channels + channel;
        double a = (double)at[0], b = (double)at[rows.channels];
        double count = (double)(k + 1 < rows.chunks ? rows.chunk : rows.rows - k * rows.chunk);
        sums[0] += MEANS ? count * a : a;
        sums[1] += MEANS ? b + count * a * a : b;
    }
}

/* Fetches the sums of a channel for its thread with threadIdx.y 0, or keeps them for all replicas to add theirs. All
 * threads of the block come here. */
template <bool MEANS>
__device__ inline void sums_of(const ls_cuda_norm_sums &s, int64_t channel, double *shared, double (&sums)[2]) {
    if (s.partials && channel < s.rows.channels) add_chunks<MEANS>(s, channel, sums);
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

/* One whose threads meet, and the other; for a thread with many channels, or with one. */
cudaError_t launch_sums(norm_kernel *vector, norm_kernel *scalar, const ls_cuda_norm *n, cudaStream_t stream) {
    const ls_cuda_rows &rows = n->rows;
    norm_kernel *kernel = rows.vector > 1 ? vector : scalar;
    size_t bytes = sizeof(float) * 2 * rows.vector * rows.columns * rows.lines;
    return LS_LAUNCH_SYNC(kernel, ls_grid_of(rows), ls_block_of(rows), bytes, stream, *n);
}

cudaError_t launch_rows(norm_kernel *vector, norm_kernel *scalar, const ls_cuda_norm *n, cudaStream_t stream) {
    norm_kernel *kernel = n->rows.vector > 1 ? vector : scalar;
    return LS_LAUNCH(kernel, ls_grid_of(n->rows), ls_block_of(n->rows), stream, *n);
}

cudaError_t launch_finish(sums_kernel *kernel, const ls_cuda_norm_sums *s, cudaStream_t stream) {
    dim3 block = ls_finish_block(s->rows.chunks);
    size_t bytes = sizeof(double) * 2 * block.x * block.y;
    return LS_LAUNCH_SYNC(kernel, ls_finish_grid(s->rows.channels), block, bytes, stream, *s);
}

} // namespace

cudaError_t ls_cuda_norm_chunks(const struct ls_cuda_norm *n, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(n->dtype, error = launch_sums(norm_chunks<T, ls_wide<T>>, norm_chunks<T, 1>, n, stream));
    return error;
}

cudaError_t ls_cuda_norm_apply(const struct ls_cuda_norm *n, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(n->dtype, error = launch_rows(norm_apply<T, ls_wide<T>>, norm_apply<T, 1>, n, stream));
    return error;
}

cudaError_t ls_cuda_norm_gradients(const struct ls_cuda_norm *n, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(n->dtype, error = launch_sums(norm_gradients<T, ls_wide<T>>, norm_gradients<T, 1>, n, stream));
    return error;
}

cudaError_t ls_cuda_norm_data(const struct ls_cuda_norm *n, cudaStream_t stream) {
    cudaError_t error;
    LS_WITH_TYPE(n->dtype, error = launch_rows(norm_data<T, ls_wide<T>>, norm_data<T, 1>, n, stream));
    return error;
}

cudaError_t ls_cuda_norm_statistics(const struct ls_cuda_norm_sums *s, cudaStream_t stream) {
    return launch_finish(norm_statistics, s, stream);
}

cudaError_t ls_cuda_norm_shifts(const struct ls_cuda_norm_sums *s, cudaStream_t stream) {
    return launch_finish(norm_shifts, s, stream);
}
