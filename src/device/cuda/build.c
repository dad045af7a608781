/* Builds an op: looks its kind up in the tables of kernels. */
#include "base/new.h"
#include "device/cuda/cuda.h"

static const struct ls_cuda_kind *find_row(enum ls_op_kind kind) {
    const struct ls_cuda_kind *const tables[] = {ls_cuda_image_kinds, ls_cuda_element_kinds, ls_cuda_product_kinds};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (tables[i][kind].run) return &tables[i][kind];
    return NULL;
}

/* Makes the op's device current first: the thread may have used another one. */
static ls_status run_op(const struct ls_op *op) {
    const struct ls_cuda_op *handle = ls_cuda_op_of(op);
    ls_status status = ls_cuda_enter(handle->device);
    return status ? status : handle->run(op);
}

/* LOCKSTEP_CUDA_SYNC: the op that fails is known by name, for nothing else has been queued. */
static ls_status run_and_wait(const struct ls_op *op) {
    const struct ls_cuda_op *handle = ls_cuda_op_of(op);
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    ls_status status = run_op(op);
    if (status) return status;
    cudaError_t error = cudaStreamIsCapturing(handle->device->stream, &capture);
    if (error != cudaSuccess || capture != cudaStreamCaptureStatusNone) return ls_cuda_launched(op, error);
    return ls_cuda_wait(handle->device, handle->device->stream, ls_op_name(op->kind));
}

ls_status ls_cuda_build(struct ls_device *base, struct ls_op *op) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_op_check(op);
    if (!status) status = ls_cuda_enter(device);
    if (status) return status;
    const struct ls_cuda_kind *kind = find_row(op->kind);
    if (!kind) return ls_fail(LS_UNIMPLEMENTED, "%s has no op '%s'", base->name, ls_op_name(op->kind));
    LS_NEW(struct ls_cuda_op, handle, "an op");
    *handle = (struct ls_cuda_op){.device = device, .run = kind->run};
    op->handle = handle;
    op->workspace_size = 0;
    op->run = ls_cuda_host()->wait_each_op ? run_and_wait : run_op;
    status = kind->build ? kind->build(device, op) : LS_OK;
    if (!status) return LS_OK;
    op->handle = NULL, op->run = op->renew = NULL;
    ls_free(handle);
    return status;
}

void ls_cuda_discard(struct ls_device *base, struct ls_op *op) {
    const struct ls_cuda_kind *kind = find_row(op->kind);
    if (!op->handle) return;
    (void)ls_cuda_enter((struct ls_cuda_device *)base);
    if (kind->discard) kind->discard(op);
    ls_free(op->handle);
    op->handle = NULL, op->run = op->renew = NULL;
}
