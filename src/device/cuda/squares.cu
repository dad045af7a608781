/* Images whose squares of 2 x 2 places become one place of four times the channels, and kernels for them. Each image is
 * read once and written once: a thread writes 16 bytes, which it reads in words of 4 bytes where the lines of the image
 * allow it. Numbers are moved as they are, so 16-bit types are one. */
#include "device/cuda/kernel.h"
#include "device/cuda/kernels_products.h"
#include "device/cuda/pack.cuh"

namespace {

constexpr int WORDS = 4; /* a thread's */

/* The 4 bytes at an element of a line, zeros where it ends: an element of 32 bits, or two of 16 bits, which EVEN lines
 * have at even addresses. */
template <bool EVEN> __device__ inline uint32_t word_at(const uint32_t *line, int at, int width) {
    return at >= 0 && at < width ? line[at] : 0;
}

template <bool EVEN> __device__ inline uint32_t word_at(const uint16_t *line, int at, int width) {
    if (EVEN) return at >= 0 && at < width ? *reinterpret_cast<const uint32_t *>(line + at) : 0;
    const uint32_t low = at >= 0 && at < width ? line[at] : 0, high = at + 1 >= 0 && at + 1 < width ? line[at + 1] : 0;
    return low | high << 16;
}

/* A block writes a line of squares, blockIdx.x over all lines of all images. The elements of a square that lie in one
 * line of the image are neighbours. */
template <typename T, bool EVEN>
__global__ void __launch_bounds__(LS_THREADS)
    square_images(ls_pack<uint32_t, WORDS> *to, const T *from, ls_cuda_squares s) {
    constexpr int EACH = sizeof(uint32_t) / sizeof(T); /* elements of a word */
    const int packs = (int)s.pitch / (EACH * WORDS), across = 2 * (int)s.channels;
    const int count = (int)s.squares[1] * packs, width = (int)(s.image[1] * s.channels);
    const unsigned line = blockIdx.x % (unsigned)s.squares[0];
    const int64_t row = blockIdx.x / (unsigned)s.squares[0];
    const int top = 2 * (int)line - (int)s.before[0], left = (int)(s.before[1] * s.channels);
    for (int i = threadIdx.x; i < count; i += LS_THREADS) {
        const int square = i / packs, first = i % packs * EACH * WORDS;
        ls_pack<uint32_t, WORDS> made;
        for (int k = 0; k < WORDS; k++) {
            const int element = first + k * EACH; /* of the square; a word is of one line, for across is even */
            const int lower = element >= across, h = top + lower;
            const bool there = element < 2 * across && h >= 0 && h < s.image[0];
            const T *start = from + (row * s.image[0] + (there ? h : 0)) * width;
            made.values[k] = there ? word_at<EVEN>(start, square * across - left + element - lower * across, width) : 0;
        }
        to[(int64_t)blockIdx.x * count + i] = made;
    }
}

template <typename T> cudaError_t images_as(const ls_cuda_squares *s, void *to, const void *from, cudaStream_t stream) {
    constexpr bool ALWAYS = sizeof(T) == sizeof(uint32_t);
    const bool even = s->image[1] * s->channels % 2 == 0 && s->before[1] * s->channels % 2 == 0 &&
                      reinterpret_cast<uintptr_t>(from) % sizeof(uint32_t) == 0;
    auto kernel = even ? square_images<T, true> : square_images<T, ALWAYS>;
    return LS_LAUNCH(kernel, dim3((unsigned)(s->rows * s->squares[0])), dim3(LS_THREADS), stream,
                     static_cast<ls_pack<uint32_t, WORDS> *>(to), static_cast<const T *>(from), *s);
}

/* A thread an element of the filter over squares. */
template <typename T> __global__ void square_filter(T *to, const T *from, ls_cuda_squares s, int64_t count) {
    for (int64_t i = ls_thread(); i < count; i += ls_all_threads()) {
        const int64_t place = i % s.pitch / s.channels, tap = i / s.pitch; /* place: of the square */
        const int64_t h = 2 * (tap / s.taps[1] % s.taps[0]) + place / 2, w = 2 * (tap % s.taps[1]) + place % 2;
        const bool there = place < 4 && h < s.kernel[0] && w < s.kernel[1];
        const int64_t element = (h * s.kernel[1] + w) * s.channels + i % s.pitch % s.channels;
        to[i] = there ? from[element * s.filters + tap / (s.taps[0] * s.taps[1])] : ls_store<T>(0.0f);
    }
}

/* A thread an element of the kernel. */
template <typename T> __global__ void unsquare_filter(float *to, const T *from, ls_cuda_squares s, int64_t count) {
    for (int64_t i = ls_thread(); i < count; i += ls_all_threads()) {
        const int64_t filter = i % s.filters, element = i / s.filters, at = element / s.channels;
        const int64_t h = at / s.kernel[1], w = at % s.kernel[1];
        const int64_t tap = (filter * s.taps[0] + h / 2) * s.taps[1] + w / 2, place = h % 2 * 2 + w % 2;
        to[i] = ls_load(from[tap * s.pitch + place * s.channels + element % s.channels]);
    }
}

template <typename T> cudaError_t filter_as(const ls_cuda_squares *s, void *to, const void *from, cudaStream_t stream) {
    const int64_t count = s->filters * s->taps[0] * s->taps[1] * s->pitch;
    return LS_LAUNCH(square_filter<T>, dim3(ls_blocks(count)), dim3(LS_THREADS), stream, static_cast<T *>(to),
                     static_cast<const T *>(from), *s, count);
}

template <typename T>
cudaError_t kernel_as(const ls_cuda_squares *s, float *to, const void *from, cudaStream_t stream) {
    const int64_t count = s->kernel[0] * s->kernel[1] * s->channels * s->filters;
    return LS_LAUNCH(unsquare_filter<T>, dim3(ls_blocks(count)), dim3(LS_THREADS), stream, to,
                     static_cast<const T *>(from), *s, count);
}

} // namespace

cudaError_t ls_cuda_square_images(const ls_cuda_squares *s, void *to, const void *images, ls_dtype dtype,
                                  cudaStream_t stream) {
    return dtype == LS_FLOAT32 ? images_as<uint32_t>(s, to, images, stream)
                               : images_as<uint16_t>(s, to, images, stream);
}

cudaError_t ls_cuda_square_filter(const ls_cuda_squares *s, void *to, const void *from, ls_dtype dtype,
                                  cudaStream_t stream) {
    LS_WITH_TYPE(dtype, return filter_as<T>(s, to, from, stream));
}

cudaError_t ls_cuda_unsquare_filter(const ls_cuda_squares *s, float *to, const void *from, ls_dtype dtype,
                                    cudaStream_t stream) {
    LS_WITH_TYPE(dtype, return kernel_as<T>(s, to, from, stream));
}
