/* The part of base/status.c that the plugin needs: lockstep keeps the messages, for its threads read them. */
#include "base/status.h"

#include "device/cuda/cuda.h"
#include "device/cuda/host.h"

static const struct ls_plugin_host *host; /* set once, before anything else is called */

void ls_cuda_set_host(const struct ls_plugin_host *given) {
    host = given;
}

const struct ls_plugin_host *ls_cuda_host(void) {
    return host;
}

const char *ls_error(void) {
    return host->error();
}

void ls_error_keep(const char *message) {
    host->set_error(message);
}

static ls_status fail_cuda(const char *device, cudaError_t error, const char *what) {
    (void)cudaGetLastError(); /* the error is reported here, and not to the next caller */
    return ls_fail(error == cudaErrorMemoryAllocation ? LS_RESOURCE_EXHAUSTED : LS_INTERNAL, "%s: %s: %s (%s)", device,
                   what, cudaGetErrorString(error), cudaGetErrorName(error));
}

ls_status ls_cuda_check(const struct ls_cuda_device *device, cudaError_t error, const char *what) {
    return error == cudaSuccess ? LS_OK : fail_cuda(device->device.name, error, what);
}

ls_status ls_cuda_launched(const struct ls_op *op, cudaError_t error) {
    if (error == cudaSuccess) return LS_OK;
    return fail_cuda(ls_cuda_op_of(op)->device->device.name, error, ls_op_name(op->kind));
}
