/* Launchers of the kernels on images: batch norm, layer norm, depthwise convolutions, pools, padding, activations.
 * Plain sizes and device pointers; each queues on stream. Tensors of images are of dtype, all others float. */
#pragma once
#include <cuda_runtime_api.h>

#include "device/cuda/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- batch norm: x(rows, channels); what a channel has is [channels] ---- */

struct ls_cuda_norm {
    struct ls_cuda_stripes rows;
    ls_dtype dtype;
    const void *x, *residual, *y, *dy; /* residual: may be NULL; y: with dresidual */
    void *out, *dresidual;             /* out: y forward, dx backward. May be the residual, dy */
    const float *mean, *inverse;       /* if inverse is NULL it is 1 / sqrt(variance + epsilon) */
    const float *variance;
    float epsilon;
    const float *gamma, *beta;  /* may be NULL */
    const float *shift, *slope; /* backward: dx = factor g - shift - (x - mean) slope */
    float low, high;            /* of the activation; infinite for none */
    float *partials;            /* [blocks][2][channels] */
};
/* Bytes of the partials. */
static inline size_t ls_cuda_norm_partials_size(const struct ls_cuda_stripes *rows) {
    return 2 * (size_t)rows->blocks * (size_t)rows->channels * sizeof(float);
}
/* Computes of each block's rows of x the mean, and the sum of the squares around it. */
cudaError_t ls_cuda_norm_moments(const struct ls_cuda_norm *n, cudaStream_t stream);
/* out = activation((x - mean) factor + beta + residual) */
cudaError_t ls_cuda_norm_apply(const struct ls_cuda_norm *n, cudaStream_t stream);
/* Computes of each block's rows the sum of g and of g (x - mean). g is dy where x is inside the activation, else 0.
 * With dresidual y decides instead of x, and g is written there. */
cudaError_t ls_cuda_norm_gradients(const struct ls_cuda_norm *n, cudaStream_t stream);
/* dx, from dy where x is inside the activation; from all of dy if that has no ends. */
cudaError_t ls_cuda_norm_data(const struct ls_cuda_norm *n, cudaStream_t stream);

/* The values that follow from the sums over all blocks: the sums of the partials, or sums itself if partials is NULL.
 */
struct ls_cuda_norm_sums {
    struct ls_cuda_stripes rows;
    const float *partials;
    double *sums; /* [2][channels]; unless partials are NULL they are written, unless NULL, and nothing follows yet that
                     depends on all replicas */
    double count; /* of the values that the sums are of */
    float epsilon;
    double share; /* forward: of the change of the moving statistics */
    bool fused;   /* forward: the moving variance is over count - 1 */
    const float *moving_mean, *moving_variance;
    float *saved, *dmean, *dvariance; /* forward; saved(2, C): mean, inverse */
    const float *inverse, *gamma;     /* backward */
    float *dgamma, *dbeta, *shifts;   /* backward; may be NULL. shifts(2, C) */
};
cudaError_t ls_cuda_norm_statistics(const struct ls_cuda_norm_sums *s, cudaStream_t stream);
cudaError_t ls_cuda_norm_shifts(const struct ls_cuda_norm_sums *s, cudaStream_t stream);

/* ---- layer norm: x(rows, channels), each row by itself ---- */

struct ls_cuda_layer_norm {
    int64_t rows, channels;
    int vector; /* channels of a thread */
    bool centered;
    float epsilon;
    ls_dtype dtype;
    const void *x, *dy;
    void *out;                 /* y forward, dx backward: may be dy, and NULL */
    const float *gamma, *beta; /* may be NULL */
    float *saved;              /* (rows, 2): mean, inverse; forward may have none */
    float *dgamma, *dbeta;     /* may be NULL */
    struct ls_cuda_rows sums;  /* of dgamma and dbeta */
    float *partials;           /* [chunks][2][channels] */
};
cudaError_t ls_cuda_layer_norm_y(const struct ls_cuda_layer_norm *n, cudaStream_t stream);
cudaError_t ls_cuda_layer_norm_dx(const struct ls_cuda_layer_norm *n, cudaStream_t stream);
/* dgamma and dbeta. It reads dy, so it runs before a dx that is dy. */
cudaError_t ls_cuda_layer_norm_gradients(const struct ls_cuda_layer_norm *n, cudaStream_t stream);

