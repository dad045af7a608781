/* Launchers of the kernels that products and convolutions need beside the libraries: operations on the columns of a
 * matrix, and reorders of filters to cuDNN's layout and back. All queue on the stream and return. */
#pragma once
#include <cuda_runtime_api.h>

#include "device/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix by rows, packed. */
struct ls_cuda_columns {
    void *values;
    size_t rows, columns;
    ls_dtype dtype;
    cudaStream_t stream;
};
/* values = values + bias(columns); with relu a value of 0 or below becomes 0, and NaN stays NaN. */
cudaError_t ls_cuda_add_bias(const struct ls_cuda_columns *matrix, const float *bias, bool relu);
/* sums(columns) = the values' sums over the rows. With mask, of the same shape and type: first values = mask > 0 ?
 * values : 0. workspace: ls_cuda_sum_columns_workspace bytes. */
cudaError_t ls_cuda_sum_columns(const struct ls_cuda_columns *matrix, const void *mask, float *sums, void *workspace);
size_t ls_cuda_sum_columns_workspace(size_t rows, size_t columns);

/* A kernel (height, width, channels of a group, filters) in a window of taps (filters, height, width, channels of a
 * group): element h lies at offset + h step, and the taps between are 0. */
struct ls_cuda_filter {
    int64_t kernel[2], taps[2], offset[2], step[2];
    int64_t channels, filters;
};
cudaError_t ls_cuda_pack_filter(const struct ls_cuda_filter *filter, void *to, const void *from, ls_dtype dtype,
                                cudaStream_t stream);
/* Back, to float32. */
cudaError_t ls_cuda_unpack_filter(const struct ls_cuda_filter *filter, float *to, const void *from, ls_dtype dtype,
                                  cudaStream_t stream);

/* A window over images (rows, image..., pitch) that yields out positions, and sees the first channels of each place in
 * them. The elements that it sees form a matrix by rows: (rows, out...) by (kernel..., channels), as a kernel for them
 * has them. */
struct ls_cuda_gathered_windows {
    int64_t rows, channels, pitch, image[2], out[2];
    int64_t kernel[2], strides[2], dilation[2], before[2];
};
cudaError_t ls_cuda_gather_windows(const struct ls_cuda_gathered_windows *g, void *windows, const void *images,
                                   ls_dtype dtype, cudaStream_t stream);
/* images = for each place the sum of the windows' elements there. */
cudaError_t ls_cuda_scatter_windows(const struct ls_cuda_gathered_windows *g, void *images, const void *windows,
                                    ls_dtype dtype, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
