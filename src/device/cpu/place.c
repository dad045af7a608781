/* Copies that change the shape: columns into a wider matrix and out of it, zeros around images and away again. Mirrors
 * tf.concat, tf.split, tf.pad and slicing. */
#include <string.h>

#include "base/shape.h"
#include "device/cpu/cpu.h"

ls_status ls_cpu_columns(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    bool place = op->kind == LS_OP_PLACE;
    size_t width = (size_t)(place ? x : y)->shape.dims[1];
    const float *from = (const float *)x->data + (place ? 0 : op->column);
    float *to = (float *)y->data + (place ? op->column : 0);
    for (int64_t r = 0; r < x->shape.dims[0]; r++, from += x->shape.dims[1], to += y->shape.dims[1])
        memcpy(to, from, width * sizeof(float));
    return LS_OK;
}

/* The element of the large image at which a line of the small image begins. */
static size_t line_in(const struct ls_op *op, const ls_shape *large, int64_t row, int64_t line) {
    int64_t at = (row * large->dims[1] + op->window.before[0] + line) * large->dims[2] + op->window.before[1];
    return (size_t)(at * large->dims[3]);
}

ls_status ls_cpu_borders(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    bool pads = op->kind == LS_OP_PAD;
    const ls_shape *small = &(pads ? x : y)->shape, *large = &(pads ? y : x)->shape;
    size_t width = (size_t)(small->dims[2] * small->dims[3]), inner = 0;
    const float *from = x->data;
    float *to = y->data;
    if (pads) memset(to, 0, (size_t)ls_shape_count(large) * sizeof(*to));
    for (int64_t r = 0; r < small->dims[0]; r++)
        for (int64_t h = 0; h < small->dims[1]; h++, inner += width) {
            size_t outer = line_in(op, large, r, h);
            memcpy(to + (pads ? outer : inner), from + (pads ? inner : outer), width * sizeof(*to));
        }
    return LS_OK;
}
