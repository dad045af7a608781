/* Layer normalization and RMS normalization. A warp has a row, which it reads two or three times, of which memory
 * should see the first. Gradients of gamma and beta are sums over chunks of rows, then over the chunks. */
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"
#include "device/cuda/reduce.cuh"

namespace {

constexpr int WARPS = LS_CUDA_THREADS / LS_WARP;

/* V values from i on; without memory, those of a constant. */
template <int V> __device__ inline void read_or(const float *from, int64_t i, float otherwise, float (&to)[V]) {
    if (from) return ls_read_floats<V>(from + i, to);
    LS_UNROLL
    for (int v = 0; v < V; v++) to[v] = otherwise;
}

/* ---- forward ---- */

template <typename T, int V> __device__ inline float row_mean(const ls_cuda_layer_norm &n, const T *x) {
    float sum = 0;
    LS_AHEAD
    for (int64_t i = threadIdx.x * V; i < n.channels; i += LS_WARP * V) {
        const ls_pack<T, V> pack = ls_read<T, V>(x + i);
        LS_UNROLL
        for (int v = 0; v < V; v++) sum += ls_element(pack, v);
    }
    return ls_warp_sum(sum) / (float)n.channels;
}

template <typename T, int V> __device__ inline float row_inverse(const ls_cuda_layer_norm &n, const T *x, float mean) {
    float squares = 0;
    LS_AHEAD
    for (int64_t i = threadIdx.x * V; i < n.channels; i += LS_WARP * V) {
        const ls_pack<T, V> pack = ls_read<T, V>(x + i);
        LS_UNROLL
        for (int v = 0; v < V; v++) {
            float away = ls_element(pack, v) - mean;
            squares += away * away;
        }
    }
    return 1 / sqrtf(ls_warp_sum(squares) / (float)n.channels + n.epsilon);
}

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) normalize(ls_cuda_layer_norm n) {
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    if (row >= n.rows) return; /* all of a warp */
    const T *x = static_cast<const T *>(n.x) + row * n.channels;
    T *y = static_cast<T *>(n.out) + row * n.channels;
    const float mean = n.centered ? row_mean<T, V>(n, x) : 0, inverse = row_inverse<T, V>(n, x, mean);
    for (int64_t i = threadIdx.x * V; i < n.channels; i += LS_WARP * V) {
        const ls_pack<T, V> pack = ls_read<T, V>(x + i);
        float gamma[V], beta[V], out[V];
        read_or<V>(n.gamma, i, 1, gamma);
        read_or<V>(n.beta, i, 0, beta);
        LS_UNROLL
        for (int v = 0; v < V; v++) out[v] = (ls_element(pack, v) - mean) * inverse * gamma[v] + beta[v];
        ls_write<T, V>(y + i, out);
    }
    if (n.saved && !threadIdx.x) n.saved[2 * row] = mean, n.saved[2 * row + 1] = inverse;
}

/* ---- dx ---- */

/* With h = dy gamma: the mean of h, which RMS normalization has not, and the mean of h x^. */
struct row_means {
    float shift, slope;
};

template <typename T, int V>
__device__ inline row_means means_of(const ls_cuda_layer_norm &n, int64_t row, float mean, float inverse) {
    const T *x = static_cast<const T *>(n.x) + row * n.channels, *dy = static_cast<const T *>(n.dy) + row * n.channels;
    float sum = 0, product = 0;
    for (int64_t i = threadIdx.x * V; i < n.channels; i += LS_WARP * V) {
        const ls_pack<T, V> a = ls_read<T, V>(x + i), b = ls_read<T, V>(dy + i);
        float gamma[V];
        read_or<V>(n.gamma, i, 1, gamma);
        LS_UNROLL
        for (int v = 0; v < V; v++) {
            float h = ls_element(b, v) * gamma[v];
            sum += h;
            product += h * ((ls_element(a, v) - mean) * inverse);
        }
    }
    sum = ls_warp_sum(sum);
    product = ls_warp_sum(product);
    return {n.centered ? sum / (float)n.channels : 0, product / (float)n.channels};
}

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) normalize_dx(ls_cuda_layer_norm n) {
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    if (row >= n.rows) return;
    const float mean = n.saved[2 * row], inverse = n.saved[2 * row + 1];
    const row_means means = means_of<T, V>(n, row, mean, inverse);
    const T *x = static_cast<const T *>(n.x) + row * n.channels, *dy = static_cast<const T *>(n.dy) + row * n.channels;
    T *dx = static_cast<T *>(n.out) + row * n.channels;
    for (int64_t i = threadIdx.x * V; i < n.channels; i += LS_WARP * V) {
        const ls_pack<T, V> a = ls_read<T, V>(x + i), b = ls_read<T, V>(dy + i);
        float gamma[V], out[V];
        read_or<V>(n.gamma, i, 1, gamma);
        LS_UNROLL
        for (int v = 0; v < V; v++) {
            float normal = (ls_element(a, v) - mean) * inverse;
            out[v] = inverse * (ls_element(b, v) * gamma[v] - means.shift - normal * means.slope);
        }
        ls_write<T, V>(dx + i, out);
    }
}

