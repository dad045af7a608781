/* The GPU device from the inside: the declarations that its files share. All of it is C; kernels are in .cu files,
 * whose launchers are declared in kernels_*.h. */
#pragma once
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "device/cuda/fault.h"
#include "device/device.h"
#include "device/device_group.h"
#include "device/plugin.h"

/* Three streams: stream runs ops and copies in their order, sends runs copies to the host beside them, and receives
 * runs copies from the host or other devices beside them. Ops see the received data after settle. A caller that feeds
 * receives from a stream of its own makes receives wait for that stream. */
struct ls_cuda_device {
    struct ls_device device;
    int index;
    cudaStream_t stream, sends, receives;
    void *blas, *dnn; /* cublasLtHandle_t, cudnnHandle_t: made by the first op that needs them */
    int multiprocessors;
    struct ls_cuda_fault *fault;
    atomic_bool lost;        /* it did not answer in time */
    atomic_llong usual_wait; /* nanoseconds of the last wait for ops that was no moment */
    pthread_mutex_t joining; /* guards joint, which orders one stream behind another, and: */
    cudaEvent_t joint;
    uint64_t opened;                      /* to the peers with these indices, for their copies from here */
    cudaEvent_t sent[LS_DEVICE_MARKS];    /* NULL until the mark is used */
    cudaEvent_t stamps[LS_DEVICE_STAMPS]; /* likewise */
};
/* fault.c: open allocates the record through the device's queue, close releases it. report, called when all ops that
 * were queued are done: INVALID_ARGUMENT in the words that the CPU has for it, and the record is empty again. */
ls_status ls_cuda_fault_open(struct ls_cuda_device *device);
void ls_cuda_fault_close(struct ls_cuda_device *device);
ls_status ls_cuda_fault_report(struct ls_cuda_device *device);

/* Frees the handles that products have made on the device. The device's close calls it when all queued work is done. */
void ls_cuda_products_close(struct ls_cuda_device *device);

/* The struct that op->handle points to, for every kind. */
struct ls_cuda_op {
    struct ls_cuda_device *device;
    void *own;                      /* of the kind; its discard frees it */
    ls_op_run_fn *run;              /* of the kind */
    const struct ls_cuda_kind *way; /* of a convolution: the kind that build has chosen */
};

static inline const struct ls_cuda_op *ls_cuda_op_of(const struct ls_op *op) {
    return op->handle;
}
static inline cudaStream_t ls_cuda_stream(const struct ls_op *op) {
    return ls_cuda_op_of(op)->device->stream;
}

/* status.c: the functions that lockstep gives to the plugin. */
const struct ls_plugin_host *ls_cuda_host(void);
/* Returns OK, or INTERNAL (RESOURCE_EXHAUSTED for memory); the error names the device, the failed work (what) and
 * CUDA's own words. */
ls_status ls_cuda_check(const struct ls_cuda_device *device, cudaError_t error, const char *what);
/* The same for a launch, naming the op. */
ls_status ls_cuda_launched(const struct ls_op *op, cudaError_t error);

/* device.c */
ls_status ls_cuda_open(int index, int threads, struct ls_device **device);
/* Makes the device that of the calling thread, which CUDA asks for before most calls. */
ls_status ls_cuda_enter(const struct ls_cuda_device *device);
/* Lets kernels on peer, NCCL's say, read and write device's memory, where the two can reach each other. */
ls_status ls_cuda_admit(const struct ls_cuda_device *device, const struct ls_cuda_device *peer);
extern const struct ls_device_ops ls_cuda_device_ops;
/* graph.c */
ls_status ls_cuda_compile(struct ls_device *device, const struct ls_op *const *ops, size_t count,
                          struct ls_program **program);
/* queue.c, peer.c */
extern const struct ls_device_queue_ops ls_cuda_queue_ops;
ls_status ls_cuda_fetch(struct ls_device *device, void *to, const struct ls_device *peer, int mark, const void *from,
                        size_t size);
ls_status ls_cuda_add_beside(struct ls_device *device, float *to, const float *a, const float *b, size_t count);
/* Until all is done that is queued on one of the device's streams, within the host's limit. */
ls_status ls_cuda_wait(struct ls_cuda_device *device, cudaStream_t stream, const char *what);
cudaError_t ls_cuda_answer(cudaError_t error); /* of a query; NotReady stays no thread's last error */
/* Orders streams: work queued on later after this call follows all work queued on earlier before it. */
ls_status ls_cuda_join(struct ls_cuda_device *device, cudaStream_t earlier, cudaStream_t later);
/* build.c */
ls_status ls_cuda_build(struct ls_device *device, struct ls_op *op);
void ls_cuda_discard(struct ls_device *device, struct ls_op *op);
/* describe.c: texts for lockstep info and for the comparison between workers. */
const char *ls_cuda_unavailable(void);
int ls_cuda_count(void);
void ls_cuda_describe(char *text, size_t size);
void ls_cuda_fingerprint(char *text, size_t size);
void ls_cuda_libraries(char *text, size_t size);
/* group.c: NCCL; NULL, and why is written: it does not fit, or, in group_none.c, the build is without it. */
const struct ls_device_group_ops *ls_cuda_group(char *why, size_t size);

/* One row a kind of op, as for the CPU: run queues on the device's stream and never waits. build and discard: NULL
 * where there is nothing to prepare; build may set op->workspace_size and ((struct ls_cuda_op *)op->handle)->own. */
struct ls_cuda_kind {
    ls_op_run_fn *run;
    ls_status (*build)(struct ls_cuda_device *device, struct ls_op *op);
    void (*discard)(struct ls_op *op);
};
/* One table a room of kernels, indexed by enum ls_op_kind; run is NULL if the room does not have the kind. build.c
 * looks through them. */
extern const struct ls_cuda_kind ls_cuda_image_kinds[LS_OP_KIND_COUNT]; /* image.c: norms, pools, pads, activations */
extern const struct ls_cuda_kind
    ls_cuda_element_kinds[LS_OP_KIND_COUNT]; /* elements.c: losses, optimizers, elements, sequences */
extern const struct ls_cuda_kind ls_cuda_product_kinds[LS_OP_KIND_COUNT]; /* products.c: dense, convolutions */
