/* Kernels for the test of the emulation. */
#include "emulation_kernels.h"

#include "device/cuda/kernel.h"

__global__ static void count_kernel(float *y, int64_t count, float step) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) y[i] = static_cast<float>(i) + step;
}

cudaError_t show_count(float *y, int64_t count, float step, cudaStream_t stream) {
    return LS_LAUNCH(count_kernel, static_cast<unsigned>((count + 255) / 256), 256, stream, y, count, step);
}

template <bool MEETS> __global__ static void __launch_bounds__(256) sum_kernel(const float *x, float *sums) {
    LS_SHARED(float, partial);
    float sum = x[blockIdx.x * 256 + threadIdx.x];
    for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, lanes);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    if (MEETS) __syncthreads();
    if (threadIdx.x) return;
    float all = 0;
    for (int i = 0; i < 8; i++) all += partial[i];
    sums[blockIdx.x] = all;
}

cudaError_t show_sum(const float *x, float *sums, int blocks, int meets, cudaStream_t stream) {
    if (meets) return LS_LAUNCH_SYNC(sum_kernel<true>, blocks, 256, 8 * sizeof(float), stream, x, sums);
    return LS_LAUNCH_SYNC(sum_kernel<false>, blocks, 256, 8 * sizeof(float), stream, x, sums);
}

__global__ static void types_kernel(const float *x, float *y, unsigned *votes) {
    float value = x[threadIdx.x];
    __shared__ float turned[32];
    turned[31 - threadIdx.x] = ls_load(ls_store<__nv_bfloat16>(value));
    __syncthreads();
    y[threadIdx.x] = turned[31 - threadIdx.x];
    y[32 + threadIdx.x] = ls_load(ls_store<__half>(value));
    unsigned vote = __ballot_sync(0xFFFFFFFFU, value > 0);
    unsigned above = __shfl_down_sync(0xFFFFFFFFU, threadIdx.x, 1);
    if (threadIdx.x == 0) votes[0] = vote;
    if (threadIdx.x == 30) votes[1] = above;
    if (threadIdx.x == 31) votes[2] = above;
}

cudaError_t show_types(const float *x, float *y, unsigned *votes, cudaStream_t stream) {
    return LS_LAUNCH_SYNC(types_kernel, 1, 32, 0, stream, x, y, votes);
}

__global__ static void forgotten_kernel(int lanes) {
    if (static_cast<int>(threadIdx.x) >= lanes)
        __syncthreads();
    else
        (void)__shfl_xor_sync(0xFFFFFFFFU, 1, 1);
}

cudaError_t show_forgotten(cudaStream_t stream) {
    return LS_LAUNCH_SYNC(forgotten_kernel, 1, 32, 0, stream, 16);
}

cudaError_t show_wrong_launch(cudaStream_t stream) {
    return LS_LAUNCH(forgotten_kernel, 1, 32, stream, 0);
}
