/* Small dense layers in float32, where a launch costs more than the arithmetic: forward is one kernel, with bias and
 * ReLU, and backward is one kernel, with ReLU's mask, the bias' gradient and both products. A block makes a tile of a
 * product. Groups of its threads add parts of the depth, and their sums are added in order. So the order of adding
 * depends on the shape alone. */
#include "device/cuda/kernel.h"
#include "device/cuda/kernels_products.h"

namespace {

/* A group of threads makes TILE x TILE elements from DEPTH of the depth at once, EACH x EACH elements a thread. LINE:
 * of a part in shared memory, where the depth comes first. */
constexpr int TILE = 16, ELEMENTS = TILE * TILE, EACH = 2, SIDE = TILE / EACH, GROUP = SIDE * SIDE;
constexpr int DEPTH = 16, LOADS = TILE * DEPTH / GROUP, LINE = TILE + 2, PART = DEPTH * LINE, MOST_GROUPS = 16;

/* An element of a (TILE, DEPTH) part of a factor: which thread reads it. Along the depth where that lies side by side
 * in memory, else across it. */
struct place {
    int across, along;
};

template <bool ALONG> __device__ inline place place_of(int load) {
    int i = static_cast<int>(threadIdx.x) % GROUP + load * GROUP;
    return ALONG ? place{i / DEPTH, i % DEPTH} : place{i % TILE, i / TILE};
}

template <bool ALONG, typename F> __device__ inline void read_part(F f, int first, int depth, float (&values)[LOADS]) {
    for (int i = 0; i < LOADS; i++) {
        const place at = place_of<ALONG>(i);
        values[i] = first + at.along < depth ? f(at.across, first + at.along) : 0;
    }
}

template <bool ALONG> __device__ inline void keep_part(float *part, const float (&values)[LOADS]) {
    for (int i = 0; i < LOADS; i++) {
        const place at = place_of<ALONG>(i);
        part[at.along * LINE + at.across] = values[i];
    }
}

/* Adds the products of a part to the thread's elements. */
__device__ inline void multiply_part(const float *a, const float *b, float (&sums)[EACH][EACH]) {
    const int thread = static_cast<int>(threadIdx.x) % GROUP;
    a += thread / SIDE * EACH;
    b += thread % SIDE * EACH;
    for (int d = 0; d < DEPTH; d++) {
        const float2 x = *reinterpret_cast<const float2 *>(a + d * LINE);
        const float2 w = *reinterpret_cast<const float2 *>(b + d * LINE);
        sums[0][0] += x.x * w.x;
        sums[0][1] += x.x * w.y;
        sums[1][0] += x.y * w.x;
        sums[1][1] += x.y * w.y;
    }
}

/* write(row, column, the sum over the depth of a(row, d) b(column, d)), rows and columns counted from the tile's. The
 * next parts are on their way while these are multiplied. */
template <bool A_ALONG, bool B_ALONG, typename A, typename B, typename W>
__device__ void multiply_tile(int depth, A a, B b, W write) {
    LS_SHARED(float, shared);
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int group = thread / GROUP, groups = threads / GROUP;
    float *part_a = shared + group * 2 * PART, *part_b = part_a + PART;
    float next_a[LOADS], next_b[LOADS], sums[EACH][EACH] = {};
    read_part<A_ALONG>(a, group * DEPTH, depth, next_a);
    read_part<B_ALONG>(b, group * DEPTH, depth, next_b);
    for (int first = 0; first < depth; first += groups * DEPTH) {
        keep_part<A_ALONG>(part_a, next_a);
        keep_part<B_ALONG>(part_b, next_b);
        __syncthreads();
        read_part<A_ALONG>(a, first + (groups + group) * DEPTH, depth, next_a);
        read_part<B_ALONG>(b, first + (groups + group) * DEPTH, depth, next_b);
        multiply_part(part_a, part_b, sums);
        __syncthreads();
    }
    const int row = thread % GROUP / SIDE * EACH, column = thread % SIDE * EACH;
    for (int i = 0; i < EACH * EACH; i++)
        shared[group * ELEMENTS + (row + i / EACH) * TILE + column + i % EACH] = sums[i / EACH][i % EACH];
    __syncthreads();
    for (int i = thread; i < ELEMENTS; i += threads) {
        float sum = shared[i];
        for (int g = 1; g < groups; g++) sum += shared[g * ELEMENTS + i];
        write(i / TILE, i % TILE, sum);
    }
}

/* The first row and column of a tile. */
struct tile {
    int row, column;
};

__device__ inline tile tile_at(int number, int columns) {
    const int wide = (columns + TILE - 1) / TILE;
    return {number / wide * TILE, number % wide * TILE};
}

__global__ void __launch_bounds__(MOST_GROUPS *GROUP) small_forward(struct ls_cuda_small_dense s) {
    const tile t = tile_at(static_cast<int>(blockIdx.x), s.out);
    multiply_tile<true, false>(
        s.in, [&](int r, int d) { return t.row + r < s.rows ? s.x[(t.row + r) * s.in + d] : 0; },
        [&](int c, int d) { return t.column + c < s.out ? s.w[d * s.out + t.column + c] : 0; },
        [&](int r, int c, float value) {
            if (t.row + r >= s.rows || t.column + c >= s.out) return;
            if (s.b) value += s.b[t.column + c];
            s.y[(t.row + r) * s.out + t.column + c] = s.relu && value <= 0 ? 0 : value;
        });
}

__device__ inline float slope_at(const struct ls_cuda_small_dense &s, int row, int column) {
    if (row >= s.rows || column >= s.out) return 0;
    const int at = row * s.out + column;
    return !s.relu || s.y[at] > 0 ? s.dy[at] : 0;
}

/* A row of ones below the transposed inputs makes the bias' gradient the last row of the product. */
__device__ void add_weights(const struct ls_cuda_small_dense &s, int number) {
    const tile t = tile_at(number, s.out);
    multiply_tile<false, false>(
        s.rows, [&](int i, int r) { return t.row + i < s.in ? s.x[r * s.in + t.row + i] : 1; },
        [&](int c, int r) { return slope_at(s, r, t.column + c); },
        [&](int i, int c, float value) {
            if (t.row + i > s.in || t.column + c >= s.out) return;
            if (t.row + i < s.in)
                s.dw[(t.row + i) * s.out + t.column + c] = value;
            else if (s.db)
                s.db[t.column + c] = value;
        });
}

__device__ void add_inputs(const struct ls_cuda_small_dense &s, int number) {
    const tile t = tile_at(number, s.in);
    multiply_tile<true, true>(
        s.out, [&](int r, int d) { return slope_at(s, t.row + r, d); },
        [&](int i, int d) { return t.column + i < s.in ? s.w[(t.column + i) * s.out + d] : 0; },
        [&](int r, int i, float value) {
            if (t.row + r < s.rows && t.column + i < s.in) s.dx[(t.row + r) * s.in + t.column + i] = value;
        });
}

/* The tiles of weights come first. */
__global__ void __launch_bounds__(MOST_GROUPS *GROUP) small_backward(struct ls_cuda_small_dense s, int weights) {
    const int number = static_cast<int>(blockIdx.x);
    if (number < weights)
        add_weights(s, number);
    else
        add_inputs(s, number - weights);
}

int tiles(int rows, int columns) {
    return (rows + TILE - 1) / TILE * ((columns + TILE - 1) / TILE);
}

/* As many as have parts of the depth. */
int groups_of(int depth) {
    int parts = (depth + DEPTH - 1) / DEPTH;
    return parts < MOST_GROUPS ? parts : MOST_GROUPS;
}

size_t bytes_of(int groups) {
    return static_cast<size_t>(groups) * 2 * PART * sizeof(float); /* more than the elements */
}

} // namespace

cudaError_t ls_cuda_small_dense_forward(const struct ls_cuda_small_dense *s, cudaStream_t stream) {
    int groups = groups_of(s->in);
    return LS_LAUNCH_SYNC(small_forward, tiles(s->rows, s->out), groups * GROUP, bytes_of(groups), stream, *s);
}

cudaError_t ls_cuda_small_dense_backward(const struct ls_cuda_small_dense *s, cudaStream_t stream) {
    int weights = tiles(s->in + 1, s->out), inputs = s->dx ? tiles(s->rows, s->in) : 0;
    int groups = groups_of(s->dx && s->out > s->rows ? s->out : s->rows);
    return LS_LAUNCH_SYNC(small_backward, weights + inputs, groups * GROUP, bytes_of(groups), stream, *s, weights);
}
