/* The fake cuDNN's convolutions: one loop over all products, in double precision, that each direction reads its way. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dnn.h"
#include "runtime.h"

struct work {
    struct ls_fake_convolution c;
    enum ls_fake_direction direction;
    double alpha;
    void *image, *filter, *out, *workspace;
    size_t workspace_size;
    bool varies, backwards; /* varies: sums are of float32; backwards: from the last position to the first */
};

struct sizes {
    size_t image, filter, out; /* elements */
};

static struct sizes sizes_of(const struct ls_fake_convolution *c) {
    const struct cudnnTensorStruct *i = &c->image, *o = &c->out;
    const struct cudnnFilterStruct *f = &c->filter;
    return (struct sizes){(size_t)i->n * (size_t)i->c * (size_t)i->h * (size_t)i->w,
                          (size_t)f->k * (size_t)f->c * (size_t)f->h * (size_t)f->w,
                          (size_t)o->n * (size_t)o->c * (size_t)o->h * (size_t)o->w};
}

static double add(const struct work *w, double sum, double product) {
    return w->varies ? (double)(float)(sum + product) : sum + product;
}

/* Of one position of the output and one filter: all products with a tap of the window. The direction's result is added
 * to, the other two are read. */
static void multiply_window(const struct work *w, double *image, double *filter, double *out, const int at[3], int k) {
    const struct ls_fake_convolution *c = &w->c;
    const struct cudnnConvolutionStruct *window = &c->window;
    int group = k / (c->filter.k / window->groups), channels = c->filter.c;
    double *y = &out[((at[0] * c->out.h + at[1]) * c->out.w + at[2]) * c->out.c + k];
    for (int r = 0; r < c->filter.h; r++)
        for (int s = 0; s < c->filter.w; s++) {
            int h = at[1] * window->strides[0] + r * window->dilation[0] - window->pad[0];
            int v = at[2] * window->strides[1] + s * window->dilation[1] - window->pad[1];
            if (h < 0 || h >= c->image.h || v < 0 || v >= c->image.w) continue;
            double *x = &image[((at[0] * c->image.h + h) * c->image.w + v) * c->image.c + group * channels];
            double *f = &filter[((k * c->filter.h + r) * c->filter.w + s) * channels];
            for (int i = 0; i < channels; i++) {
                if (w->direction == LS_FAKE_FORWARD) *y = add(w, *y, x[i] * f[i]);
                if (w->direction == LS_FAKE_DATA) x[i] = add(w, x[i], *y * f[i]);
                if (w->direction == LS_FAKE_WEIGHTS) f[i] = add(w, f[i], *y * x[i]);
            }
        }
}

static void multiply_all(const struct work *w, double *image, double *filter, double *out) {
    const struct cudnnTensorStruct *o = &w->c.out;
    int positions = o->n * o->h * o->w;
    for (int i = 0; i < positions; i++) {
        int p = w->backwards ? positions - 1 - i : i;
        const int at[3] = {p / o->w / o->h, p / o->w % o->h, p % o->w};
        for (int k = 0; k < o->c; k++) multiply_window(w, image, filter, out, at, k);
    }
}

static int convolve(void *made) {
    const struct work *w = made;
    struct sizes sizes = sizes_of(&w->c);
    ls_dtype dtype = w->c.image.dtype;
    bool tf32 = w->c.window.math != CUDNN_FMA_MATH;
    double *image = ls_numbers_load(w->image, dtype, sizes.image, tf32);
    double *filter = ls_numbers_load(w->filter, dtype, sizes.filter, tf32);
    double *out = ls_numbers_load(w->out, dtype, sizes.out, tf32);
    double *results[] = {out, image, filter}, *result = results[w->direction];
    size_t counts[] = {sizes.out, sizes.image, sizes.filter}, count = counts[w->direction];
    void *places[] = {w->out, w->image, w->filter};
    for (size_t i = 0; i < count; i++) result[i] = 0;
    multiply_all(w, image, filter, out);
    for (size_t i = 0; i < count; i++) result[i] *= w->alpha;
    if (w->workspace) memset(w->workspace, 0xFF, w->workspace_size);
    ls_numbers_store(places[w->direction], dtype, result, count);
    free(image);
    free(filter);
    free(out);
    return 1;
}

