/* The ops in double precision: textbook loops, one formula a line, nothing shared with any device. */
#include "device/reference.h"

#include <math.h>
#include <stddef.h>

static double product(const struct reference_dense *d, int64_t row, int64_t column) {
    double sum = d->b ? d->b[column] : 0;
    for (int64_t k = 0; k < d->in; k++) sum += d->x[row * d->in + k] * d->w[k * d->out + column];
    return sum;
}

void reference_dense_forward(const struct reference_dense *d) {
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t c = 0; c < d->out; c++) {
            double value = product(d, r, c);
            d->y[r * d->out + c] = d->relu && value < 0 ? 0 : value;
        }
}

static void weight_gradients(const struct reference_dense *d) {
    for (int64_t c = 0; c < d->out; c++) {
        if (d->db) d->db[c] = 0;
        for (int64_t r = 0; d->db && r < d->rows; r++) d->db[c] += d->dy[r * d->out + c];
        for (int64_t k = 0; k < d->in; k++) {
            d->dw[k * d->out + c] = 0;
            for (int64_t r = 0; r < d->rows; r++) d->dw[k * d->out + c] += d->x[r * d->in + k] * d->dy[r * d->out + c];
        }
    }
}

static void input_gradients(const struct reference_dense *d) {
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t k = 0; k < d->in; k++) {
            d->dx[r * d->in + k] = 0;
            for (int64_t c = 0; c < d->out; c++) d->dx[r * d->in + k] += d->dy[r * d->out + c] * d->w[k * d->out + c];
        }
}

void reference_dense_backward(const struct reference_dense *d) {
    if (d->relu) reference_relu_backward(d->y, d->dy, d->dy, d->rows * d->out);
    weight_gradients(d);
    if (d->dx) input_gradients(d);
}

void reference_relu_forward(const double *x, double *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

void reference_relu_backward(const double *y, const double *dy, double *dx, int64_t count) {
    for (int64_t i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

static int64_t first_maximum(const double *values, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) best = values[i] > values[best] ? i : best;
    return best;
}

static double log_sum_exp(const double *values, int64_t count) {
    double maximum = values[first_maximum(values, count)], sum = 0;
    for (int64_t i = 0; i < count; i++) sum += exp(values[i] - maximum);
    return maximum + log(sum);
}

struct reference_sums reference_softmax_crossentropy(const struct reference_loss *loss) {
    struct reference_sums sums = {0, 0};
    for (int64_t r = 0; r < loss->rows; r++) {
        const double *x = loss->logits + r * loss->classes,
                     *y = loss->one_hot ? loss->one_hot + r * loss->classes : NULL;
        int64_t label = y ? first_maximum(y, loss->classes) : loss->labels[r];
        double total = log_sum_exp(x, loss->classes);
        sums.correct += first_maximum(x, loss->classes) == label;
        for (int64_t c = 0; c < loss->classes; c++) {
            double target = y ? y[c] : c == label;
            sums.loss -= target * (x[c] - total);
            if (loss->dlogits) loss->dlogits[r * loss->classes + c] = (exp(x[c] - total) - target) * loss->scale;
        }
    }
    return sums;
}

static double error_of(enum reference_error kind, double delta, double e) {
    if (kind == REFERENCE_SQUARED) return e * e;
    if (kind == REFERENCE_ABSOLUTE) return fabs(e);
    return fabs(e) <= delta ? e * e / 2 : delta * (fabs(e) - delta / 2);
}

static double slope_of(enum reference_error kind, double delta, double e) {
    if (kind == REFERENCE_SQUARED) return 2 * e;
    if (kind == REFERENCE_ABSOLUTE) return e > 0 ? 1 : e < 0 ? -1 : 0;
    return fabs(e) <= delta ? e : e > 0 ? delta : -delta;
}

struct reference_sums reference_error(enum reference_error kind, double delta, const double *weights,
                                      const struct reference_loss *loss) {
    struct reference_sums sums = {0};
    for (int64_t i = 0; i < loss->rows * loss->classes; i++) {
        double weight = weights ? weights[i / loss->classes] : 1, e = loss->logits[i] - loss->one_hot[i];
        sums.loss += weight * error_of(kind, delta, e) / (double)loss->classes;
        if (loss->dlogits) loss->dlogits[i] = weight * slope_of(kind, delta, e) / (double)loss->classes * loss->scale;
    }
    return sums;
}

void reference_one_hot(const int32_t *labels, int64_t rows, int64_t classes, double *one_hot) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < classes; c++) one_hot[r * classes + c] = c == labels[r];
}
