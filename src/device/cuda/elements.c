/* Ops on elements, and the table of all kinds that this room has. */
#include "device/cuda/elements.h"

#include "base/shape.h"
#include "device/cuda/kernels_elements.h"

ls_status ls_cuda_keep(struct ls_cuda_device *device, struct ls_op *op, size_t size) {
    void *memory = NULL;
    ls_status status = device->device.ops->allocate(&device->device, size, &memory);
    if (!status) ((struct ls_cuda_op *)op->handle)->own = memory;
    return status;
}

void ls_cuda_let_go(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    if (handle->own) handle->device->device.ops->release(&handle->device->device, handle->own);
    handle->own = NULL;
}

/* ---- sums, products, scaling, dropout, casts ---- */

static struct ls_cuda_elements elements_of(const struct ls_op *op, int x, int w) {
    return (struct ls_cuda_elements){.y = op->tensors[LS_ARG_Y].data,
                                     .x = op->tensors[x].data,
                                     .w = op->tensors[w].data,
                                     .dtype = op->tensors[LS_ARG_X].dtype,
                                     .count = ls_shape_count(&op->tensors[LS_ARG_X].shape)};
}

static ls_status add_run(const struct ls_op *op) {
    const struct ls_cuda_elements elements = elements_of(op, LS_ARG_X, LS_ARG_W);
    return ls_cuda_launched(op, ls_cuda_add(&elements, ls_cuda_stream(op)));
}

static ls_status multiply_run(const struct ls_op *op) {
    const struct ls_cuda_elements elements = elements_of(op, LS_ARG_X, LS_ARG_W);
    return ls_cuda_launched(op, ls_cuda_multiply(&elements, ls_cuda_stream(op)));
}

static ls_status scale_run(const struct ls_op *op) {
    const struct ls_cuda_elements elements = elements_of(op, LS_ARG_X, LS_ARG_X);
    return ls_cuda_launched(op, ls_cuda_scale(&elements, op->alpha, op->beta, ls_cuda_stream(op)));
}

static ls_status merge_run(const struct ls_op *op) {
    const struct ls_cuda_elements elements = elements_of(op, LS_ARG_Y, LS_ARG_X);
    return ls_cuda_launched(op, ls_cuda_merge(&elements, op->alpha, *op->scale, ls_cuda_stream(op)));
}

static ls_status cast_run(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    return ls_cuda_launched(
        op, ls_cuda_cast(y->data, y->dtype, x->data, x->dtype, ls_shape_count(&x->shape), ls_cuda_stream(op)));
}

static ls_status expand_run(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y], *w = &op->tensors[LS_ARG_W];
    const struct ls_cuda_expansion expansion = {
        y->data, y->dtype, x->data, w->data, (int)w->shape.dims[0], ls_shape_count(&x->shape)};
    return ls_cuda_launched(op, ls_cuda_expand(&expansion, ls_cuda_stream(op)));
}

static ls_status dropout_build(struct ls_cuda_device *device, struct ls_op *op) {
    return ls_cuda_keep(device, op, sizeof(uint64_t));
}

static ls_status dropout_run(const struct ls_op *op) {
    const struct ls_cuda_dropout dropout = {.elements = elements_of(op, LS_ARG_X, LS_ARG_X),
                                            .rate = op->alpha,
                                            .random = op->random,
                                            .step = op->step,
                                            .seed = ls_cuda_kept(op)};
    return ls_cuda_launched(op, ls_cuda_dropout(&dropout, ls_cuda_stream(op)));
}

/* ---- columns ---- */

static ls_status copy_columns(const struct ls_op *op) {
    bool place = op->kind == LS_OP_PLACE;
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    int64_t size = (int64_t)ls_dtype_size(x->dtype), skip = op->column * size;
    const struct ls_cuda_copied_lines lines = {.to = (char *)y->data + (place ? skip : 0),
                                               .from = (const char *)x->data + (place ? 0 : skip),
                                               .to_pitch = y->shape.dims[1] * size,
                                               .from_pitch = x->shape.dims[1] * size,
                                               .width = (place ? x : y)->shape.dims[1] * size,
                                               .rows = x->shape.dims[0]};
    return ls_cuda_launched(op, ls_cuda_copy_lines(&lines, ls_cuda_stream(op)));
}

/* ---- rows of a table ---- */

static ls_status run_embedding(const struct ls_op *op) {
    bool backward = op->kind == LS_OP_EMBEDDING_BACKWARD;
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *table = &op->tensors[backward ? LS_ARG_DW : LS_ARG_W];
    const struct ls_tensor *rows = &op->tensors[backward ? LS_ARG_DY : LS_ARG_Y];
    const struct ls_cuda_embedding embedding = {.ids = x->data,
                                                .integers = x->dtype == LS_INT32,
                                                .table = table->data,
                                                .rows = rows->data,
                                                .dtype = rows->dtype,
                                                .count = ls_shape_count(&x->shape),
                                                .limit = table->shape.dims[0],
                                                .width = table->shape.dims[1],
                                                .adds = op->adds,
                                                .workspace = op->workspace};
    cudaStream_t stream = ls_cuda_stream(op);
    return ls_cuda_launched(op, backward ? ls_cuda_embedding_backward(&embedding, stream)
                                         : ls_cuda_embedding_forward(&embedding, stream));
}

