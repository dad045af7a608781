/* Packs: neighbouring elements that a thread reads or writes in one access, of up to 16 bytes. And how many threads
 * there are to share elements in packs. */
#pragma once
#include <stdint.h>
#include <string.h>
#include <type_traits>

#include "device/cuda/kernel.h"
#include "device/cuda/layout.h"

#ifdef LS_EMULATION
#define LS_UNROLL
#define LS_AHEAD
#else
#define LS_UNROLL _Pragma("unroll")   /* before a loop whose arrays shall be registers */
#define LS_AHEAD  _Pragma("unroll 8") /* before a loop whose reads shall not wait for each other */
#endif

template <typename T> constexpr int ls_wide = LS_CUDA_ACCESS / static_cast<int>(sizeof(T)); /* of the largest access */

/* Two elements of 16 bits lie in a word. A compiler takes a pack of 16-bit values apart and puts it together again
 * wherever it is chosen or copied. Packs of more than an access are read in several. */
template <typename T, int N> constexpr bool ls_pairs = sizeof(T) == 2 && N % 2 == 0;
template <typename T, int N>
constexpr size_t ls_pack_alignment = sizeof(T) * N < LS_CUDA_ACCESS ? sizeof(T) * N : LS_CUDA_ACCESS;
template <typename T, int N, bool PAIRS = ls_pairs<T, N>> struct alignas(ls_pack_alignment<T, N>) ls_pack {
    T values[N];
};
template <typename T, int N> struct alignas(ls_pack_alignment<T, N>) ls_pack<T, N, true> { uint32_t words[N / 2]; };

/* The lower (0) or the upper (1) element of a word. bfloat16 is the upper half of a float32. */
template <typename T> __device__ inline float ls_half_of(uint32_t word, int i) {
    if constexpr (std::is_same<T, __nv_bfloat16>::value) {
        return __uint_as_float(i ? word & 0xFFFF0000U : word << 16);
    } else {
        return ls_load(__ushort_as_half((unsigned short)(i ? word >> 16 : word)));
    }
}

/* Both are rounded to nearest even, in one instruction. */
template <typename T> __device__ inline uint32_t ls_word_of(float lower, float upper) {
    uint32_t word;
    if constexpr (std::is_same<T, __nv_bfloat16>::value) {
        __nv_bfloat162 two = __floats2bfloat162_rn(lower, upper);
        memcpy(&word, &two, sizeof(word));
    } else {
        __half2 two = __floats2half2_rn(lower, upper);
        memcpy(&word, &two, sizeof(word));
    }
    return word;
}

template <typename T, int N> __device__ inline ls_pack<T, N> ls_read(const T *from) {
    return *reinterpret_cast<const ls_pack<T, N> *>(from);
}

template <typename T, int N> __device__ inline ls_pack<T, N> ls_zeros() {
    ls_pack<T, N> pack;
    if constexpr (ls_pairs<T, N>) {
        LS_UNROLL
        for (int i = 0; i < N / 2; i++) pack.words[i] = 0;
    } else {
        LS_UNROLL
        for (int i = 0; i < N; i++) pack.values[i] = ls_store<T>(0);
    }
    return pack;
}

template <typename T, int N> __device__ inline float ls_element(const ls_pack<T, N> &pack, int i) {
    if constexpr (ls_pairs<T, N>)
        return ls_half_of<T>(pack.words[i / 2], i % 2);
    else
        return ls_load(pack.values[i]);
}

template <typename T, int N> __device__ inline void ls_read_pack(const T *from, float *values) {
    const ls_pack<T, N> pack = ls_read<T, N>(from);
    LS_UNROLL
    for (int i = 0; i < N; i++) values[i] = ls_element(pack, i);
}

/* Rounds each value to T. */
template <typename T, int N> __device__ inline void ls_write(T *to, const float *values) {
    ls_pack<T, N> pack;
    if constexpr (ls_pairs<T, N>) {
        LS_UNROLL
        for (int i = 0; i < N / 2; i++) pack.words[i] = ls_word_of<T>(values[2 * i], values[2 * i + 1]);
    } else {
        LS_UNROLL
        for (int i = 0; i < N; i++) pack.values[i] = ls_store<T>(values[i]);
    }
    *reinterpret_cast<ls_pack<T, N> *>(to) = pack;
}

inline bool ls_is_aligned(const void *memory) {
    return reinterpret_cast<uintptr_t>(memory) % LS_CUDA_ACCESS == 0;
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