static bool placed(const void *data, size_t elements, ls_dtype dtype) {
    return data && (uintptr_t)data % 16 == 0 && ls_emulated_is_device(data, elements * ls_numbers_size(dtype));
}

/* Queues the work if the algorithm's workspace is there. */
static cudnnStatus_t start(cudnnHandle_t handle, struct work *w, int algorithm, const void *alpha, const void *beta,
                           size_t workspace_size) {
    static atomic_uint turns;
    struct sizes sizes = sizes_of(&w->c);
    ls_dtype dtype = w->c.image.dtype;
    cudnnStatus_t code = ls_fake_workspace(w->direction, algorithm, &w->c, &w->workspace_size);
    if (code) return code;
    if (!alpha || !beta || *(const float *)beta != 0) return CUDNN_STATUS_BAD_PARAM;
    if (workspace_size < w->workspace_size) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    if (!placed(w->image, sizes.image, dtype) || !placed(w->filter, sizes.filter, dtype) ||
        !placed(w->out, sizes.out, dtype))
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    if (w->workspace_size && !placed(w->workspace, w->workspace_size / sizeof(float), LS_FLOAT32))
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    w->varies = ls_fake_varies(w->direction, algorithm);
    w->backwards = w->varies && atomic_fetch_add(&turns, 1) % 2;
    w->alpha = (double)*(const float *)alpha;
    return ls_emulated_queue(handle->stream, convolve, w, sizeof(*w)) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                                                     : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_layout,
                                      const void *x, const cudnnFilterDescriptor_t w_layout, const void *w,
                                      const cudnnConvolutionDescriptor_t window, cudnnConvolutionFwdAlgo_t algorithm,
                                      void *workspace, size_t size, const void *beta,
                                      const cudnnTensorDescriptor_t y_layout, void *y) {
    struct work work = {.direction = LS_FAKE_FORWARD,
                        .image = (void *)(uintptr_t)x,
                        .filter = (void *)(uintptr_t)w,
                        .out = y,
                        .workspace = workspace};
    cudnnStatus_t code = ls_fake_gather(handle, x_layout, w_layout, window, y_layout, &work.c);
    return code ? code : start(handle, &work, (int)algorithm, alpha, beta, size);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t w_layout, const void *w,
                                           const cudnnTensorDescriptor_t dy_layout, const void *dy,
                                           const cudnnConvolutionDescriptor_t window,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace, size_t size,
                                           const void *beta, const cudnnTensorDescriptor_t dx_layout, void *dx) {
    struct work work = {.direction = LS_FAKE_DATA,
                        .image = dx,
                        .filter = (void *)(uintptr_t)w,
                        .out = (void *)(uintptr_t)dy,
                        .workspace = workspace};
    cudnnStatus_t code = ls_fake_gather(handle, dx_layout, w_layout, window, dy_layout, &work.c);
    return code ? code : start(handle, &work, (int)algorithm, alpha, beta, size);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t x_layout, const void *x,
                                             const cudnnTensorDescriptor_t dy_layout, const void *dy,
                                             const cudnnConvolutionDescriptor_t window,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace, size_t size,
                                             const void *beta, const cudnnFilterDescriptor_t dw_layout, void *dw) {
    struct work work = {.direction = LS_FAKE_WEIGHTS,
                        .image = (void *)(uintptr_t)x,
                        .filter = dw,
                        .out = (void *)(uintptr_t)dy,
                        .workspace = workspace};
    cudnnStatus_t code = ls_fake_gather(handle, x_layout, dw_layout, window, dy_layout, &work.c);
    return code ? code : start(handle, &work, (int)algorithm, alpha, beta, size);
}
