/* Activations as ops of their own, each element once through memory; gradients follow from the output, of GELU
 * and SiLU from the input. Softmax: a warp
 * has a row, which it reads three times, of which memory should see the first. */
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"
#include "device/cuda/reduce.cuh"

namespace {

constexpr int WARP = 32, WARPS = LS_CUDA_THREADS / WARP;
constexpr int64_t MOST_BLOCKS = 4096; /* threads go on where there are more elements */

constexpr float ROOT_HALF = 0.707106781F, DENSITY = 0.398942280F; /* sqrt(1 / 2), 1 / sqrt(2 pi) */
constexpr float ROOT_2_OVER_PI = 0.797884561F, CUBIC = 0.044715F; /* of GELU by tanh */

__device__ inline float logistic(float x) {
    return 1 / (1 + expf(-x));
}
/* Phi(x) of the normal distribution, and its form by tanh: (1 + tanh(u)) / 2 = logistic(2 u). */
__device__ inline float normal_share(float x) {
    return 0.5F * erfcf(-x * ROOT_HALF);
}
__device__ inline float tanh_share(float x) {
    return logistic(2 * ROOT_2_OVER_PI * (x + CUBIC * (x * x * x)));
}

__device__ inline float activate(const ls_cuda_activation &a, float x) {
    switch (a.kind) {
    case LS_RELU:
        return x <= 0 ? 0 : x; /* NaN stays */
    case LS_RELU6:
        return x <= 0 ? 0 : x > 6 ? 6 : x;
    case LS_LEAKY_RELU:
        return x < 0 ? x * a.slope : x;
    case LS_SIGMOID:
        return 1 / (1 + expf(-x));
    case LS_TANH:
        return tanhf(x);
    case LS_GELU:
        return x * normal_share(x);
    case LS_GELU_TANH:
        return x * tanh_share(x);
    case LS_SILU:
        return x * logistic(x);
    default:
        return x;
    }
}

__device__ inline float gelu_tanh_slope(float x) {
    float share = tanh_share(x), inner = 2 * ROOT_2_OVER_PI * (1 + 3 * CUBIC * (x * x));
    return share + x * (share * (1 - share) * inner);
}
__device__ inline float silu_slope(float x) {
    float share = logistic(x);
    return share * (1 + x * (1 - share));
}

/* y: x, where the slope follows from it. */
__device__ inline float slope_at(const ls_cuda_activation &a, float y, float dy) {
    switch (a.kind) {
    case LS_RELU:
        return y > 0 ? dy : 0;
    case LS_RELU6:
        return y > 0 && y < 6 ? dy : 0;
    case LS_LEAKY_RELU:
        return y > 0 ? dy : dy * a.slope;
    case LS_SIGMOID:
        return dy * (y * (1 - y));
    case LS_TANH:
        return dy * (1 - y * y);
    case LS_GELU:
        return dy * (normal_share(y) + y * (DENSITY * expf(y * y * -0.5F)));
    case LS_GELU_TANH:
        return dy * gelu_tanh_slope(y);
    case LS_SILU:
        return dy * silu_slope(y);
    default:
        return dy;
    }
}

/* V elements from i on. */
template <typename T, int V, bool BACKWARD> __device__ inline void activate_at(const ls_cuda_activation &a, int64_t i) {
    const T *from = static_cast<const T *>(BACKWARD ? a.dy : a.x);
    ls_pack<T, V> pack = ls_read<T, V>(from + i), y = pack;
    float out[V];
    if (BACKWARD) y = ls_read<T, V>(static_cast<const T *>(a.y) + i);
    LS_UNROLL
    for (int v = 0; v < V; v++)
        out[v] = BACKWARD ? slope_at(a, ls_element(y, v), ls_element(pack, v)) : activate(a, ls_element(pack, v));
    ls_write<T, V>(static_cast<T *>(a.out) + i, out);
}

template <typename T, int V, bool BACKWARD>
__global__ void __launch_bounds__(LS_CUDA_THREADS) activation(ls_cuda_activation a) {
    int64_t own = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = own * V; i + V <= a.count; i += threads * V) activate_at<T, V, BACKWARD>(a, i);
    if (V > 1 && own < a.count % V) activate_at<T, 1, BACKWARD>(a, a.count / V * V + own);
}

