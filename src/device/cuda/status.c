/* base/status.h for the plugin: the same functions, but the messages are kept by lockstep, whose threads read them. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "device/cuda/host.h"
#include "base/plain.h"

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

ls_status ls_fail(ls_status status, const char *format, ...) {
    char message[LS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)ls_plain_list(message, sizeof(message), format, arguments);
    va_end(arguments);
    host->set_error(message);
    return status;
}

ls_status ls_fail_context(ls_status status, const char *format, ...) {
    char context[LS_ERROR_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)ls_plain_list(context, sizeof(context), format, arguments);
    va_end(arguments);
    return ls_fail(status, "%s: %s", context, ls_error());
}

ls_status ls_fail_memory(const char *what, size_t bytes) {
    return ls_fail(LS_RESOURCE_EXHAUSTED, "no memory for %s (%zu bytes)", what, bytes);
}

static ls_status fail(const char *device, cudaError_t error, const char *what) {
    (void)cudaGetLastError(); /* the error is reported here, and not to the next caller */
    return ls_fail(error == cudaErrorMemoryAllocation ? LS_RESOURCE_EXHAUSTED : LS_INTERNAL, "%s: %s: %s (%s)", device,
                   what, cudaGetErrorString(error), cudaGetErrorName(error));
}

ls_status ls_cuda_check(const struct ls_cuda_device *device, cudaError_t error, const char *what) {
    return error == cudaSuccess ? LS_OK : fail(device->device.name, error, what);
}

ls_status ls_cuda_launched(const struct ls_op *op, cudaError_t error) {
    if (error == cudaSuccess) return LS_OK;
    return fail(ls_cuda_op_of(op)->device->device.name, error, ls_op_name(op->kind));
}
