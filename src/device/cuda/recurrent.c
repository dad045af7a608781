/* Recurrent layers: of each position a product over all rows by cublasLt, then a kernel for the cell. The products have
 * their factors and results in the workspace, packed, so that one algorithm serves all positions. Mirrors the core of
 * keras.layers.LSTM and GRU. */
#include "base/new.h"
#include "device/cuda/elements.h"
#include "device/cuda/products.h"

struct recurrent {
    struct ls_cuda_product product;
    size_t factor, result, state; /* bytes of the workspace's pieces */
};

static bool goes_back(const struct ls_op *op) {
    return op->kind == LS_OP_RECURRENT_BACKWARD;
}

/* All but the position; of the workspace nothing yet. */
static struct ls_cuda_recurrent recurrent_position(const struct ls_op *op) {
    bool back = goes_back(op);
    const struct ls_tensor *t = op->tensors, *x = &t[back ? LS_ARG_DX : LS_ARG_X];
    return (struct ls_cuda_recurrent){.cell = op->cell,
                                      .dtype = x->dtype,
                                      .rows = x->shape.dims[0],
                                      .length = x->shape.dims[1],
                                      .units = t[LS_ARG_W].shape.dims[0],
                                      .gates = (int)ls_cell_gates(op->cell),
                                      .whole = t[back ? LS_ARG_DY : LS_ARG_Y].shape.rank == 3,
                                      .x = t[LS_ARG_X].data,
                                      .dy = t[LS_ARG_DY].data,
                                      .b = t[LS_ARG_B].data,
                                      .y = t[LS_ARG_Y].data,
                                      .before = t[LS_ARG_R].data,
                                      .dx = t[LS_ARG_DX].data,
                                      .dr = op->cell == LS_CELL_GRU ? t[LS_ARG_DR].data : NULL,
                                      .saved = t[LS_ARG_SAVED].data};
}

/* Forward product(R,G U) = factor(R,U) w; backward product(R,U) = factor(R,G U) w transposed. */
static struct ls_cuda_matrices recurrent_matrices(const struct ls_op *op, const struct ls_cuda_recurrent *n) {
    bool back = goes_back(op);
    int64_t columns = n->gates * n->units;
    return (struct ls_cuda_matrices){.rows = n->rows,
                                     .columns = back ? n->units : columns,
                                     .depth = back ? columns : n->units,
                                     .transpose_b = back,
                                     .dtype = n->dtype,
                                     .c_dtype = LS_FLOAT32,
                                     .a = n->factor,
                                     .b = op->tensors[LS_ARG_W].data,
                                     .c = n->product};
}

/* At build there is no workspace yet: places that are aligned like those in it. */
ls_status ls_cuda_recurrent_build(struct ls_cuda_device *device, struct ls_op *op) {
    (void)device;
    struct ls_cuda_recurrent n = recurrent_position(op);
    n.factor = (void *)(uintptr_t)LS_CUDA_PIECE;
    n.product = (float *)(uintptr_t)LS_CUDA_PIECE;
    const struct ls_cuda_matrices matrices = recurrent_matrices(op, &n);
    LS_NEW(struct recurrent, made, "a recurrent op");
    ls_status status = ls_cuda_product_build(op, &matrices, &made->product);
    if (status) {
        ls_free(made);
        return status;
    }
    made->factor = ls_cuda_piece((size_t)(n.rows * matrices.depth) * ls_dtype_size(n.dtype));
    made->result = ls_cuda_piece((size_t)(n.rows * matrices.columns) * sizeof(float));
    made->state = ls_cuda_piece((size_t)(n.rows * n.units) * sizeof(float));
    ls_cuda_need(op, made->factor + made->result + made->state + made->product.workspace);
    ((struct ls_cuda_op *)op->handle)->own = made;
    return LS_OK;
}

void ls_cuda_recurrent_discard(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    ls_free(handle->own);
    handle->own = NULL;
}

/* The first position that is gone through has no product. */
ls_status ls_cuda_recurrent_run(const struct ls_op *op) {
    struct recurrent *own = ls_cuda_op_of(op)->own;
    struct ls_cuda_recurrent n = recurrent_position(op);
    char *pieces = ls_cuda_workspace(op), *scratch = pieces + own->factor + own->result + own->state;
    bool back = goes_back(op);
    n.factor = pieces;
    n.product = (float *)(pieces + own->factor);
    n.state = (float *)(pieces + own->factor + own->result);
    const struct ls_cuda_matrices matrices = recurrent_matrices(op, &n);
    ls_status status = LS_OK;
    for (int64_t k = 0; !status && k < n.length; k++) {
        n.t = back ? n.length - 1 - k : k;
        if (k) status = ls_cuda_product_run(op, &own->product, &matrices, scratch);
        if (status) return status;
        status = ls_cuda_launched(op, back ? ls_cuda_recurrent_backward(&n, ls_cuda_stream(op))
                                           : ls_cuda_recurrent_forward(&n, ls_cuda_stream(op)));
    }
    return status;
}
