/* Rows of a table by number, and their gradients. Backward sorts the batch's places by row, and keeps the batch's order
 * among those of one row. Then a warp adds what a row gets, in that order: the bits are the CPU's.
 *
 * The sort goes by digits of 8 bits, the lowest first. A block has a share of the tags, and each warp a part of that.
 * All of them move a tag behind those before it with the same digit. */
#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"

#define AHEAD _Pragma("unroll 8") /* before a loop whose reads shall not wait for each other */

namespace {

constexpr int LANES = 32, WARPS = 8, BITS = 8, DIGITS = 1 << BITS; /* a thread of a block for each digit */
constexpr unsigned ALL = 0xFFFFFFFFU;
constexpr int64_t ROW_LIMIT = (int64_t)1 << 31; /* ids are below it */

/* -1: no row's. */
__device__ inline int64_t row_of(const ls_cuda_embedding &e, int64_t i) {
    if (e.integers) {
        int32_t integer = static_cast<const int32_t *>(e.ids)[i];
        return integer >= 0 && integer < e.limit ? integer : -1;
    }
    float id = static_cast<const float *>(e.ids)[i];
    return id >= 0 && id < static_cast<float>(e.limit) ? static_cast<int64_t>(id) : -1;
}

template <typename T> __global__ void take_rows(ls_cuda_embedding e) {
    const T *table = static_cast<const T *>(e.table);
    T *rows = static_cast<T *>(e.rows);
    for (int64_t i = ls_thread(); i < e.count * e.width; i += ls_all_threads()) {
        int64_t row = row_of(e, i / e.width);
        rows[i] = row < 0 ? ls_store<T>(0) : table[row * e.width + i % e.width];
    }
}

/* A tag is a place of the batch with its row: row above, place below. Tags of no row come last. */
__device__ inline int64_t last_row(const ls_cuda_embedding &e) {
    return e.limit < ROW_LIMIT ? e.limit : ROW_LIMIT;
}

/* One digit's turn: from NULL are the ids themselves. */
struct sort_turn {
    const uint64_t *from;
    uint64_t *to;
    unsigned *counts; /* [blocks][DIGITS] */
    int64_t share;    /* tags of a warp, a multiple of LANES */
    int shift;
};

__device__ inline uint64_t tag_of(const ls_cuda_embedding &e, const sort_turn &turn, int64_t i) {
    if (turn.from) return turn.from[i];
    int64_t row = row_of(e, i);
    return (uint64_t)(row < 0 ? last_row(e) : row) << 32 | (uint64_t)i;
}

__device__ inline int digit_of(const sort_turn &turn, uint64_t tag) {
    return (int)(tag >> turn.shift) & (DIGITS - 1);
}

/* Counts the digits of a warp's tags, which begin at begin and end before the result. */
__device__ inline int64_t count_part(const ls_cuda_embedding &e, const sort_turn &turn, int64_t begin,
                                     unsigned *counts) {
    int64_t end = begin + turn.share < e.count ? begin + turn.share : e.count;
    for (int64_t i = begin + threadIdx.x % LANES; i < end; i += LANES)
        atomicAdd(&counts[digit_of(turn, tag_of(e, turn, i))], 1U);
    return end;
}

__device__ inline int64_t begin_of(const sort_turn &turn) {
    return ((int64_t)blockIdx.x * WARPS + threadIdx.x / LANES) * turn.share;
}

__global__ void __launch_bounds__(DIGITS) count_digits(ls_cuda_embedding e, sort_turn turn) {
    __shared__ unsigned counts[DIGITS];
    counts[threadIdx.x] = 0;
    __syncthreads();
    count_part(e, turn, begin_of(turn), counts);
    __syncthreads();
    turn.counts[(int64_t)blockIdx.x * DIGITS + threadIdx.x] = counts[threadIdx.x];
}

/* The place of the block's first tag with the thread's digit: behind all with lower digits, and earlier blocks' own. */
__device__ inline unsigned first_place(const unsigned *counts) {
    __shared__ unsigned sums[DIGITS];
    unsigned before = 0, all = 0;
    AHEAD
    for (unsigned block = 0; block < gridDim.x; block++) {
        unsigned count = counts[(int64_t)block * DIGITS + threadIdx.x];
        before += block < blockIdx.x ? count : 0;
        all += count;
    }
    sums[threadIdx.x] = all;
    for (unsigned distance = 1; distance < DIGITS; distance *= 2) {
        __syncthreads();
        unsigned other = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
    }
    return sums[threadIdx.x] - all + before;
}

/* The lanes whose digit is the caller's; present: those that have one. */
__device__ inline unsigned peers_of(unsigned present, int digit) {
    for (int bit = 0; bit < BITS; bit++) {
        unsigned set = __ballot_sync(ALL, digit >> bit & 1);
        present &= digit >> bit & 1 ? set : ~set;
    }
    return present;
}

/* Moves a warp's tags in their order; next: where its next tag with each digit goes. */
__device__ inline void move_part(const ls_cuda_embedding &e, const sort_turn &turn, int64_t begin, int64_t end,
                                 unsigned *next) {
    const int lane = threadIdx.x % LANES;
    for (int64_t first = begin; first < end; first += LANES) {
        bool inside = first + lane < end;
        uint64_t tag = inside ? tag_of(e, turn, first + lane) : 0;
        int digit = digit_of(turn, tag);
        unsigned peers = peers_of(__ballot_sync(ALL, inside), digit), lower = peers & ((1U << lane) - 1);
        if (inside) turn.to[next[digit] + __popc(lower)] = tag;
        __syncwarp(); /* all have read next */
        if (inside && !lower) next[digit] += __popc(peers);
        __syncwarp();
    }
}

__global__ void __launch_bounds__(DIGITS) move_tags(ls_cuda_embedding e, sort_turn turn) {
    __shared__ unsigned next[WARPS][DIGITS];
    const int warp = threadIdx.x / LANES;
    for (int w = 0; w < WARPS; w++) next[w][threadIdx.x] = 0;
    unsigned place = first_place(turn.counts);
    __syncthreads();
    int64_t begin = begin_of(turn), end = count_part(e, turn, begin, next[warp]);
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        unsigned count = next[w][threadIdx.x];
        next[w][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
    move_part(e, turn, begin, end, next[warp]);
}

/* The gradient of one row, in the column of the lane: the tags of the row are those from first on. */
template <typename T>
__device__ inline float row_sum(const ls_cuda_embedding &e, const uint64_t *tags, int64_t first, int64_t column) {
    const T *rows = static_cast<const T *>(e.rows) + (column < e.width ? column : 0);
    const uint64_t row = tags[first] >> 32;
    const int lane = threadIdx.x % LANES;
    float sum = e.adds && column < e.width ? static_cast<float *>(e.table)[(int64_t)row * e.width + column] : 0;
    for (int count = LANES; count == LANES; first += LANES) {
        uint64_t tag = first + lane < e.count ? tags[first + lane] : ~(uint64_t)0;
        count = __popc(__ballot_sync(ALL, tag >> 32 == row));
        AHEAD
        for (int k = 0; k < count; k++) sum += ls_load<T>(rows[__shfl_sync(ALL, (unsigned)tag, k) * e.width]);
    }
    return sum;
}

/* A warp for each tag and each LANES columns; those of a row's first tags have work. */
template <typename T> __global__ void __launch_bounds__(DIGITS) add_rows(ls_cuda_embedding e, const uint64_t *tags) {
    int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANES;
    if (first >= e.count) return;
    int64_t row = (int64_t)(tags[first] >> 32);
    if (row == last_row(e) || (first && (int64_t)(tags[first - 1] >> 32) == row)) return;
    for (int64_t group = blockIdx.y; group * LANES < e.width; group += gridDim.y) {
        int64_t column = group * LANES + threadIdx.x % LANES;
        float sum = row_sum<T>(e, tags, first, column);
        if (column < e.width) static_cast<float *>(e.table)[row * e.width + column] = sum;
    }
}

template <typename T> cudaError_t launch_take(const ls_cuda_embedding &e, cudaStream_t stream) {
    auto *kernel = take_rows<T>;
    return LS_LAUNCH(kernel, ls_blocks(e.count * e.width), LS_THREADS, stream, e);
}

/* Blocks of the sort: enough for 16 tags a thread, and at most so many that each can go through all counts. */
int64_t sort_blocks(int64_t count) {
    int64_t blocks = (count + 16 * DIGITS - 1) / (16 * DIGITS);
    return blocks < 512 ? blocks : 512;
}

/* *sorted: the tags, in one of the two halves of the workspace. The counts lie behind them. */
cudaError_t sort_tags(const ls_cuda_embedding &e, const uint64_t **sorted, cudaStream_t stream) {
    uint64_t *halves[2] = {static_cast<uint64_t *>(e.workspace), static_cast<uint64_t *>(e.workspace) + e.count};
    int64_t blocks = sort_blocks(e.count), parts = blocks * WARPS * LANES;
    sort_turn turn = {nullptr, halves[0], reinterpret_cast<unsigned *>(halves[1] + e.count), 0, 32};
    turn.share = (e.count + parts - 1) / parts * LANES;
    for (int turns = 0; turns == 0 || (turn.shift < 64 && e.limit >> (turn.shift - 32)); turns++) {
        cudaError_t error = LS_LAUNCH_SYNC(count_digits, (unsigned)blocks, DIGITS, 0, stream, e, turn);
        if (!error) error = LS_LAUNCH_SYNC(move_tags, (unsigned)blocks, DIGITS, 0, stream, e, turn);
        if (error) return error;
        *sorted = turn.from = turn.to;
        turn.to = halves[(turns + 1) % 2];
        turn.shift += BITS;
    }
    return cudaSuccess;
}

template <typename T> cudaError_t launch_add(const ls_cuda_embedding &e, const uint64_t *tags, cudaStream_t stream) {
    auto *kernel = add_rows<T>;
    int64_t groups = (e.width + LANES - 1) / LANES;
    dim3 grid((unsigned)((e.count + WARPS - 1) / WARPS), (unsigned)(groups < 65535 ? groups : 65535));
    return LS_LAUNCH_SYNC(kernel, grid, DIGITS, 0, stream, e, tags);
}

} // namespace

cudaError_t ls_cuda_embedding_forward(const struct ls_cuda_embedding *embedding, cudaStream_t stream) {
    LS_WITH_TYPE(embedding->dtype, return launch_take<T>(*embedding, stream));
}

size_t ls_cuda_embedding_workspace(int64_t count) {
    return 2 * (size_t)count * sizeof(uint64_t) + (size_t)sort_blocks(count) * DIGITS * sizeof(unsigned);
}

/* The whole gradient is read later, so all of it is zeroed unless something is there. */
cudaError_t ls_cuda_embedding_backward(const struct ls_cuda_embedding *embedding, cudaStream_t stream) {
    const uint64_t *tags = nullptr;
    size_t size = (size_t)(embedding->limit * embedding->width) * sizeof(float);
    cudaError_t error = embedding->adds ? cudaSuccess : cudaMemsetAsync(embedding->table, 0, size, stream);
    if (!error) error = sort_tags(*embedding, &tags, stream);
    if (error) return error;
    LS_WITH_TYPE(embedding->dtype, error = launch_add<T>(*embedding, tags, stream));
    return error;
}