/* ---- softmax ---- */

__device__ inline float warp_greatest(float value) {
    for (int lanes = WARP / 2; lanes; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, lanes));
    return value;
}

template <typename T> __global__ void __launch_bounds__(LS_CUDA_THREADS) softmax_y(ls_cuda_activation a) {
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    if (row >= a.count / a.columns) return; /* all of a warp */
    const T *x = static_cast<const T *>(a.x) + row * a.columns;
    T *y = static_cast<T *>(a.out) + row * a.columns;
    float greatest = -INFINITY, sum = 0;
    LS_AHEAD
    for (int64_t i = threadIdx.x; i < a.columns; i += WARP) greatest = fmaxf(greatest, ls_load(x[i]));
    greatest = warp_greatest(greatest);
    LS_AHEAD
    for (int64_t i = threadIdx.x; i < a.columns; i += WARP) sum += expf(ls_load(x[i]) - greatest);
    sum = ls_warp_sum(sum);
    LS_AHEAD
    for (int64_t i = threadIdx.x; i < a.columns; i += WARP) y[i] = ls_store<T>(expf(ls_load(x[i]) - greatest) / sum);
}

template <typename T> __global__ void __launch_bounds__(LS_CUDA_THREADS) softmax_dx(ls_cuda_activation a) {
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y, from = row * a.columns;
    if (row >= a.count / a.columns) return;
    const T *y = static_cast<const T *>(a.y) + from, *dy = static_cast<const T *>(a.dy) + from;
    T *dx = static_cast<T *>(a.out) + from;
    float sum = 0;
    LS_AHEAD
    for (int64_t i = threadIdx.x; i < a.columns; i += WARP) sum += ls_load(dy[i]) * ls_load(y[i]);
    sum = ls_warp_sum(sum);
    LS_AHEAD
    for (int64_t i = threadIdx.x; i < a.columns; i += WARP) dx[i] = ls_store<T>(ls_load(y[i]) * (ls_load(dy[i]) - sum));
}

/* ---- launching ---- */

typedef void activation_kernel(ls_cuda_activation a);

cudaError_t launch_elements(activation_kernel *kernel, const ls_cuda_activation *a, cudaStream_t stream) {
    int64_t each = (int64_t)LS_CUDA_THREADS * a->vector, blocks = (a->count + each - 1) / each;
    dim3 grid((unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS));
    return LS_LAUNCH(kernel, grid, dim3(LS_CUDA_THREADS), stream, *a);
}

cudaError_t launch_rows(activation_kernel *kernel, const ls_cuda_activation *a, cudaStream_t stream) {
    dim3 grid((unsigned)((a->count / a->columns + WARPS - 1) / WARPS)), block(WARP, WARPS);
    return LS_LAUNCH_SYNC(kernel, grid, block, 0, stream, *a);
}

template <typename T, bool BACKWARD> cudaError_t launch(const ls_cuda_activation *a, cudaStream_t stream) {
    if (a->kind == LS_SOFTMAX) return launch_rows(BACKWARD ? softmax_dx<T> : softmax_y<T>, a, stream);
    return launch_elements(a->vector > 1 ? activation<T, ls_wide<T>, BACKWARD> : activation<T, 1, BACKWARD>, a, stream);
}

} // namespace

cudaError_t ls_cuda_activation_y(const struct ls_cuda_activation *a, cudaStream_t stream) {
    LS_WITH_TYPE(a->dtype, return (launch<T, false>(a, stream)));
}

cudaError_t ls_cuda_activation_dx(const struct ls_cuda_activation *a, cudaStream_t stream) {
    LS_WITH_TYPE(a->dtype, return (launch<T, true>(a, stream)));
}
