/* Ops on images in double precision: textbook loops over every output and every element of its window. */
#include "device/reference_image.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* One meeting of an output with an element of its window. */
struct tap {
    int64_t x, y, w; /* places in the arrays; w without the channel */
};

typedef void tap_fn(const struct reference_image *i, const struct tap *tap, void *context);

/* Element k along axis for output o; -1 where it lies outside. */
static int64_t reach(const struct reference_image *i, int axis, int64_t o, int64_t k) {
    int64_t at = o * i->strides[axis] - i->before[axis] + k * i->dilation[axis];
    return at >= 0 && at < i->size[axis] ? at : -1;
}

static void window_taps(const struct reference_image *i, int64_t r, int64_t oh, int64_t ow, tap_fn *fn, void *context) {
    for (int64_t kh = 0; kh < i->kernel[0]; kh++)
        for (int64_t kw = 0; kw < i->kernel[1]; kw++) {
            int64_t h = reach(i, 0, oh, kh), w = reach(i, 1, ow, kw);
            const struct tap tap = {.x = ((r * i->size[0] + h) * i->size[1] + w) * i->channels,
                                    .y = ((r * i->out[0] + oh) * i->out[1] + ow) * i->filters,
                                    .w = kh * i->kernel[1] + kw};
            if (h >= 0 && w >= 0) fn(i, &tap, context);
        }
}

static void all_taps(const struct reference_image *i, tap_fn *fn) {
    for (int64_t r = 0; r < i->rows; r++)
        for (int64_t oh = 0; oh < i->out[0]; oh++)
            for (int64_t ow = 0; ow < i->out[1]; ow++) window_taps(i, r, oh, ow, fn, NULL);
}

/* ---- convolution ---- */

static int64_t weight(const struct reference_image *i, const struct tap *tap, int64_t channel, int64_t filter) {
    return (tap->w * (i->channels / i->groups) + channel) * i->filters + filter;
}

static void convolve(const struct reference_image *i, const struct tap *tap, void *context) {
    int64_t in = i->channels / i->groups, out = i->filters / i->groups;
    (void)context;
    for (int64_t m = 0; m < i->filters; m++)
        for (int64_t c = 0; c < in; c++)
            i->y[tap->y + m] += i->x[tap->x + m / out * in + c] * i->w[weight(i, tap, c, m)];
}

static void convolve_back(const struct reference_image *i, const struct tap *tap, void *context) {
    int64_t in = i->channels / i->groups, out = i->filters / i->groups;
    (void)context;
    for (int64_t m = 0; m < i->filters; m++)
        for (int64_t c = 0; c < in; c++) {
            int64_t x = tap->x + m / out * in + c, w = weight(i, tap, c, m);
            i->dx[x] += i->dy[tap->y + m] * i->w[w];
            i->dw[w] += i->dy[tap->y + m] * i->x[x];
        }
}

void reference_convolution_forward(const struct reference_image *i) {
    int64_t outputs = i->rows * i->out[0] * i->out[1];
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t m = 0; m < i->filters; m++) i->y[o * i->filters + m] = i->b ? i->b[m] : 0;
    all_taps(i, convolve);
}

void reference_convolution_backward(const struct reference_image *i) {
    int64_t outputs = i->rows * i->out[0] * i->out[1];
    memset(i->dx, 0, (size_t)(i->rows * i->size[0] * i->size[1] * i->channels) * sizeof(double));
    memset(i->dw, 0, (size_t)(i->kernel[0] * i->kernel[1] * i->channels / i->groups * i->filters) * sizeof(double));
    all_taps(i, convolve_back);
    if (!i->db) return;
    memset(i->db, 0, (size_t)i->filters * sizeof(double));
    for (int64_t o = 0; o < outputs * i->filters; o++) i->db[o % i->filters] += i->dy[o];
}

/* ---- pools ---- */

struct window {
    int64_t channel, count, best;
    double sum;
};

static void look(const struct reference_image *i, const struct tap *tap, void *context) {
    struct window *window = context;
    int64_t at = tap->x + window->channel;
    if (!window->count++ || i->x[at] > i->x[window->best]) window->best = at;
    window->sum += i->x[at];
}

