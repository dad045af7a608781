/* Filters between the library's layout (height, width, channels, filters) and cuDNN's for images by channels (filters,
 * height, width, channels): a matrix is transposed for each tap, in tiles through shared memory, so that reading and
 * writing are both of neighbours. */
#include "device/cuda/kernel.h"
#include "device/cuda/kernels_products.h"

namespace {

constexpr unsigned SIDE = 32, ROWS = 8; /* a tile, and how many of its rows a block takes at a time */

/* The element of the kernel that lies at a tap, along an axis; -1 if there is none. */
__device__ inline int64_t element_at(const ls_cuda_filter &f, int axis, int64_t tap) {
    int64_t from = tap - f.offset[axis];
    if (from < 0 || from % f.step[axis] || from / f.step[axis] >= f.kernel[axis]) return -1;
    return from / f.step[axis];
}

/* Reading goes along filters and writing along channels, both by threadIdx.x: neighbouring threads have neighbouring
 * addresses in both. The tile in shared memory turns one into the other. Taps that no element of the kernel meets (a
 * dilated kernel, or a padded one) are zeros. */
template <typename T> __global__ void pack(T *to, const T *from, ls_cuda_filter f) {
    LS_SHARED(T, tile); /* SIDE x (SIDE + 1): the columns lie in different banks */
    int64_t tap = blockIdx.z, taps = f.taps[0] * f.taps[1];
    int64_t h = element_at(f, 0, tap / f.taps[1]), w = element_at(f, 1, tap % f.taps[1]);
    int64_t filter = (int64_t)blockIdx.x * SIDE + threadIdx.x, top = (int64_t)blockIdx.y * SIDE;
    bool there = h >= 0 && w >= 0;
    const T *plane = there ? from + (h * f.kernel[1] + w) * f.channels * f.filters : from;
    for (unsigned row = threadIdx.y; row < SIDE; row += ROWS) {
        bool in = there && filter < f.filters && top + row < f.channels;
        tile[row * (SIDE + 1) + threadIdx.x] = in ? plane[(top + row) * f.filters + filter] : ls_store<T>(0.0f);
    }
    __syncthreads();
    int64_t channel = top + threadIdx.x, left = (int64_t)blockIdx.x * SIDE;
    for (unsigned row = threadIdx.y; row < SIDE; row += ROWS)
        if (channel < f.channels && left + row < f.filters)
            to[((left + row) * taps + tap) * f.channels + channel] = tile[threadIdx.x * (SIDE + 1) + row];
}

template <typename T> __global__ void unpack(float *to, const T *from, ls_cuda_filter f) {
    LS_SHARED(float, tile); /* as in pack */
    int64_t h = blockIdx.z / f.kernel[1], w = blockIdx.z % f.kernel[1], taps = f.taps[0] * f.taps[1];
    int64_t tap = (f.offset[0] + h * f.step[0]) * f.taps[1] + f.offset[1] + w * f.step[1];
    int64_t channel = (int64_t)blockIdx.y * SIDE + threadIdx.x, left = (int64_t)blockIdx.x * SIDE;
    for (unsigned row = threadIdx.y; row < SIDE; row += ROWS) {
        bool in = channel < f.channels && left + row < f.filters;
        tile[row * (SIDE + 1) + threadIdx.x] =
            in ? ls_load(from[((left + row) * taps + tap) * f.channels + channel]) : 0.0f;
    }
    __syncthreads();
    int64_t filter = left + threadIdx.x, top = (int64_t)blockIdx.y * SIDE;
    float *plane = to + (h * f.kernel[1] + w) * f.channels * f.filters;
    for (unsigned row = threadIdx.y; row < SIDE; row += ROWS)
        if (filter < f.filters && top + row < f.channels)
            plane[(top + row) * f.filters + filter] = tile[threadIdx.x * (SIDE + 1) + row];
}

dim3 tiles(const ls_cuda_filter *f, int64_t planes) {
    return dim3((unsigned)((f->filters + SIDE - 1) / SIDE), (unsigned)((f->channels + SIDE - 1) / SIDE),
                (unsigned)planes);
}

template <typename T> cudaError_t pack_as(const ls_cuda_filter *f, void *to, const void *from, cudaStream_t stream) {
    return LS_LAUNCH_SYNC(pack<T>, tiles(f, f->taps[0] * f->taps[1]), dim3(SIDE, ROWS), SIDE * (SIDE + 1) * sizeof(T),
                          stream, static_cast<T *>(to), static_cast<const T *>(from), *f);
}

template <typename T> cudaError_t unpack_as(const ls_cuda_filter *f, float *to, const void *from, cudaStream_t stream) {
    return LS_LAUNCH_SYNC(unpack<T>, tiles(f, f->kernel[0] * f->kernel[1]), dim3(SIDE, ROWS),
                          SIDE * (SIDE + 1) * sizeof(float), stream, to, static_cast<const T *>(from), *f);
}

} // namespace

cudaError_t ls_cuda_pack_filter(const ls_cuda_filter *filter, void *to, const void *from, ls_dtype dtype,
                                cudaStream_t stream) {
    LS_WITH_TYPE(dtype, return pack_as<T>(filter, to, from, stream));
}

cudaError_t ls_cuda_unpack_filter(const ls_cuda_filter *filter, float *to, const void *from, ls_dtype dtype,
                                  cudaStream_t stream) {
    LS_WITH_TYPE(dtype, return unpack_as<T>(filter, to, from, stream));
}
