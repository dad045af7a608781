/* Copies that change the shape: columns into a wider matrix and out of it, zeros around images and away again. Mirrors
 * tf.concat, tf.split, tf.pad and slicing. */
#include <string.h>

#include "device/cpu/cpu.h"

ls_status ls_cpu_place(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    size_t narrow = (size_t)x->shape.dims[1], wide = (size_t)y->shape.dims[1];
    const float *from = x->data;
    float *to = (float *)y->data + op->column;
    for (int64_t r = 0; r < x->shape.dims[0]; r++, from += narrow, to += wide) memcpy(to, from, narrow * sizeof(float));
    return LS_OK;
}

ls_status ls_cpu_take(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    size_t narrow = (size_t)y->shape.dims[1], wide = (size_t)x->shape.dims[1];
    const float *from = (const float *)x->data + op->column;
    float *to = y->data;
    for (int64_t r = 0; r < x->shape.dims[0]; r++, from += wide, to += narrow) memcpy(to, from, narrow * sizeof(float));
    return LS_OK;
}

/* The element of the large image at which a line of the small image begins. */
static size_t line_in(const struct ls_op *op, const ls_shape *large, int64_t row, int64_t line) {
    int64_t at = (row * large->dims[1] + op->window.before[0] + line) * large->dims[2] + op->window.before[1];
    return (size_t)(at * large->dims[3]);
}

ls_status ls_cpu_pad(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    size_t width = (size_t)(x->shape.dims[2] * x->shape.dims[3]);
    const int64_t *d = y->shape.dims;
    const float *from = x->data;
    memset(y->data, 0, (size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof(float));
    for (int64_t r = 0; r < x->shape.dims[0]; r++)
        for (int64_t h = 0; h < x->shape.dims[1]; h++, from += width)
            memcpy((float *)y->data + line_in(op, &y->shape, r, h), from, width * sizeof(float));
    return LS_OK;
}

ls_status ls_cpu_crop(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    size_t width = (size_t)(y->shape.dims[2] * y->shape.dims[3]);
    float *to = y->data;
    for (int64_t r = 0; r < y->shape.dims[0]; r++)
        for (int64_t h = 0; h < y->shape.dims[1]; h++, to += width)
            memcpy(to, (const float *)x->data + line_in(op, &x->shape, r, h), width * sizeof(float));
    return LS_OK;
}
