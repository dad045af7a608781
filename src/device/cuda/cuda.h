/* The GPU device from the inside: what its files share. All of it is C; kernels are in .cu files, of which each
 * declares its launchers in kernels.h. */
#pragma once
#include <cuda_runtime_api.h>

#include "base/status.h"
#include "device/device.h"

struct ls_cuda_device {
    struct ls_device device;
    int index;
    cudaStream_t stream; /* ops and copies in their order */
    cudaStream_t copies; /* send and receive */
    void *blas, *dnn;    /* cublasLtHandle_t, cudnnHandle_t: made by the first op that needs them */
    int multiprocessors;
};

/* What products have made on the device: its close calls this, when all that was queued is done. */
void ls_cuda_products_close(struct ls_cuda_device *device);

/* What op->handle points to, for every kind. */
struct ls_cuda_op {
    struct ls_cuda_device *device;
    void *own; /* of the kind; its discard frees it */
};

static inline const struct ls_cuda_op *ls_cuda_op_of(const struct ls_op *op) {
    return op->handle;
}
static inline cudaStream_t ls_cuda_stream(const struct ls_op *op) {
    return ls_cuda_op_of(op)->device->stream;
}
/* OK, or INTERNAL (RESOURCE_EXHAUSTED for memory) naming the device, what was done and CUDA's own words. */
ls_status ls_cuda_check(const struct ls_cuda_device *device, cudaError_t error, const char *what);
/* The same for a launch, naming the op. */
ls_status ls_cuda_launched(const struct ls_op *op, cudaError_t error);

/* One row a kind of op, as for the CPU: run queues on the device's stream and never waits. build and discard: NULL
 * where there is nothing to prepare; build may set op->workspace_size and ((struct ls_cuda_op *)op->handle)->own. */
struct ls_cuda_kind {
    ls_op_run_fn *run;
    ls_status (*build)(struct ls_cuda_device *device, struct ls_op *op);
    void (*discard)(struct ls_op *op);
};
/* One table a room of kernels, indexed by enum ls_op_kind; run NULL: not in this one. plugin.c looks through them. */
extern const struct ls_cuda_kind
    ls_cuda_image_kinds[LS_OP_KIND_COUNT]; /* image.c: batch norm, pools, pads, activations */
extern const struct ls_cuda_kind ls_cuda_element_kinds[LS_OP_KIND_COUNT]; /* elements.c: losses, optimizers, elements */
extern const struct ls_cuda_kind ls_cuda_product_kinds[LS_OP_KIND_COUNT]; /* products.c: dense, convolutions */
