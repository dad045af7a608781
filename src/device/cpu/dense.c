/* Dense layers: matrix products by the library; bias, ReLU and the column sums in loops of their own. The column sums
 * run over rows in order, so that the bits of db do not depend on vector width. Mirrors tf.keras.layers.Dense. */
#include <stddef.h>

#include "base/clones.h"
#include "device/cpu/cpu.h"

LS_CLONES static void add_bias(float *restrict y, const float *restrict b, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) y[r * columns + c] += b[c];
}

LS_CLONES static void add_bias_relu(float *restrict y, const float *restrict b, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            float value = y[r * columns + c] + b[c];
            y[r * columns + c] = value <= 0 ? 0 : value; /* NaN stays */
        }
}

LS_CLONES static void mask(float *restrict dy, const float *restrict y, size_t count) {
    for (size_t i = 0; i < count; i++) dy[i] = y[i] > 0 ? dy[i] : 0;
}

LS_CLONES static void sum_columns(float *restrict db, const float *restrict dy, size_t rows, size_t columns) {
    for (size_t c = 0; c < columns; c++) db[c] = dy[c];
    for (size_t r = 1; r < rows; r++)
        for (size_t c = 0; c < columns; c++) db[c] += dy[r * columns + c];
}

ls_status ls_cpu_dense_forward(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *w = &op->tensors[LS_ARG_W];
    float *y = op->tensors[LS_ARG_Y].data;
    const float *b = op->tensors[LS_ARG_B].data;
    int64_t rows = x->shape.dims[0], in = x->shape.dims[1], out = w->shape.dims[1];
    struct ls_gemm product = {.rows = rows, .columns = out, .depth = in, .a = x->data, .b = w->data, .c = y};
    ls_status status = ls_gemm_run(&product);
    if (status) return status;
    if (op->activation == LS_RELU)
        add_bias_relu(y, b, (size_t)rows, (size_t)out);
    else if (b)
        add_bias(y, b, (size_t)rows, (size_t)out);
    return LS_OK;
}

ls_status ls_cpu_dense_backward(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *w = &op->tensors[LS_ARG_W];
    float *dy = op->tensors[LS_ARG_DY].data, *dx = op->tensors[LS_ARG_DX].data;
    int64_t rows = x->shape.dims[0], in = x->shape.dims[1], out = w->shape.dims[1];
    if (op->activation == LS_RELU) mask(dy, op->tensors[LS_ARG_Y].data, (size_t)(rows * out));
    if (op->tensors[LS_ARG_DB].data) sum_columns(op->tensors[LS_ARG_DB].data, dy, (size_t)rows, (size_t)out);
    struct ls_gemm weights = {.transpose_a = true,
                              .rows = in,
                              .columns = out,
                              .depth = rows,
                              .a = x->data,
                              .b = dy,
                              .c = op->tensors[LS_ARG_DW].data};
    ls_status status = weights.c ? ls_gemm_run(&weights) : LS_OK;
    if (status || !dx) return status;
    struct ls_gemm inputs = {
        .transpose_b = true, .rows = rows, .columns = in, .depth = out, .a = dy, .b = w->data, .c = dx};
    return ls_gemm_run(&inputs);
}