static ls_status embedding_backward_build(struct ls_cuda_device *device, struct ls_op *op) {
    int64_t count = ls_shape_count(&op->tensors[LS_ARG_X].shape);
    if (count > INT32_MAX)
        return ls_fail(LS_UNIMPLEMENTED, "%s: %s takes at most %d ids, not %lld", ls_op_name(op->kind),
                       device->device.name, INT32_MAX, (long long)count);
    op->workspace_size = ls_cuda_embedding_workspace(count);
    return LS_OK;
}

/* ---- what a step tells of itself ---- */

static ls_status finite_build(struct ls_cuda_device *device, struct ls_op *op) {
    return ls_cuda_keep(device, op, LS_CUDA_FINITE_BLOCKS * sizeof(int64_t));
}

static ls_status finite_run(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X];
    return ls_cuda_launched(
        op, ls_cuda_finite(x->data, ls_shape_count(&x->shape), ls_cuda_kept(op), op->value, ls_cuda_stream(op)));
}

static ls_status report_build(struct ls_cuda_device *device, struct ls_op *op) {
    int64_t count = op->tensors[LS_ARG_Y].shape.dims[0];
    if (count <= LS_CUDA_REPORT_VALUES) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED, "%s has no op '%s' of %lld elements, but of at most %d", device->device.name,
                   ls_op_name(op->kind), (long long)count, LS_CUDA_REPORT_VALUES);
}

static ls_status report_run(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_Y];
    const struct ls_cuda_report report = {
        .y = y->data, .count = y->shape.dims[0], .sums = op->sums, .gathered = op->gathered, .values = op->report};
    return ls_cuda_launched(op, ls_cuda_report(&report, ls_cuda_stream(op)));
}

#define LOSS                                                                                                           \
    { ls_cuda_loss_run, ls_cuda_loss_build, ls_cuda_let_go }
#define ATTENTION                                                                                                      \
    { ls_cuda_attention_run, ls_cuda_attention_build, ls_cuda_let_go }
#define RECURRENT                                                                                                      \
    { ls_cuda_recurrent_run, ls_cuda_recurrent_build, ls_cuda_recurrent_discard }
#define OPTIMIZER                                                                                                      \
    { ls_cuda_optimizer_run, ls_cuda_optimizer_build, ls_cuda_optimizer_discard }
const struct ls_cuda_kind ls_cuda_element_kinds[LS_OP_KIND_COUNT] = {
    [LS_OP_ADD] = {.run = add_run},
    [LS_OP_MULTIPLY] = {.run = multiply_run},
    [LS_OP_SCALE] = {.run = scale_run},
    [LS_OP_PLACE] = {.run = copy_columns},
    [LS_OP_TAKE] = {.run = copy_columns},
    [LS_OP_EMBEDDING_FORWARD] = {.run = run_embedding},
    [LS_OP_EMBEDDING_BACKWARD] = {run_embedding, embedding_backward_build, NULL},
    [LS_OP_ATTENTION_FORWARD] = ATTENTION,
    [LS_OP_ATTENTION_BACKWARD] = ATTENTION,
    [LS_OP_ATTENTION_DECODE] = ATTENTION,
    [LS_OP_POSITION_FORWARD] = {.run = ls_cuda_position_run},
    [LS_OP_POSITION_BACKWARD] = {.run = ls_cuda_position_run},
    [LS_OP_RECURRENT_FORWARD] = RECURRENT,
    [LS_OP_RECURRENT_BACKWARD] = RECURRENT,
    [LS_OP_DROPOUT] = {dropout_run, dropout_build, ls_cuda_let_go},
    [LS_OP_SOFTMAX_CROSSENTROPY] = LOSS,
    [LS_OP_CROSSENTROPY] = LOSS,
    [LS_OP_SIGMOID_CROSSENTROPY] = LOSS,
    [LS_OP_BINARY_CROSSENTROPY] = LOSS,
    [LS_OP_SQUARED_ERROR] = LOSS,
    [LS_OP_ABSOLUTE_ERROR] = LOSS,
    [LS_OP_HUBER] = LOSS,
    [LS_OP_METRIC] = {ls_cuda_metric_run, ls_cuda_metric_build, ls_cuda_let_go},
    [LS_OP_ONE_HOT] = {.run = ls_cuda_one_hot_run},
    [LS_OP_MERGE] = {.run = merge_run},
    [LS_OP_SGD] = OPTIMIZER,
    [LS_OP_ADAM] = OPTIMIZER,
    [LS_OP_RMSPROP] = OPTIMIZER,
    [LS_OP_LAMB] = OPTIMIZER,
    [LS_OP_PENALTY] = {ls_cuda_penalty_run, ls_cuda_optimizer_build, ls_cuda_optimizer_discard},
    [LS_OP_CAST] = {.run = cast_run},
    [LS_OP_EXPAND] = {.run = expand_run},
    [LS_OP_FINITE] = {finite_run, finite_build, ls_cuda_let_go},
    [LS_OP_REPORT] = {report_run, report_build, NULL},
};
