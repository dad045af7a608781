/* Elements in packs, read and written with 16 bytes an access, and how many threads there are to share them. */
#pragma once
#include <stdint.h>

#include "device/cuda/kernel.h"

/* 16 bytes or a multiple. */
template <typename T, int N> struct alignas(16) ls_pack { T items[N]; };
template <typename T> constexpr int ls_pack_size = 16 / static_cast<int>(sizeof(T));

template <typename T, int N> __device__ inline void ls_read_pack(const T *at, float values[N]) {
    const ls_pack<T, N> pack = *reinterpret_cast<const ls_pack<T, N> *>(at);
    for (int i = 0; i < N; i++) values[i] = ls_load<T>(pack.items[i]);
}

template <typename T, int N> __device__ inline void ls_write_pack(T *at, const float values[N]) {
    ls_pack<T, N> pack;
    for (int i = 0; i < N; i++) pack.items[i] = ls_store<T>(values[i]);
    *reinterpret_cast<ls_pack<T, N> *>(at) = pack;
}

inline bool ls_is_aligned(const void *memory) {
    return reinterpret_cast<uintptr_t>(memory) % 16 == 0;
}

#define LS_THREADS 256 /* a block */
/* The number of blocks for a thread each; loops over a grid cover the threads beyond it. */
inline unsigned ls_blocks(int64_t threads) {
    int64_t blocks = (threads + LS_THREADS - 1) / LS_THREADS;
    return static_cast<unsigned>(blocks < 1 ? 1 : blocks > (1 << 30) ? 1 << 30 : blocks);
}

__device__ inline int64_t ls_thread() {
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t ls_all_threads() {
    return static_cast<int64_t>(gridDim.x) * blockDim.x;
}
