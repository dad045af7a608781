/* The oracle of normalizations of each position and of smooth activations, as reference.h is for the others. */
#pragma once
#include <lockstep/lockstep.h>

/* Over the columns of each row: gamma and beta are ones and zeros where NULL. */
struct reference_layer_norm {
    int64_t rows, columns;
    bool centered;
    double epsilon;
    const double *x, *gamma, *beta;
    double *y;
    const double *dy;
    double *dx, *dgamma, *dbeta; /* each may be NULL */
};
void reference_layer_norm_forward(const struct reference_layer_norm *norm);
void reference_layer_norm_backward(const struct reference_layer_norm *norm);

/* The slope of reference_activation at x, where it has one. */
double reference_activation_slope(ls_activation activation, double x);
