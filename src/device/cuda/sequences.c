/* Attention and positions: the arguments of their kernels. */
#include "device/cuda/elements.h"

#include "base/memory.h"
#include "base/shape.h"
#include "device/cuda/kernels_elements.h"
#include "device/op_layers.h"
#include "device/rope.h"

/* The table of rope is kept on the device. */
static ls_status upload_turns(struct ls_cuda_device *device, struct ls_op *op, int64_t length, int64_t width) {
    size_t size = (size_t)(length * width) * sizeof(float);
    LS_CLEANUP(ls_free_pointer) float *turns = ls_alloc(size);
    if (!turns) return ls_fail_memory("an attention's table of angles", size);
    ls_rope_fill(turns, length, width, op->attention.rope_theta);
    ls_status status = ls_cuda_keep(device, op, size);
    if (status) return status;
    status = device->device.ops->copy_in(&device->device, ls_cuda_op_of(op)->own, turns, size);
    if (status) ls_cuda_let_go(op);
    return status;
}

/* All positions that there may be. */
static int64_t context_of(const struct ls_op *op) {
    const struct ls_tensor *kept = &op->tensors[LS_ARG_KEPT];
    return kept->data ? kept->shape.dims[3] : op->tensors[LS_ARG_X].shape.dims[1];
}

ls_status ls_cuda_attention_build(struct ls_cuda_device *device, struct ls_op *op) {
    const ls_shape *x = &op->tensors[LS_ARG_X].shape;
    int64_t width = ls_op_sequence_width(&op->attention, x);
    if (width > LS_CUDA_HEAD_MOST)
        return ls_fail(LS_UNIMPLEMENTED, "%s: %s takes heads of at most %d channels, not %lld", ls_op_name(op->kind),
                       device->device.name, LS_CUDA_HEAD_MOST, (long long)width);
    return op->attention.rope ? upload_turns(device, op, context_of(op), width) : LS_OK;
}

ls_status ls_cuda_attention_run(const struct ls_op *op) {
    const struct ls_tensor *t = op->tensors;
    const ls_shape *x = &t[LS_ARG_X].shape;
    const struct ls_cuda_attention attention = {.asked = op->attention,
                                                .x = t[LS_ARG_X].data,
                                                .dy = t[LS_ARG_DY].data,
                                                .y = t[LS_ARG_Y].data,
                                                .dx = t[LS_ARG_DX].data,
                                                .dtype = t[LS_ARG_X].dtype,
                                                .saved = t[LS_ARG_SAVED].data,
                                                .turns = ls_cuda_kept(op),
                                                .rows = x->dims[0],
                                                .length = x->dims[1],
                                                .width = ls_op_sequence_width(&op->attention, x),
                                                .kept = t[LS_ARG_KEPT].data,
                                                .at = t[LS_ARG_AT].data,
                                                .context = context_of(op)};
    cudaStream_t stream = ls_cuda_stream(op);
    bool back = op->kind == LS_OP_ATTENTION_BACKWARD;
    return ls_cuda_launched(op, attention.kept ? ls_cuda_attention_decode(&attention, stream)
                                : back         ? ls_cuda_attention_backward(&attention, stream)
                                               : ls_cuda_attention_forward(&attention, stream));
}

ls_status ls_cuda_position_run(const struct ls_op *op) {
    bool backward = op->kind == LS_OP_POSITION_BACKWARD;
    const struct ls_tensor *x = &op->tensors[backward ? LS_ARG_DY : LS_ARG_X];
    const struct ls_cuda_positions positions = {.y = op->tensors[LS_ARG_Y].data,
                                                .x = x->data,
                                                .b = op->tensors[backward ? LS_ARG_DB : LS_ARG_B].data,
                                                .dtype = x->dtype,
                                                .rows = x->shape.dims[0],
                                                .count = ls_shape_count(&x->shape) / x->shape.dims[0],
                                                .at = op->tensors[LS_ARG_AT].data,
                                                .channels = x->shape.dims[2]};
    cudaStream_t stream = ls_cuda_stream(op);
    return ls_cuda_launched(op, backward ? ls_cuda_position_backward(&positions, stream)
                                         : ls_cuda_position_forward(&positions, stream));
}