/* ---- dgamma, dbeta ---- */

template <typename T, int V> __global__ void __launch_bounds__(LS_CUDA_THREADS) parameter_sums(ls_cuda_layer_norm n) {
    LS_SHARED(float, shared);
    const ls_row_place p = ls_place_of(n.sums);
    float gammas[V] = {}, betas[V] = {};
    for (int64_t row = p.begin; p.inside && row < p.end; row += p.step) {
        const int64_t at = row * n.channels + p.channel;
        const ls_pack<T, V> a = ls_read<T, V>(static_cast<const T *>(n.x) + at);
        const ls_pack<T, V> b = ls_read<T, V>(static_cast<const T *>(n.dy) + at);
        const float mean = n.saved[2 * row], inverse = n.saved[2 * row + 1];
        LS_UNROLL
        for (int v = 0; v < V; v++) {
            gammas[v] += ls_element(b, v) * ((ls_element(a, v) - mean) * inverse);
            betas[v] += ls_element(b, v);
        }
    }
    ls_block_add<V>(gammas, shared);
    __syncthreads();
    ls_block_add<V>(betas, shared);
    if (!p.inside || threadIdx.y) return;
    float *to = n.partials + (int64_t)blockIdx.y * 2 * n.channels + p.channel;
    ls_write_floats<V>(to, gammas);
    ls_write_floats<V>(to + n.channels, betas);
}

__global__ void __launch_bounds__(LS_FINISH_SUMS *LS_FINISH_CHUNKS) parameter_finish(ls_cuda_layer_norm n) {
    LS_SHARED(double, shared);
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sum[1] = {};
    if (at < 2 * n.channels) {
        LS_AHEAD
        for (int k = (int)threadIdx.y; k < n.sums.chunks; k += (int)blockDim.y)
            sum[0] += (double)n.partials[k * 2 * n.channels + at];
    }
    ls_block_add<1>(sum, shared);
    if (threadIdx.y || at >= 2 * n.channels) return;
    float *to = at < n.channels ? n.dgamma : n.dbeta;
    if (to) to[at % n.channels] = (float)sum[0];
}

/* ---- launching ---- */

typedef void layer_norm_kernel(ls_cuda_layer_norm n);

cudaError_t launch_rows(layer_norm_kernel *kernel, const ls_cuda_layer_norm *n, cudaStream_t stream) {
    dim3 grid((unsigned)((n->rows + WARPS - 1) / WARPS)), block(LS_WARP, WARPS);
    return LS_LAUNCH_SYNC(kernel, grid, block, 0, stream, *n);
}

template <typename T> cudaError_t launch_sums(const ls_cuda_layer_norm *n, cudaStream_t stream) {
    dim3 grid = ls_grid_of(n->sums), block = ls_block_of(n->sums), finish = ls_finish_block(n->sums.chunks);
    size_t bytes = sizeof(float) * (size_t)n->vector * block.x * block.y;
    layer_norm_kernel *kernel = n->vector > 1 ? parameter_sums<T, ls_wide<T>> : parameter_sums<T, 1>;
    cudaError_t error = LS_LAUNCH_SYNC(kernel, grid, block, bytes, stream, *n);
    if (error) return error;
    bytes = sizeof(double) * finish.x * finish.y;
    return LS_LAUNCH_SYNC(parameter_finish, ls_finish_grid(2 * n->channels), finish, bytes, stream, *n);
}

} // namespace

cudaError_t ls_cuda_layer_norm_y(const struct ls_cuda_layer_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype, return launch_rows(n->vector > 1 ? normalize<T, ls_wide<T>> : normalize<T, 1>, n, stream));
}

cudaError_t ls_cuda_layer_norm_dx(const struct ls_cuda_layer_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype,
                 return launch_rows(n->vector > 1 ? normalize_dx<T, ls_wide<T>> : normalize_dx<T, 1>, n, stream));
}

cudaError_t ls_cuda_layer_norm_gradients(const struct ls_cuda_layer_norm *n, cudaStream_t stream) {
    LS_WITH_TYPE(n->dtype, return launch_sums<T>(n, stream));
}
