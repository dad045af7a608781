/* Normalizations of positions, and slopes of activations, in double precision. */
#include "device/reference_position.h"

#include <math.h>
#include <stddef.h>

#include "device/reference_image.h"

struct row {
    double mean, inverse;
};

static struct row row_of(const struct reference_layer_norm *n, int64_t r) {
    const double *x = n->x + r * n->columns;
    double sum = 0, squares = 0, count = (double)n->columns;
    for (int64_t c = 0; n->centered && c < n->columns; c++) sum += x[c];
    for (int64_t c = 0; c < n->columns; c++) squares += pow(x[c] - sum / count, 2);
    return (struct row){sum / count, 1 / sqrt(squares / count + n->epsilon)};
}

static double gamma_at(const struct reference_layer_norm *n, int64_t c) {
    return n->gamma ? n->gamma[c] : 1;
}

void reference_layer_norm_forward(const struct reference_layer_norm *n) {
    for (int64_t r = 0; r < n->rows; r++) {
        const struct row row = row_of(n, r);
        for (int64_t c = 0; c < n->columns; c++) {
            double normal = (n->x[r * n->columns + c] - row.mean) * row.inverse;
            n->y[r * n->columns + c] = normal * gamma_at(n, c) + (n->beta ? n->beta[c] : 0);
        }
    }
}

static void row_dx(const struct reference_layer_norm *n, int64_t r, struct row row) {
    const double *x = n->x + r * n->columns, *dy = n->dy + r * n->columns;
    double shift = 0, slope = 0, count = (double)n->columns;
    for (int64_t c = 0; c < n->columns; c++) {
        if (n->centered) shift += dy[c] * gamma_at(n, c) / count;
        slope += dy[c] * gamma_at(n, c) * (x[c] - row.mean) * row.inverse / count;
    }
    for (int64_t c = 0; c < n->columns; c++)
        n->dx[r * n->columns + c] =
            row.inverse * (dy[c] * gamma_at(n, c) - shift - (x[c] - row.mean) * row.inverse * slope);
}

void reference_layer_norm_backward(const struct reference_layer_norm *n) {
    for (int64_t c = 0; n->dgamma && c < n->columns; c++) n->dgamma[c] = 0;
    for (int64_t c = 0; n->dbeta && c < n->columns; c++) n->dbeta[c] = 0;
    for (int64_t r = 0; r < n->rows; r++) {
        const struct row row = row_of(n, r);
        const double *x = n->x + r * n->columns, *dy = n->dy + r * n->columns;
        for (int64_t c = 0; n->dgamma && c < n->columns; c++) n->dgamma[c] += dy[c] * (x[c] - row.mean) * row.inverse;
        for (int64_t c = 0; n->dbeta && c < n->columns; c++) n->dbeta[c] += dy[c];
        if (n->dx) row_dx(n, r, row);
    }
}

double reference_activation_slope(ls_activation activation, double x) {
    double pi = acos(-1), root = sqrt(2 / pi), y = reference_activation(activation, x), s;
    switch (activation) {
    case LS_RELU:
        return x > 0;
    case LS_RELU6:
        return x > 0 && x < 6;
    case LS_LEAKY_RELU:
        return x < 0 ? (double)0.3F : 1;
    case LS_SIGMOID:
        return y * (1 - y);
    case LS_TANH:
        return 1 - y * y;
    case LS_GELU:
        return erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi);
    case LS_GELU_TANH:
        s = tanh(root * (x + 0.044715 * x * x * x));
        return (1 + s) / 2 + x * (1 - s * s) * root * (1 + 3 * 0.044715 * x * x) / 2;
    case LS_SILU:
        s = 1 / (1 + exp(-x));
        return s + x * s * (1 - s);
    default:
        return 1;
    }
}
