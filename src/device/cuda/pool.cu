/* Pools. A thread has neighbouring channels of one position: of y forward; of dx backward, where it looks at the
 * windows that meet it, in their order. Of several equal maxima the first, line by line, gets the gradient. One window
 * over the whole image is added, or searched, by all threads of a block together. */
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"

namespace {

/* The part of a window that lies in the image, along an axis: every step-th place of [begin, end). */
struct part {
    int begin, end, step;
};

__device__ inline part part_of(const ls_cuda_windows &w, int axis, int position) {
    int begin = position * w.strides[axis] - w.before[axis], step = w.dilation[axis];
    int end = begin + w.kernel[axis] * step;
    if (begin < 0) begin += (-begin + step - 1) / step * step;
    return {begin, end < w.image[axis] ? end : w.image[axis], step};
}

__device__ inline int count_of(const part &p) {
    return p.end > p.begin ? (p.end - p.begin + p.step - 1) / p.step : 0;
}

__device__ inline int64_t place_in(const int (&size)[2], int channels, int n, int h, int w) {
    return (((int64_t)n * size[0] + h) * size[1] + w) * channels;
}

/* The larger one; NaN stays. */
__device__ inline float larger(float held, float value) {
    return value > held || value != value ? value : held;
}

template <int V> __device__ inline void average(float (&y)[V], int count) {
    float share = 1 / (float)count;
    for (int v = 0; v < V; v++) y[v] *= share;
}

/* ---- forward ---- */

template <typename T, int V>
__global__ void __launch_bounds__(LS_CUDA_THREADS) pool_y(ls_cuda_pool pool, ls_cuda_lines lines) {
    const ls_line_place p = ls_place_of(lines);
    if (p.position >= lines.width) return;
    const ls_cuda_windows &at = pool.at;
    const part columns = part_of(at, 1, p.position);
    ls_each_line(lines, [&](int n, int h) {
        const part rows = part_of(at, 0, h);
        float y[V] = {};
        bool first = true;
        for (int i = rows.begin; i < rows.end; i += rows.step)
            for (int j = columns.begin; j < columns.end; j += columns.step, first = false) {
                int64_t from = place_in(at.image, at.channels, n, i, j) + p.channel;
                ls_pack<T, V> x = ls_read<T, V>(static_cast<const T *>(pool.x) + from);
                for (int v = 0; v < V; v++) {
                    float value = ls_element(x, v);
                    y[v] = first ? value : pool.maximum ? larger(y[v], value) : y[v] + value;
                }
            }
        if (!pool.maximum && !first) average<V>(y, count_of(rows) * count_of(columns));
        ls_write<T, V>(static_cast<T *>(pool.out) + place_in(at.out, at.channels, n, h, p.position) + p.channel, y);
    });
}

/* The greatest of the values of the threads with the same threadIdx.x, for those with threadIdx.y 0. */
template <int V> __device__ inline void block_greatest(float (&values)[V], float *shared) {
    int threads = (int)(blockDim.x * blockDim.y), own = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    for (int v = 0; v < V; v++) shared[v * threads + own] = values[v];
    __syncthreads();
    if (threadIdx.y) return;
    for (int y = 1; y < (int)blockDim.y; y++)
        for (int v = 0; v < V; v++) values[v] = larger(values[v], shared[v * threads + own + y * (int)blockDim.x]);
}

/* One window an image: threads are (channels, positions), blockIdx.y is the image. rows: of the positions. */
template <typename T, int V>
__global__ void __launch_bounds__(LS_CUDA_THREADS) pool_image(ls_cuda_pool pool, ls_cuda_rows rows) {
    LS_SHARED(float, shared);
    const int64_t channel = (int64_t)(blockIdx.x * blockDim.x + threadIdx.x) * V;
    const bool inside = channel < rows.channels;
    float y[V];
    for (int v = 0; v < V; v++) y[v] = pool.maximum ? -INFINITY : 0;
    const T *x = static_cast<const T *>(pool.x) + blockIdx.y * rows.rows * rows.channels + channel;
    LS_AHEAD
    for (int64_t r = threadIdx.y; inside && r < rows.rows; r += blockDim.y) {
        ls_pack<T, V> pack = ls_read<T, V>(x + r * rows.channels);
        for (int v = 0; v < V; v++)
            y[v] = pool.maximum ? larger(y[v], ls_element(pack, v)) : y[v] + ls_element(pack, v);
    }
    if (pool.maximum)
        block_greatest<V>(y, shared);
    else
        ls_block_add<V>(y, shared);
    if (!inside || threadIdx.y) return;
    if (!pool.maximum) average<V>(y, (int)rows.rows);
    ls_write<T, V>(static_cast<T *>(pool.out) + blockIdx.y * rows.channels + channel, y);
}

/* ---- backward ---- */

/* The positions whose windows meet a place of the image, along an axis: [begin, end), where tap_of is not negative. */
struct positions {
    int begin, end;
};

__device__ inline positions positions_at(const ls_cuda_windows &w, int axis, int at) {
    int last = at + w.before[axis], first = last - (w.kernel[axis] - 1) * w.dilation[axis], stride = w.strides[axis];
    int begin = first > 0 ? (first + stride - 1) / stride : 0, end = last / stride + 1;
    return {begin, end < w.out[axis] ? end : w.out[axis]};
}

__device__ inline bool meets(const ls_cuda_windows &w, int axis, int position, int at) {
    return (at + w.before[axis] - position * w.strides[axis]) % w.dilation[axis] == 0;
}

/* Which channels of the window have their first maximum at (h, w): those of `mine` that no earlier element equals. */
template <typename T, int V>
__device__ inline void keep_first(const ls_cuda_pool &pool, const part (&window)[2], int64_t image, int h, int w,
                                  const ls_pack<T, V> &y, bool (&mine)[V]) {
    bool any = false;
    for (int v = 0; v < V; v++) any |= mine[v];
    for (int i = window[0].begin; any && i <= h; i += window[0].step)
        for (int j = window[1].begin; j < window[1].end && (i < h || j < w); j += window[1].step) {
            int64_t at = image + ((int64_t)i * pool.at.image[1] + j) * pool.at.channels;
            ls_pack<T, V> x = ls_read<T, V>(static_cast<const T *>(pool.x) + at);
            for (int v = 0; v < V; v++) mine[v] &= ls_element(x, v) != ls_element(y, v);
        }
}

/* Adds the gradient that the window at (i, j) gives to the place (h, w) of the image. */
template <typename T, int V>
__device__ inline void add_window(const ls_cuda_pool &pool, int n, int i, int j, int h, int w, int channel,
                                  float (&dx)[V]) {
    const ls_cuda_windows &at = pool.at;
    const part window[2] = {part_of(at, 0, i), part_of(at, 1, j)};
    const int64_t from = place_in(at.out, at.channels, n, i, j) + channel;
    const ls_pack<T, V> dy = ls_read<T, V>(static_cast<const T *>(pool.dy) + from);
    if (!pool.maximum) {
        float share = 1 / (float)(count_of(window[0]) * count_of(window[1]));
        for (int v = 0; v < V; v++) dx[v] += ls_element(dy, v) * share;
        return;
    }
    const int64_t image = place_in(at.image, at.channels, n, 0, 0) + channel;
    const ls_pack<T, V> y = ls_read<T, V>(static_cast<const T *>(pool.y) + from);
    const ls_pack<T, V> x =
        ls_read<T, V>(static_cast<const T *>(pool.x) + image + ((int64_t)h * at.image[1] + w) * at.channels);
    bool mine[V];
    for (int v = 0; v < V; v++) mine[v] = ls_element(x, v) == ls_element(y, v);
    keep_first<T, V>(pool, window, image, h, w, y, mine);
    for (int v = 0; v < V; v++) dx[v] += mine[v] ? ls_element(dy, v) : 0;
}

template <typename T, int V>
__global__ void __launch_bounds__(LS_CUDA_THREADS) pool_dx(ls_cuda_pool pool, ls_cuda_lines lines) {
    const ls_line_place p = ls_place_of(lines);
    if (p.position >= lines.width) return;
    const ls_cuda_windows &at = pool.at;
    const positions columns = positions_at(at, 1, p.position);
    ls_each_line(lines, [&](int n, int h) {
        const positions rows = positions_at(at, 0, h);
        float dx[V] = {};
        for (int i = rows.begin; i < rows.end; i++)
            for (int j = columns.begin; meets(at, 0, i, h) && j < columns.end; j++)
                if (meets(at, 1, j, p.position)) add_window<T, V>(pool, n, i, j, h, p.position, p.channel, dx);
        ls_write<T, V>(static_cast<T *>(pool.out) + place_in(at.image, at.channels, n, h, p.position) + p.channel, dx);
    });
}

/* ---- launching ---- */

typedef void pool_kernel(ls_cuda_pool pool, ls_cuda_lines lines);

cudaError_t launch(pool_kernel *kernel, const ls_cuda_pool *pool, const int (&size)[2], cudaStream_t stream) {
    const int64_t image[] = {pool->at.images, size[0], size[1], pool->at.channels};
    ls_cuda_lines lines = ls_cuda_lines_over(image, pool->vector, 1);
    return LS_LAUNCH(kernel, ls_grid_of(lines), ls_block_of(lines), stream, *pool, lines);
}

/* Does the one window see the whole image, and nothing twice? */
bool is_whole(const ls_cuda_pool *pool) {
    const ls_cuda_windows &w = pool->at;
    bool whole = w.images <= LS_CUDA_GRID;
    for (int i = 0; i < 2; i++)
        whole &= w.out[i] == 1 && !w.before[i] && w.dilation[i] == 1 && w.kernel[i] >= w.image[i];
    return whole;
}

template <typename T> cudaError_t launch_image(const ls_cuda_pool *pool, cudaStream_t stream) {
    int64_t positions = (int64_t)pool->at.image[0] * pool->at.image[1];
    ls_cuda_rows rows = ls_cuda_rows_over(positions, pool->at.channels, pool->vector, {1, 1});
    while (rows.lines > 1 && rows.lines > positions) rows.lines /= 2;
    dim3 grid((unsigned)rows.across, (unsigned)pool->at.images);
    size_t bytes = sizeof(float) * (size_t)(pool->vector * rows.columns * rows.lines);
    auto *kernel = pool->vector > 1 ? pool_image<T, ls_wide<T>> : pool_image<T, 1>;
    return LS_LAUNCH_SYNC(kernel, grid, ls_block_of(rows), bytes, stream, *pool, rows);
}

template <typename T> cudaError_t launch_y(const ls_cuda_pool *pool, cudaStream_t stream) {
    if (is_whole(pool)) return launch_image<T>(pool, stream);
    return launch(pool->vector > 1 ? pool_y<T, ls_wide<T>> : pool_y<T, 1>, pool, pool->at.out, stream);
}

template <typename T> cudaError_t launch_dx(const ls_cuda_pool *pool, cudaStream_t stream) {
    return launch(pool->vector > 1 ? pool_dx<T, ls_wide<T>> : pool_dx<T, 1>, pool, pool->at.image, stream);
}

} // namespace

cudaError_t ls_cuda_pool_y(const struct ls_cuda_pool *pool, cudaStream_t stream) {
    LS_WITH_TYPE(pool->dtype, return launch_y<T>(pool, stream));
}

cudaError_t ls_cuda_pool_dx(const struct ls_cuda_pool *pool, cudaStream_t stream) {
    LS_WITH_TYPE(pool->dtype, return launch_dx<T>(pool, stream));
}
