/* Reductions over the threads of a block, in an order that depends on the block's size only. Blocks are whole warps.
 * Every thread of the block makes the same calls and receives the same values. */
#pragma once
#include "device/cuda/kernel.h"

#define LS_WARP      32
#define LS_MAX_WARPS 32
#define LS_ALL_LANES 0xFFFFFFFFU

/* A butterfly of shuffles adds a warp in five steps, and all its lanes get the same bits: both lanes of a pair add the
 * same two numbers, and addition commutes. Then every thread adds the sums of the warps in order. No atomic addition is
 * used, whose order would differ from run to run. */
__device__ inline float ls_warp_sum(float value) {
    for (int distance = LS_WARP / 2; distance; distance /= 2) value += __shfl_xor_sync(LS_ALL_LANES, value, distance);
    return value;
}

__device__ inline double ls_block_sum(double value) {
    __shared__ double sums[LS_MAX_WARPS];
    for (int distance = LS_WARP / 2; distance; distance /= 2) value += __shfl_xor_sync(LS_ALL_LANES, value, distance);
    __syncthreads(); /* an earlier sum has been read */
    if (threadIdx.x % LS_WARP == 0) sums[threadIdx.x / LS_WARP] = value;
    __syncthreads();
    double sum = sums[0];
    for (unsigned warp = 1; warp < blockDim.x / LS_WARP; warp++) sum += sums[warp];
    return sum;
}

__device__ inline long long ls_block_minimum(long long value) {
    __shared__ long long least[LS_MAX_WARPS];
    for (int distance = LS_WARP / 2; distance; distance /= 2) {
        long long other = __shfl_xor_sync(LS_ALL_LANES, value, distance);
        value = other < value ? other : value;
    }
    __syncthreads();
    if (threadIdx.x % LS_WARP == 0) least[threadIdx.x / LS_WARP] = value;
    __syncthreads();
    value = least[0];
    for (unsigned warp = 1; warp < blockDim.x / LS_WARP; warp++) value = least[warp] < value ? least[warp] : value;
    return value;
}

/* The first of the largest of several numbers: its value and its place. */
struct ls_largest {
    float value;
    int at;
};

__device__ inline struct ls_largest ls_larger(struct ls_largest a, struct ls_largest b) {
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* Gives the result of a loop from the first to the last that takes a larger value: if the first is no number, it stays.
 */
__device__ inline int ls_block_argmax(const float *values, int64_t count) {
    __shared__ struct ls_largest largest[LS_MAX_WARPS];
    struct ls_largest best = {values[0], 0};
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        if (values[i] > best.value) best = {values[i], static_cast<int>(i)};
    for (int distance = LS_WARP / 2; distance; distance /= 2) {
        float value = __shfl_xor_sync(LS_ALL_LANES, best.value, distance);
        int at = __shfl_xor_sync(LS_ALL_LANES, best.at, distance);
        best = ls_larger(best, {value, at});
    }
    __syncthreads();
    if (threadIdx.x % LS_WARP == 0) largest[threadIdx.x / LS_WARP] = best;
    __syncthreads();
    best = largest[0];
    for (unsigned warp = 1; warp < blockDim.x / LS_WARP; warp++) best = ls_larger(best, largest[warp]);
    return best.at;
}
