/* Rows of a table by number, and their gradients: zero where no row is taken, else in the order of the batch. Mirrors
 * tf.gather, and the dense sum of its IndexedSlices. */
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/labels.h"

ls_status ls_cpu_embedding_forward(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *w = &op->tensors[LS_ARG_W];
    const float *table = w->data;
    int64_t count = x->shape.dims[0] * x->shape.dims[1];
    size_t width = (size_t)w->shape.dims[1];
    float *to = op->tensors[LS_ARG_Y].data;
    ls_status status = ls_ids_check(x, w->shape.dims[0]);
    for (int64_t i = 0; !status && i < count; i++, to += width)
        memcpy(to, table + (size_t)ls_ids_at(x, i) * width, width * sizeof(*to));
    return status;
}

ls_status ls_cpu_embedding_backward(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *dw = &op->tensors[LS_ARG_DW];
    const float *from = op->tensors[LS_ARG_DY].data;
    int64_t count = x->shape.dims[0] * x->shape.dims[1];
    size_t width = (size_t)dw->shape.dims[1];
    ls_status status = ls_ids_check(x, dw->shape.dims[0]);
    if (status) return status;
    if (!op->adds) memset(dw->data, 0, (size_t)dw->shape.dims[0] * width * sizeof(float));
    for (int64_t i = 0; i < count; i++, from += width) {
        float *row = (float *)dw->data + (size_t)ls_ids_at(x, i) * width;
        for (size_t k = 0; k < width; k++) row[k] += from[k];
    }
    return LS_OK;
}
