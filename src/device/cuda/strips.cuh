/* Strips of images, the way of kernels for windows of 3 by 3: a thread has two or four channels of a few neighbouring
 * columns, and goes down the lines of a strip. It reads a line ahead of the one that it computes. An element is turned
 * into floats once, for all taps that meet it. */
#pragma once
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"

/* An item of a layout: the columns from column on, of the lines from first to before end. */
struct ls_strip {
    int image, first, end, column;
};

__device__ inline ls_strip ls_strip_of(const ls_cuda_strips &strips, int item) {
    int above = item / strips.width, first = above % strips.down * strips.lines;
    return {above / strips.down, first, min(first + strips.lines, strips.height), item % strips.width * strips.columns};
}

/* A block's number among those that have the same channels. */
__device__ inline int ls_strip_chunk(const ls_cuda_strips &strips) {
    return (int)blockIdx.x / strips.across;
}

__device__ inline int ls_strip_channel(const ls_cuda_strips &strips) {
    return ((int)blockIdx.x % strips.across * strips.lanes + (int)threadIdx.x) * strips.vector;
}

__device__ inline bool ls_within(int at, int size) {
    return (unsigned)at < (unsigned)size;
}

/* Bit i is 1 where column first + i is one of the image. */
template <int COUNT> __device__ inline uint32_t ls_columns_within(int first, int size) {
    uint32_t bits = 0;
    LS_UNROLL
    for (int i = 0; i < COUNT; i++) bits |= (uint32_t)ls_within(first + i, size) << i;
    return bits;
}

/* Reads neighbouring columns of a line, zeros where the image has none. INNER: all but the outermost are in it. */
template <bool INNER, typename T, int V, int COUNT>
__device__ inline void ls_read_columns(const T *from, bool line, uint32_t within, int channels,
                                       ls_pack<T, V> (&to)[COUNT]) {
    LS_UNROLL
    for (int i = 0; i < COUNT; i++) {
        bool inner = INNER && i > 0 && i < COUNT - 1;
        if (line && (inner || (within >> i & 1)))
            to[i] = ls_read<T, V>(from + i * channels);
        else
            to[i] = ls_zeros<T, V>();
    }
}

template <typename T, int V, int COUNT>
__device__ inline void ls_floats_of(const ls_pack<T, V> (&packs)[COUNT], float (&to)[COUNT][V]) {
    LS_UNROLL
    for (int i = 0; i < COUNT; i++) {
        LS_UNROLL
        for (int v = 0; v < V; v++) to[i][v] = ls_element(packs[i], v);
    }
}

/* The taps of a thread's channels. Turned by half a turn they make dx of dy, where the stride is 1. */
template <typename T, int V>
__device__ inline void ls_read_taps(const ls_cuda_depthwise &d, int channel, float (&taps)[9][V]) {
    LS_UNROLL
    for (int i = 0; i < 9; i++) {
        int64_t tap = d.turned ? 8 - i : i;
        ls_read_pack<T, V>(static_cast<const T *>(d.w) + tap * d.at.channels + channel, taps[i]);
    }
}

/* The place of an element of a thread's channels. line and column may be outside of the image. */
__device__ inline int64_t ls_strip_offset(const ls_cuda_windows &at, const int (&size)[2], int image, int line,
                                          int column, int channel) {
    return (((int64_t)image * size[0] + line) * size[1] + column) * at.channels + channel;
}

static inline dim3 ls_grid_of(const ls_cuda_strips &strips) {
    return dim3((unsigned)strips.across * (unsigned)strips.chunks);
}
static inline dim3 ls_block_of(const ls_cuda_strips &strips) {
    return dim3((unsigned)strips.lanes, (unsigned)strips.tall);
}
