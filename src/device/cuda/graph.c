/* A list of ops as one CUDA graph, which the driver queues at once. */
#include "device/cuda/cuda.h"

/* Other threads may go on with their own calls of CUDA. Between begin and end calls queue nothing; they are recorded. A
 * replay then costs one call of the driver for all ops, where each launch costs some microseconds of the host. */
ls_status ls_cuda_capture_begin(struct ls_device *base) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    cudaError_t error = cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal);
    return ls_cuda_check(device, error, "capturing ops");
}

ls_status ls_cuda_capture_end(struct ls_device *base, void **graph) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    cudaGraph_t captured = NULL;
    cudaGraphExec_t made = NULL;
    *graph = NULL;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    cudaError_t error = cudaStreamEndCapture(device->stream, &captured);
    if (error == cudaSuccess) error = cudaGraphInstantiate(&made, captured, 0);
    if (captured) (void)cudaGraphDestroy(captured);
    if (error == cudaSuccess) *graph = made;
    return ls_cuda_check(device, error, "capturing ops");
}

ls_status ls_cuda_replay(struct ls_device *base, void *graph) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    return status ? status : ls_cuda_check(device, cudaGraphLaunch(graph, device->stream), "replaying ops");
}

/* The graph may still be queued. */
void ls_cuda_drop(struct ls_device *base, void *graph) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    if (!graph || ls_cuda_enter(device)) return;
    (void)ls_cuda_wait(device, device->stream, "computing");
    (void)cudaGraphExecDestroy(graph);
}
