/* Shared by kernels on images: the place of a thread, and sums over the threads of a block. */
#pragma once
#include "device/cuda/kernel.h"
#include "device/cuda/layout.h"
#include "device/cuda/pack.cuh"

/* Reads the values of V neighbouring channels; from is aligned to 16 bytes if V is a multiple of 4. */
template <int V> __device__ inline void ls_read_floats(const float *from, float (&to)[V]) {
    constexpr int EACH = V % 4 ? 1 : 4;
    LS_UNROLL
    for (int i = 0; i < V; i += EACH) {
        ls_pack<float, EACH> pack = ls_read<float, EACH>(from + i);
        for (int k = 0; k < EACH; k++) to[i + k] = pack.values[k];
    }
}

template <int V> __device__ inline void ls_write_floats(float *to, const float (&from)[V]) {
    constexpr int EACH = V % 4 ? 1 : 4;
    LS_UNROLL
    for (int i = 0; i < V; i += EACH) {
        ls_pack<float, EACH> pack;
        for (int k = 0; k < EACH; k++) pack.values[k] = from[i + k];
        *reinterpret_cast<ls_pack<float, EACH> *>(to + i) = pack;
    }
}

/* Adds the values of the threads with the same threadIdx.x, always in the same order; those with threadIdx.y 0 then
 * hold the sums. F is float or double; shared: COUNT of it for each thread of the block, all of which come here. */
template <int COUNT, typename F> __device__ inline void ls_block_add(F (&values)[COUNT], F *shared) {
    int threads = blockDim.x * blockDim.y, own = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = 0; i < COUNT; i++) shared[i * threads + own] = values[i];
    for (int left = blockDim.y; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        __syncthreads();
        if ((int)threadIdx.y >= left - half) continue;
        for (int i = 0; i < COUNT; i++) {
            values[i] += shared[i * threads + own + half * blockDim.x];
            shared[i * threads + own] = values[i];
        }
    }
}

/* The rows of a thread in a sum over rows: begin, begin + step, ... before end, of a chunk that starts with first. */
struct ls_row_place {
    int64_t channel, first, begin, end;
    int step;
    bool inside;
};

__device__ inline ls_row_place ls_place_of(const ls_cuda_rows &rows) {
    ls_row_place p;
    p.channel = (int64_t)(blockIdx.x * blockDim.x + threadIdx.x) * rows.vector;
    p.inside = p.channel < rows.channels;
    p.first = (int64_t)blockIdx.y * rows.chunk;
    p.begin = p.first + threadIdx.y;
    p.end = p.first + rows.chunk < rows.rows ? p.first + rows.chunk : rows.rows;
    p.step = (int)blockDim.y;
    return p;
}

/* The position along a line, and the first channel, of a thread of lines; position is lines.width or more for those
 * that have nothing to do. */
struct ls_line_place {
    int position, channel;
};

__device__ inline ls_line_place ls_place_of(const ls_cuda_lines &lines) {
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x), groups = lines.channels / lines.vector;
    return {at / groups, at % groups * lines.vector};
}

/* Calls body(image, line) for each that the block has. */
template <typename F> __device__ inline void ls_each_line(const ls_cuda_lines &lines, F body) {
    for (int n = (int)blockIdx.z; n < lines.images; n += (int)gridDim.z)
        for (int tile = (int)blockIdx.y; tile * lines.lines_each < lines.height; tile += (int)gridDim.y)
            for (int i = 0, h = tile * lines.lines_each; i < lines.lines_each && h < lines.height; i++, h++) body(n, h);
}

/* Blocks that add over chunks: threads are (sums, chunks). */
constexpr int LS_FINISH_SUMS = 32, LS_FINISH_CHUNKS = 32;

static inline dim3 ls_finish_grid(int64_t sums) {
    return dim3((unsigned)((sums + LS_FINISH_SUMS - 1) / LS_FINISH_SUMS));
}
static inline dim3 ls_finish_block(int chunks) {
    return dim3(LS_FINISH_SUMS, (unsigned)(chunks < LS_FINISH_CHUNKS ? chunks : LS_FINISH_CHUNKS));
}
static inline dim3 ls_grid_of(const ls_cuda_rows &rows) {
    return dim3((unsigned)rows.across, (unsigned)rows.chunks);
}
static inline dim3 ls_block_of(const ls_cuda_rows &rows) {
    return dim3((unsigned)rows.columns, (unsigned)rows.lines);
}
static inline dim3 ls_grid_of(const ls_cuda_lines &lines) {
    return dim3((unsigned)lines.across, (unsigned)lines.down, (unsigned)lines.deep);
}
static inline dim3 ls_block_of(const ls_cuda_lines &lines) {
    return dim3((unsigned)lines.block);
}
