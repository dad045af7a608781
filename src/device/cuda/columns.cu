/* Bias, ReLU's mask and the sums of columns: each number of the matrix is read once, and written once where it changes,
 * 16 bytes at a time where its place allows it. Which numbers a thread takes, and so the order of adding, depends on
 * the shape alone. */
#include "device/cuda/kernels_products.h"
#include "device/cuda/pack.cuh"

namespace {

constexpr unsigned THREADS = LS_THREADS, WARP = 32;
constexpr size_t MOST_BLOCKS = 1024; /* about eight a multiprocessor */
constexpr size_t ROWS_A_THREAD = 4;  /* at least, where there are as many */

/* lanes threads side by side take N columns each; THREADS / lanes rows are below each other in a block. */
struct division {
    unsigned lanes;
    dim3 blocks;
    size_t rows; /* of a block */
};

size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t parts_of(size_t whole, size_t part) {
    return (whole + part - 1) / part;
}

division divide(size_t rows, size_t columns, size_t wide) {
    division made;
    size_t packs = parts_of(columns, wide);
    made.lanes = 1;
    while (made.lanes < WARP && made.lanes < packs) made.lanes *= 2;
    size_t tiles = parts_of(packs, made.lanes), height = THREADS / made.lanes;
    size_t most = tiles < MOST_BLOCKS ? MOST_BLOCKS / tiles : 1;
    size_t blocks = least(parts_of(rows, height * ROWS_A_THREAD), most);
    made.rows = parts_of(rows, blocks);
    made.blocks = dim3((unsigned)tiles, (unsigned)parts_of(rows, made.rows));
    return made;
}

/* N numbers at a place; whole: in one access. */
template <typename T, int N, bool WHOLE> __device__ inline void read_some(float *values, const T *from) {
    if (WHOLE) {
        ls_read_pack<T, N>(from, values);
    } else {
        for (int i = 0; i < N; i++) values[i] = ls_load(from[i]);
    }
}

template <typename T, int N, bool WHOLE> __device__ inline void write_some(T *to, const float *values) {
    if (WHOLE) {
        ls_write<T, N>(to, values);
    } else {
        for (int i = 0; i < N; i++) to[i] = ls_store<T>(values[i]);
    }
}

template <typename T, int N, bool WHOLE>
__global__ void add_bias(T *y, const float *bias, size_t rows, size_t columns, unsigned lanes, size_t part, bool relu) {
    unsigned lane = threadIdx.x % lanes, row = threadIdx.x / lanes, height = THREADS / lanes;
    size_t column = ((size_t)blockIdx.x * lanes + lane) * N, first = blockIdx.y * part;
    size_t end = first + part < rows ? first + part : rows;
    float added[N], values[N];
    if (column >= columns) return;
    for (int i = 0; i < N; i++) added[i] = bias[column + i];
    for (size_t r = first + row; r < end; r += height) {
        T *place = y + r * columns + column;
        read_some<T, N, WHOLE>(values, place);
        for (int i = 0; i < N; i++) {
            float value = values[i] + added[i];
            values[i] = relu && value <= 0 ? 0 : value;
        }
        write_some<T, N, WHOLE>(place, values);
    }
}

/* One row of sums a block: over the rows of a thread in order, then over the threads of a column by halves. */
template <typename T, int N, bool WHOLE>
__global__ void sum_columns(T *x, const T *mask, float *sums, size_t rows, size_t columns, unsigned lanes, size_t part,
                            bool adds) {
    LS_SHARED(float, kept); /* THREADS x N */
    unsigned lane = threadIdx.x % lanes, row = threadIdx.x / lanes, height = THREADS / lanes;
    size_t column = ((size_t)blockIdx.x * lanes + lane) * N, first = blockIdx.y * part;
    size_t end = first + part < rows ? first + part : rows;
    float sum[N] = {}, values[N], masks[N];
    for (size_t r = first + row; column < columns && r < end; r += height) {
        T *place = x + r * columns + column;
        read_some<T, N, WHOLE>(values, place);
        if (mask) {
            read_some<T, N, WHOLE>(masks, mask + r * columns + column);
            for (int i = 0; i < N; i++) values[i] = masks[i] > 0 ? values[i] : 0;
            write_some<T, N, WHOLE>(place, values);
        }
        for (int i = 0; i < N; i++) sum[i] += values[i];
    }
    for (int i = 0; i < N; i++) kept[threadIdx.x * N + i] = sum[i];
    for (unsigned half = height / 2; half; half /= 2) {
        __syncthreads();
        for (int i = 0; row < half && i < N; i++)
            kept[threadIdx.x * N + i] += kept[(threadIdx.x + half * lanes) * N + i];
    }
    for (int i = 0; !row && column < columns && i < N; i++) {
        float *to = sums + blockIdx.y * columns + column + i;
        *to = (adds ? *to : 0) + kept[lane * N + i];
    }
}

template <typename T, int N, bool WHOLE>
cudaError_t launch_bias(const ls_cuda_columns *matrix, const float *bias, bool relu) {
    division d = divide(matrix->rows, matrix->columns, N);
    auto kernel = add_bias<T, N, WHOLE>;
    return LS_LAUNCH(kernel, d.blocks, dim3(THREADS), matrix->stream, static_cast<T *>(matrix->values), bias,
                     matrix->rows, matrix->columns, d.lanes, d.rows, relu);
}

template <typename T> cudaError_t bias_as(const ls_cuda_columns *matrix, const float *bias, bool relu) {
    constexpr int N = ls_wide<T>;
    if (matrix->columns % N) return launch_bias<T, 1, false>(matrix, bias, relu);
    if (ls_is_aligned(matrix->values)) return launch_bias<T, N, true>(matrix, bias, relu);
    return launch_bias<T, N, false>(matrix, bias, relu);
}

/* Adds to as many rows of sums as there are blocks along the rows: *left. */
template <typename T, int N, bool WHOLE>
cudaError_t launch_sums(const ls_cuda_columns *matrix, const void *mask, float *sums, const division &d) {
    auto kernel = sum_columns<T, N, WHOLE>;
    return LS_LAUNCH_SYNC(kernel, d.blocks, dim3(THREADS), THREADS * N * sizeof(float), matrix->stream,
                          static_cast<T *>(matrix->values), static_cast<const T *>(mask), sums, matrix->rows,
                          matrix->columns, d.lanes, d.rows, matrix->adds);
}

/* Sums of blocks, and again of these until one row is left. */
template <typename T>
cudaError_t sums_as(const ls_cuda_columns *matrix, const void *mask, float *sums, float *workspace) {
    constexpr int N = ls_wide<T>;
    bool odd = matrix->columns % N != 0, whole = ls_is_aligned(matrix->values) && (!mask || ls_is_aligned(mask));
    division d = divide(matrix->rows, matrix->columns, odd ? 1 : N);
    bool last = d.blocks.y == 1;
    float *to = last ? sums : workspace;
    ls_cuda_columns first = *matrix;
    first.adds = last && matrix->adds;
    cudaError_t error = odd     ? launch_sums<T, 1, false>(&first, mask, to, d)
                        : whole ? launch_sums<T, N, true>(&first, mask, to, d)
                                : launch_sums<T, N, false>(&first, mask, to, d);
    if (error != cudaSuccess || last) return error;
    ls_cuda_columns rest = {workspace, d.blocks.y, matrix->columns, LS_FLOAT32, matrix->stream, matrix->adds};
    division all = divide(rest.rows, rest.columns, 1);
    all.blocks.y = 1;
    all.rows = rest.rows;
    return launch_sums<float, 1, false>(&rest, nullptr, sums, all);
}

} // namespace

cudaError_t ls_cuda_add_bias(const ls_cuda_columns *matrix, const float *bias, bool relu) {
    LS_WITH_TYPE(matrix->dtype, return bias_as<T>(matrix, bias, relu));
}

size_t ls_cuda_sum_columns_workspace(size_t rows, size_t columns) {
    return least(parts_of(rows, THREADS / WARP * ROWS_A_THREAD), MOST_BLOCKS) * columns * sizeof(float);
}

cudaError_t ls_cuda_sum_columns(const ls_cuda_columns *matrix, const void *mask, float *sums, void *workspace) {
    LS_WITH_TYPE(matrix->dtype, return sums_as<T>(matrix, mask, sums, static_cast<float *>(workspace)));
}
