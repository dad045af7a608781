/* The oracle of ops on images, as reference.h is for the others: plain C, double precision, one formula a line. */
#pragma once
#include <lockstep/lockstep.h>

/* x(rows, height, width, channels), w(kernel..., channels / groups, filters), y(rows, out..., filters). */
struct reference_image {
    int64_t rows, size[2], channels, filters, groups;
    int64_t kernel[2], strides[2], dilation[2], before[2], out[2];
    bool maximum; /* pools: filters is channels */
    const double *x, *w, *b;
    double *y;
    const double *dy;
    double *dx, *dw, *db;
};
void reference_convolution_forward(const struct reference_image *image);
void reference_convolution_backward(const struct reference_image *image);
void reference_pool_forward(const struct reference_image *image);
void reference_pool_backward(const struct reference_image *image);

/* Over rows of channels; residual may be NULL; y is clipped to [low, high]. */
struct reference_norm {
    int64_t rows, channels;
    double epsilon, low, high;
    const double *x, *gamma, *beta, *residual;
    double *y, *mean, *variance;
    const double *dy;
    double *dx, *dgamma, *dbeta, *dresidual;
};
void reference_norm_forward(const struct reference_norm *norm); /* mean and variance: the batch's, written */
void reference_norm_backward(const struct reference_norm *norm);

double reference_activation(ls_activation activation, double x); /* of one element; slope 0.3 */
