/* Dense layers, and convolutions of 1 x 1 elements, stride 1 and no padding, which are the same over all positions of
 * all images. The bias comes with the product where cublasLt can do that; ReLU by a kernel of our own, so that NaN
 * stays. Small layers in float32 go to kernels of our own (small_dense.cu), which are one launch each. Mirrors
 * tf.keras.layers.Dense. */
#include "device/cuda/kernels_elements.h"
#include "base/new.h"
#include "device/cuda/products.h"

/* y(rows, out) = x(rows, in) w(in, out). */
struct dense {
    int64_t rows, in, out;
    struct ls_cuda_product forward, weights, inputs; /* those that the op's kind has */
    size_t bias; /* bytes of the bias in y's type, at the workspace's beginning; 0 if it is used as it is */
    bool small;
};

static bool does_forward(const struct ls_op *op) {
    return op->kind == LS_OP_DENSE_FORWARD || op->kind == LS_OP_CONVOLUTION_FORWARD;
}
static bool does_weights(const struct ls_op *op) {
    return (op->kind == LS_OP_DENSE_BACKWARD || op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS) &&
           op->tensors[LS_ARG_DW].data;
}
static bool does_inputs(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA ||
           (op->kind == LS_OP_DENSE_BACKWARD && op->tensors[LS_ARG_DX].data);
}
static bool does_sums(const struct ls_op *op) {
    return op->kind != LS_OP_CONVOLUTION_BACKWARD_DATA && op->tensors[LS_ARG_DB].data;
}
static bool does_relu(const struct ls_op *op) {
    return (op->kind == LS_OP_DENSE_FORWARD || op->kind == LS_OP_DENSE_BACKWARD) && op->activation == LS_RELU;
}

static void measure_sizes(const struct ls_op *op, struct dense *made) {
    const ls_shape *w = &op->tensors[does_weights(op) ? LS_ARG_DW : LS_ARG_W].shape;
    const ls_shape *out = &op->tensors[does_forward(op) ? LS_ARG_Y : LS_ARG_DY].shape;
    made->in = w->dims[w->rank - 2];
    made->out = w->dims[w->rank - 1];
    made->rows = 1;
    for (int i = 0; i + 1 < out->rank; i++) made->rows *= out->dims[i];
}

/* ---- small layers ---- */

static bool is_small(const struct ls_op *op, const struct dense *d) {
    const struct ls_tensor *out = &op->tensors[does_forward(op) ? LS_ARG_Y : LS_ARG_DY];
    bool dense = op->kind == LS_OP_DENSE_FORWARD || (op->kind == LS_OP_DENSE_BACKWARD && does_weights(op));
    int64_t depth = does_forward(op) ? d->in : d->rows > d->out ? d->rows : d->out;
    return dense && !op->tf32 && !op->adds && op->tensors[LS_ARG_W].dtype == LS_FLOAT32 && out->dtype == LS_FLOAT32 &&
           depth <= LS_CUDA_SMALL_DEPTH && d->rows * d->in * d->out <= LS_CUDA_SMALL_PRODUCTS;
}

static ls_status run_small(const struct ls_op *op, const struct dense *d) {
    const struct ls_tensor *tensors = op->tensors;
    const struct ls_cuda_small_dense small = {.rows = (int)d->rows,
                                              .in = (int)d->in,
                                              .out = (int)d->out,
                                              .relu = does_relu(op),
                                              .x = tensors[LS_ARG_X].data,
                                              .w = tensors[LS_ARG_W].data,
                                              .b = tensors[LS_ARG_B].data,
                                              .dy = tensors[LS_ARG_DY].data,
                                              .y = tensors[LS_ARG_Y].data,
                                              .dw = tensors[LS_ARG_DW].data,
                                              .db = tensors[LS_ARG_DB].data,
                                              .dx = tensors[LS_ARG_DX].data};
    cudaStream_t stream = ls_cuda_stream(op);
    return ls_cuda_launched(op, does_forward(op) ? ls_cuda_small_dense_forward(&small, stream)
                                                 : ls_cuda_small_dense_backward(&small, stream));
}

/* ---- forward ---- */

/* The bias in y's type; at build, when there is no workspace yet, a place that is aligned like one. */
static const void *bias_of(const struct ls_op *op, const struct dense *d) {
    const struct ls_tensor *bias = &op->tensors[LS_ARG_B];
    if (!bias->data || op->tensors[LS_ARG_Y].dtype == LS_FLOAT32) return bias->data;
    return d->bias ? ls_cuda_workspace(op) : (const void *)(uintptr_t)LS_CUDA_PIECE;
}

static struct ls_cuda_matrices forward_of(const struct ls_op *op, const struct dense *d) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    return (struct ls_cuda_matrices){.rows = d->rows,
                                     .columns = d->out,
                                     .depth = d->in,
                                     .dtype = x->dtype,
                                     .c_dtype = y->dtype,
                                     .a = x->data,
                                     .b = op->tensors[LS_ARG_W].data,
                                     .bias = does_relu(op) ? NULL : bias_of(op, d),
                                     .c = y->data};
}

