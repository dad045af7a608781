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
    bool adds; /* sums, to what is there */
};
/* values = values + bias(columns); with relu a value of 0 or below becomes 0, and NaN stays NaN. */
cudaError_t ls_cuda_add_bias(const struct ls_cuda_columns *matrix, const float *bias, bool relu);
/* sums(columns) = the values' sums over the rows. With mask, of the same shape and type: first values = mask > 0 ?
 * values : 0. workspace: ls_cuda_sum_columns_workspace bytes. */
cudaError_t ls_cuda_sum_columns(const struct ls_cuda_columns *matrix, const void *mask, float *sums, void *workspace);
size_t ls_cuda_sum_columns_workspace(size_t rows, size_t columns);

/* A dense layer in float32, whose products are so small that launches are what they cost: y(rows, out) = x(rows, in)
 * w(in, out) + b, with relu 0 where that is 0 or below; NaN stays NaN. */
struct ls_cuda_small_dense {
    int rows, in, out;
    bool relu;
    const float *x, *w, *b, *dy; /* b may be NULL; dy is backward's */
    float *y;                    /* backward reads it, with relu */
    float *dw, *db, *dx;         /* db, dx may be NULL */
};
#define LS_CUDA_SMALL_DEPTH    1024      /* at most, of each product that is made */
#define LS_CUDA_SMALL_PRODUCTS (1 << 23) /* rows x in x out, at most */
cudaError_t ls_cuda_small_dense_forward(const struct ls_cuda_small_dense *dense, cudaStream_t stream);
cudaError_t ls_cuda_small_dense_backward(const struct ls_cuda_small_dense *dense, cudaStream_t stream);

/* A position t of a recurrent layer, and what lies beside: forward between the products of factor(rows, units) and w;
 * backward of factor(rows, gates units) and w transposed. There is no product and no state at the position where a walk
 * begins: zeros are taken. */
struct ls_cuda_recurrent {
    enum ls_cell cell;
    ls_dtype dtype; /* of all that is void */
    int64_t rows, length, units, t;
    int gates;
    bool whole; /* y and dy have all positions, not the last one alone */
    const void *x, *dy;
    const float *b;   /* or NULL */
    void *y, *before; /* as r of LS_OP_RECURRENT_FORWARD, which writes it unless NULL */
    void *dx, *dr;    /* dr of a GRU, else NULL */
    float *saved;     /* forward writes it, unless NULL */
    void *factor;     /* of the next product, which is written */
    float *product;   /* of the factor before */
    float *state;     /* (rows, units) */
};
cudaError_t ls_cuda_recurrent_forward(const struct ls_cuda_recurrent *position, cudaStream_t stream);
cudaError_t ls_cuda_recurrent_backward(const struct ls_cuda_recurrent *position, cudaStream_t stream);

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

/* A convolution of stride 2 over few channels as one of stride 1 over squares of 2 x 2 places (space to depth). The
 * channels of a square are those of its places, by rows, and zeros from there to pitch. Square 0 begins before places
 * ahead of the image. Tap t along an axis has the elements 2t and 2t + 1 of the kernel; one beyond its end is 0. */
struct ls_cuda_squares {
    int64_t rows, channels, image[2], before[2], kernel[2], filters; /* of the convolution as it is */
    int64_t squares[2], taps[2], pitch;
};
/* to (rows, squares..., pitch), aligned to 16 bytes, as a square's bytes are. */
cudaError_t ls_cuda_square_images(const struct ls_cuda_squares *s, void *to, const void *images, ls_dtype dtype,
                                  cudaStream_t stream);
/* A kernel (height, width, channels, filters) as (filters, taps..., pitch), and its gradient back, to float32. */
cudaError_t ls_cuda_square_filter(const struct ls_cuda_squares *s, void *to, const void *from, ls_dtype dtype,
                                  cudaStream_t stream);
cudaError_t ls_cuda_unsquare_filter(const struct ls_cuda_squares *s, float *to, const void *from, ls_dtype dtype,
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
