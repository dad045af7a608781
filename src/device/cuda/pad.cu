/* Zeros around images, and images cut out of larger ones: a copy with a shift, each tensor once through memory. */
#include "device/cuda/image.cuh"
#include "device/cuda/kernels_image.h"

namespace {

template <typename T, int V>
__global__ void __launch_bounds__(LS_CUDA_THREADS) place_image(ls_cuda_place c, ls_cuda_lines lines) {
    const ls_line_place p = ls_place_of(lines);
    if (p.position >= lines.width) return;
    const int w = p.position - c.right;
    ls_each_line(lines, [&](int n, int line) {
        const int h = line - c.down;
        const bool there = h >= 0 && h < c.in[0] && w >= 0 && w < c.in[1];
        const int64_t from = (((int64_t)n * c.in[0] + h) * c.in[1] + w) * c.channels + p.channel;
        const int64_t to = (((int64_t)n * lines.height + line) * lines.width + p.position) * c.channels + p.channel;
        ls_pack<T, V> pack = there ? ls_read<T, V>(static_cast<const T *>(c.x) + from) : ls_zeros<T, V>();
        *reinterpret_cast<ls_pack<T, V> *>(static_cast<T *>(c.out) + to) = pack;
    });
}

typedef void place_kernel(ls_cuda_place c, ls_cuda_lines lines);

cudaError_t launch(place_kernel *vector, place_kernel *scalar, const ls_cuda_place *c, cudaStream_t stream) {
    const int64_t out[] = {c->images, c->out_size[0], c->out_size[1], c->channels};
    ls_cuda_lines lines = ls_cuda_lines_over(out, c->vector, 1);
    place_kernel *kernel = c->vector > 1 ? vector : scalar;
    return LS_LAUNCH(kernel, ls_grid_of(lines), ls_block_of(lines), stream, *c, lines);
}

} // namespace

cudaError_t ls_cuda_place_image(const struct ls_cuda_place *c, cudaStream_t stream) {
    LS_WITH_TYPE(c->dtype, return launch(place_image<T, ls_wide<T>>, place_image<T, 1>, c, stream));
}
