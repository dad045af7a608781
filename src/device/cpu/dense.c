/* Dense layers: matrix products by the library; bias, ReLU and the column sums in loops of their own. The column sums
 * run over rows in order, so that the bits of db do not depend on vector width. Mirrors tf.keras.layers.Dense. */
#include <stddef.h>

#include "base/clones.h"
#include "base/new.h"
#include "device/cpu/bfloat16.h"

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

LS_CLONES static void sum_columns(float *restrict db, const float *restrict dy, size_t rows, size_t columns,
                                  bool adds) {
    for (size_t c = 0; !adds && c < columns; c++) db[c] = dy[c];
    for (size_t r = !adds; r < rows; r++)
        for (size_t c = 0; c < columns; c++) db[c] += dy[r * columns + c];
}

/* ---- products ---- */

enum { OUTPUTS = 0, WEIGHTS, INPUTS, PRODUCTS };

/* Of op->bfloat16. */
struct dense_handle {
    struct ls_bfloat16_product *products[PRODUCTS]; /* owns; NULL where the op has not this one */
};

/* y = x w, dw = x transposed dy, dx = dy w transposed. c is NULL where the op does not make it. */
static struct ls_gemm dense_product(const struct ls_op *op, int product) {
    const struct ls_tensor *t = op->tensors;
    int64_t rows = t[LS_ARG_X].shape.dims[0], in = t[LS_ARG_X].shape.dims[1], out = t[LS_ARG_W].shape.dims[1];
    bool forward = op->kind == LS_OP_DENSE_FORWARD;
    if (product == OUTPUTS)
        return (struct ls_gemm){.rows = rows,
                                .columns = out,
                                .depth = in,
                                .a = t[LS_ARG_X].data,
                                .b = t[LS_ARG_W].data,
                                .c = forward ? t[LS_ARG_Y].data : NULL};
    if (product == WEIGHTS)
        return (struct ls_gemm){.transpose_a = true,
                                .rows = in,
                                .columns = out,
                                .depth = rows,
                                .a = t[LS_ARG_X].data,
                                .b = t[LS_ARG_DY].data,
                                .c = forward ? NULL : t[LS_ARG_DW].data,
                                .adds = op->adds};
    return (struct ls_gemm){.transpose_b = true,
                            .rows = rows,
                            .columns = in,
                            .depth = out,
                            .a = t[LS_ARG_DY].data,
                            .b = t[LS_ARG_W].data,
                            .c = forward ? NULL : t[LS_ARG_DX].data};
}

static ls_status run_product(const struct ls_op *op, int product) {
    const struct dense_handle *handle = op->handle;
    struct ls_gemm gemm = dense_product(op, product);
    if (!gemm.c) return LS_OK;
    return handle ? ls_bfloat16_product_run(handle->products[product], &gemm, op->workspace) : ls_gemm_run(&gemm);
}

ls_status ls_cpu_dense_build(struct ls_device *device, struct ls_op *op) {
    if (!op->bfloat16) return LS_OK;
    LS_NEW(struct dense_handle, made, "a dense layer");
    ls_status status = LS_OK;
    op->handle = made;
    for (int i = 0; !status && i < PRODUCTS; i++) {
        const struct ls_gemm gemm = dense_product(op, i);
        if (!gemm.c) continue;
        status = ls_bfloat16_product_new(ls_cpu_library(device), &gemm, &made->products[i]);
        size_t workspace = status ? 0 : ls_bfloat16_product_workspace(made->products[i]);
        if (workspace > op->workspace_size) op->workspace_size = workspace;
    }
    if (status) ls_cpu_dense_discard(op);
    return status;
}

void ls_cpu_dense_discard(struct ls_op *op) {
    struct dense_handle *handle = op->handle;
    if (!handle) return;
    for (int i = 0; i < PRODUCTS; i++) ls_bfloat16_product_free(handle->products[i]);
    ls_free(handle);
    op->handle = NULL;
}

/* ---- runs ---- */

ls_status ls_cpu_dense_forward(const struct ls_op *op) {
    const ls_shape *shape = &op->tensors[LS_ARG_Y].shape;
    float *y = op->tensors[LS_ARG_Y].data;
    const float *b = op->tensors[LS_ARG_B].data;
    ls_status status = run_product(op, OUTPUTS);
    if (status) return status;
    if (op->activation == LS_RELU)
        add_bias_relu(y, b, (size_t)shape->dims[0], (size_t)shape->dims[1]);
    else if (b)
        add_bias(y, b, (size_t)shape->dims[0], (size_t)shape->dims[1]);
    return LS_OK;
}

ls_status ls_cpu_dense_backward(const struct ls_op *op) {
    const ls_shape *shape = &op->tensors[LS_ARG_DY].shape;
    float *dy = op->tensors[LS_ARG_DY].data, *db = op->tensors[LS_ARG_DB].data;
    size_t rows = (size_t)shape->dims[0], columns = (size_t)shape->dims[1];
    if (op->activation == LS_RELU) mask(dy, op->tensors[LS_ARG_Y].data, rows * columns);
    if (db) sum_columns(db, dy, rows, columns, op->adds);
    ls_status status = run_product(op, WEIGHTS);
    return status ? status : run_product(op, INPUTS);
}