/* ---- windows over images: depthwise convolutions, pools ---- */

/* Pairs are height, then width. image: where the windows move; out: their positions. */
struct ls_cuda_windows {
    int images, channels, image[2], out[2];
    int kernel[2], strides[2], dilation[2], before[2];
};
/* The layouts of the kernels for 3 by 3 taps. */
#define LS_CUDA_STRIP_BYTES   4 /* of the channels of a thread */
#define LS_CUDA_STRIP_COLUMNS 4
#define LS_CUDA_STRIP_WIDE    7 /* columns, where they divide the width and those do not */
#define LS_CUDA_BACK_BLOCKS   4 /* of a multiprocessor, in backward, as their registers allow */
#define LS_CUDA_WIDE_BLOCKS   3 /* the same with the wide layout */
#define LS_CUDA_SQUARE_BYTES  8 /* backward with stride 2, where a thread has squares of two columns */
struct ls_cuda_depthwise {
    struct ls_cuda_windows at;
    int multiplier;               /* filters of a channel; filter m sees channel m / multiplier */
    int vector;                   /* channels of a thread */
    struct ls_cuda_rows lines;    /* dw of any window: lines of dy, of filters */
    struct ls_cuda_strips strips; /* of 3 by 3 taps: y; backward dx, or squares of it */
    bool inner;                   /* of the columns that a thread's windows see only the outermost may be outside */
    bool turned;                  /* the taps, by half a turn */
    ls_dtype dtype;
    const void *x, *w, *dy;
    const float *bias; /* may be NULL */
    void *out;         /* y, dx */
    float *dw;
    float *partials; /* dw: [chunks][taps][filters] */
    int chunks;
};
cudaError_t ls_cuda_depthwise_y(const struct ls_cuda_depthwise *d, cudaStream_t stream);
cudaError_t ls_cuda_depthwise_dx(const struct ls_cuda_depthwise *d, cudaStream_t stream);
/* The partials of dw, of any window. */
cudaError_t ls_cuda_depthwise_dw(const struct ls_cuda_depthwise *d, cudaStream_t stream);
/* dw from the partials. */
cudaError_t ls_cuda_depthwise_finish(const struct ls_cuda_depthwise *d, cudaStream_t stream);
/* y by 3 by 3 taps with stride 1 or 2 both ways, in strips. */
cudaError_t ls_cuda_depthwise_3x3(const struct ls_cuda_depthwise *d, cudaStream_t stream);
/* dx unless out is NULL, and the partials of dw unless dw is NULL. dx may be x. With stride 1 dw may not be NULL. */
cudaError_t ls_cuda_depthwise_3x3_back(const struct ls_cuda_depthwise *d, cudaStream_t stream);

struct ls_cuda_pool {
    struct ls_cuda_windows at;
    bool maximum;
    int vector;
    ls_dtype dtype;
    const void *x, *y, *dy; /* backward: x, y for the maximum */
    void *out;              /* y, dx */
};
cudaError_t ls_cuda_pool_y(const struct ls_cuda_pool *p, cudaStream_t stream);
cudaError_t ls_cuda_pool_dx(const struct ls_cuda_pool *p, cudaStream_t stream);

/* out(h, w) = x(h - down, w - right), or 0 where that is outside x. */
struct ls_cuda_place {
    int images, channels, in[2], out_size[2], down, right, vector;
    ls_dtype dtype;
    const void *x;
    void *out;
};
cudaError_t ls_cuda_place_image(const struct ls_cuda_place *p, cudaStream_t stream);

/* ---- activations, over count elements; softmax over rows of so many columns ---- */

struct ls_cuda_activation {
    ls_activation kind;
    ls_dtype dtype;
    float slope;
    int vector;
    int64_t count, columns;
    const void *x, *y, *dy; /* y: backward x, where the slope follows from it */
    void *out;              /* may be x, dy */
};
cudaError_t ls_cuda_activation_y(const struct ls_cuda_activation *a, cudaStream_t stream);
cudaError_t ls_cuda_activation_dx(const struct ls_cuda_activation *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