static ls_status build_forward(struct ls_op *op, struct dense *d) {
    const struct ls_cuda_matrices matrices = forward_of(op, d);
    bool rounded = op->tensors[LS_ARG_Y].dtype != LS_FLOAT32;
    ls_status status = ls_cuda_product_build(op, &matrices, &d->forward);
    if (status) return status;
    if (d->forward.biased && rounded) d->bias = ls_cuda_piece((size_t)d->out * sizeof(uint16_t));
    ls_cuda_need(op, d->bias + d->forward.workspace);
    return LS_OK;
}

static ls_status run_forward(const struct ls_op *op, struct dense *d) {
    const struct ls_tensor *bias = &op->tensors[LS_ARG_B], *y = &op->tensors[LS_ARG_Y];
    const struct ls_cuda_matrices matrices = forward_of(op, d);
    ls_status status = LS_OK;
    if (d->bias)
        status = ls_cuda_launched(
            op, ls_cuda_cast(ls_cuda_workspace(op), y->dtype, bias->data, LS_FLOAT32, d->out, ls_cuda_stream(op)));
    if (!status) status = ls_cuda_product_run(op, &d->forward, &matrices, ls_cuda_workspace(op) + d->bias);
    if (status || !bias->data || d->forward.biased) return status;
    const struct ls_cuda_columns columns = {y->data,  (size_t)d->rows,    (size_t)d->out,
                                            y->dtype, ls_cuda_stream(op), false};
    return ls_cuda_launched(op, ls_cuda_add_bias(&columns, bias->data, does_relu(op)));
}

/* ---- backward ---- */

static struct ls_cuda_matrices weights_of(const struct ls_op *op, const struct dense *d) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *dw = &op->tensors[LS_ARG_DW];
    return (struct ls_cuda_matrices){.rows = d->in,
                                     .columns = d->out,
                                     .depth = d->rows,
                                     .transpose_a = true,
                                     .dtype = x->dtype,
                                     .c_dtype = dw->dtype,
                                     .a = x->data,
                                     .b = op->tensors[LS_ARG_DY].data,
                                     .c = dw->data,
                                     .adds = op->adds};
}

static struct ls_cuda_matrices inputs_of(const struct ls_op *op, const struct dense *d) {
    const struct ls_tensor *dy = &op->tensors[LS_ARG_DY], *dx = &op->tensors[LS_ARG_DX];
    return (struct ls_cuda_matrices){.rows = d->rows,
                                     .columns = d->in,
                                     .depth = d->out,
                                     .transpose_b = true,
                                     .dtype = dy->dtype,
                                     .c_dtype = dx->dtype,
                                     .a = dy->data,
                                     .b = op->tensors[LS_ARG_W].data,
                                     .c = dx->data};
}

static ls_status build_backward(struct ls_op *op, struct dense *d) {
    const struct ls_cuda_matrices weights = weights_of(op, d), inputs = inputs_of(op, d);
    ls_status status = LS_OK;
    if (does_sums(op)) ls_cuda_need(op, ls_cuda_sum_columns_workspace((size_t)d->rows, (size_t)d->out));
    if (does_weights(op)) status = ls_cuda_product_build(op, &weights, &d->weights);
    if (!status && does_inputs(op)) status = ls_cuda_product_build(op, &inputs, &d->inputs);
    ls_cuda_need(op, d->weights.workspace);
    ls_cuda_need(op, d->inputs.workspace);
    return status;
}

/* One after the other; so they share the workspace. */
static ls_status run_backward(const struct ls_op *op, struct dense *d) {
    const struct ls_cuda_matrices weights = weights_of(op, d), inputs = inputs_of(op, d);
    const struct ls_tensor *dy = &op->tensors[LS_ARG_DY];
    ls_status status = LS_OK;
    if (does_sums(op)) {
        const struct ls_cuda_columns columns = {dy->data,  (size_t)d->rows,    (size_t)d->out,
                                                dy->dtype, ls_cuda_stream(op), op->adds};
        const void *mask = does_relu(op) ? op->tensors[LS_ARG_Y].data : NULL;
        status = ls_cuda_launched(
            op, ls_cuda_sum_columns(&columns, mask, op->tensors[LS_ARG_DB].data, ls_cuda_workspace(op)));
    }
    if (!status && does_weights(op)) status = ls_cuda_product_run(op, &d->weights, &weights, ls_cuda_workspace(op));
    if (!status && does_inputs(op)) status = ls_cuda_product_run(op, &d->inputs, &inputs, ls_cuda_workspace(op));
    return status;
}

/* ---- both ---- */

ls_status ls_cuda_dense_build(struct ls_cuda_device *device, struct ls_op *op) {
    (void)device;
    LS_NEW(struct dense, made, "a dense layer");
    ((struct ls_cuda_op *)op->handle)->own = made;
    op->workspace_size = 0;
    measure_sizes(op, made);
    made->small = is_small(op, made);
    if (made->small) return LS_OK;
    ls_status status = does_forward(op) ? build_forward(op, made) : build_backward(op, made);
    if (status) ls_cuda_products_discard(op);
    return status;
}

ls_status ls_cuda_dense_run(const struct ls_op *op) {
    struct dense *d = ls_cuda_op_of(op)->own;
    if (d->small) return run_small(op, d);
    return does_forward(op) ? run_forward(op, d) : run_backward(op, d);
}