static void share(const struct reference_image *i, const struct tap *tap, void *context) {
    const struct window *window = context;
    i->dx[tap->x + window->channel] += i->dy[tap->y + window->channel] / (double)window->count;
}

static void pool_at(const struct reference_image *i, int64_t r, int64_t oh, int64_t ow, bool backward) {
    int64_t y = ((r * i->out[0] + oh) * i->out[1] + ow) * i->channels;
    for (int64_t c = 0; c < i->channels; c++) {
        struct window window = {.channel = c};
        window_taps(i, r, oh, ow, look, &window);
        if (!backward)
            i->y[y + c] = i->maximum ? i->x[window.best] : window.sum / (double)window.count;
        else if (i->maximum)
            i->dx[window.best] += i->dy[y + c];
        else
            window_taps(i, r, oh, ow, share, &window);
    }
}

static void pool(const struct reference_image *i, bool backward) {
    for (int64_t r = 0; r < i->rows; r++)
        for (int64_t oh = 0; oh < i->out[0]; oh++)
            for (int64_t ow = 0; ow < i->out[1]; ow++) pool_at(i, r, oh, ow, backward);
}

void reference_pool_forward(const struct reference_image *i) {
    pool(i, false);
}

void reference_pool_backward(const struct reference_image *i) {
    memset(i->dx, 0, (size_t)(i->rows * i->size[0] * i->size[1] * i->channels) * sizeof(double));
    pool(i, true);
}

/* ---- batch normalization ---- */

static double normal(const struct reference_norm *n, int64_t at) {
    int64_t c = at % n->channels;
    return (n->x[at] - n->mean[c]) / sqrt(n->variance[c] + n->epsilon);
}

static double before_clip(const struct reference_norm *n, int64_t at) {
    int64_t c = at % n->channels;
    return normal(n, at) * n->gamma[c] + n->beta[c] + (n->residual ? n->residual[at] : 0);
}

void reference_norm_forward(const struct reference_norm *n) {
    for (int64_t c = 0; c < n->channels; c++) {
        n->mean[c] = n->variance[c] = 0;
        for (int64_t r = 0; r < n->rows; r++) n->mean[c] += n->x[r * n->channels + c] / (double)n->rows;
        for (int64_t r = 0; r < n->rows; r++)
            n->variance[c] += pow(n->x[r * n->channels + c] - n->mean[c], 2) / (double)n->rows;
    }
    for (int64_t at = 0; at < n->rows * n->channels; at++) n->y[at] = fmin(fmax(before_clip(n, at), n->low), n->high);
}

void reference_norm_backward(const struct reference_norm *n) {
    double rows = (double)n->rows;
    for (int64_t c = 0; c < n->channels; c++) n->dgamma[c] = n->dbeta[c] = 0;
    for (int64_t at = 0; at < n->rows * n->channels; at++) {
        double value = before_clip(n, at), g = value > n->low && value < n->high ? n->dy[at] : 0;
        n->dresidual[at] = g;
        n->dbeta[at % n->channels] += g;
        n->dgamma[at % n->channels] += g * normal(n, at);
    }
    for (int64_t at = 0; at < n->rows * n->channels; at++) {
        int64_t c = at % n->channels;
        double centred = n->dresidual[at] - n->dbeta[c] / rows - normal(n, at) * n->dgamma[c] / rows;
        n->dx[at] = n->gamma[c] / sqrt(n->variance[c] + n->epsilon) * centred;
    }
}

double reference_activation(ls_activation activation, double x) {
    switch (activation) {
    case LS_RELU:
        return fmax(x, 0);
    case LS_RELU6:
        return fmin(fmax(x, 0), 6);
    case LS_LEAKY_RELU:
        return x < 0 ? (double)0.3F * x : x;
    case LS_SIGMOID:
        return 1 / (1 + exp(-x));
    case LS_TANH:
        return tanh(x);
    case LS_GELU:
        return x * erfc(-x / sqrt(2)) / 2;
    case LS_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) / 2;
    case LS_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}
