/* A list of ops as one CUDA graph, which the driver queues at once. */
#include "base/kept_error.h"
#include "base/new.h"
#include "device/cuda/cuda.h"

struct graph {
    struct ls_program program;
    struct ls_cuda_device *device;
    cudaGraphExec_t made;
};

static ls_status run_graph(struct ls_program *program) {
    const struct graph *graph = (const struct graph *)program;
    ls_status status = ls_cuda_enter(graph->device);
    cudaError_t error = status ? cudaSuccess : cudaGraphLaunch(graph->made, graph->device->stream);
    return status ? status : ls_cuda_check(graph->device, error, "replaying ops");
}

/* The graph may still be queued. */
static void drop_graph(struct ls_program *program) {
    struct graph *graph = (struct graph *)program;
    if (!ls_cuda_enter(graph->device)) {
        (void)ls_cuda_wait(graph->device, graph->device->stream, "computing");
        (void)cudaGraphExecDestroy(graph->made);
    }
    ls_free(graph);
}

/* Other threads may go on with their own calls of CUDA. The calls of these ops queue nothing; they are recorded. A run
 * then costs one call of the driver for all ops, where each launch costs some microseconds of the host. */
static ls_status capture(const struct graph *graph, const struct ls_op *const *ops, size_t count,
                         cudaGraph_t *captured) {
    struct ls_cuda_device *device = graph->device;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    cudaError_t error = cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal);
    status = ls_cuda_check(device, error, "capturing ops");
    if (status) return status;
    for (size_t i = 0; !status && i < count; i++) status = ops[i]->run(ops[i]);
    struct ls_kept_error kept = ls_kept_error_of(status);
    status = ls_cuda_enter(device);
    error = cudaStreamEndCapture(device->stream, captured);
    if (!status) status = ls_cuda_check(device, error, "capturing ops");
    return kept.status ? ls_kept_error_raise(&kept) : status;
}

ls_status ls_cuda_compile(struct ls_device *base, const struct ls_op *const *ops, size_t count,
                          struct ls_program **program) {
    cudaGraph_t captured = NULL;
    LS_NEW(struct graph, made, "a program");
    *made = (struct graph){{run_graph, drop_graph}, (struct ls_cuda_device *)base, NULL};
    ls_status status = capture(made, ops, count, &captured);
    if (!status) status = ls_cuda_check(made->device, cudaGraphInstantiate(&made->made, captured, 0), "capturing ops");
    if (captured) (void)cudaGraphDestroy(captured);
    return LS_HAND_OVER(status, program, &made->program, ls_free(made));
}
