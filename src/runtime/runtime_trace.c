/* One file for each task. */
#include "runtime/runtime.h"

#include "base/kept_error.h"
#include "observe/trace.h"

ls_status ls_runtime_trace_open(const struct ls_runtime *runtime, const char *path, struct ls_trace **trace) {
    const struct ls_trace_config config = {
        .path = path ? path : runtime->settings.trace,
        .rank = runtime->task, /* an elastic group's ranks change */
        .size = runtime->tasks,
        .log = &runtime->log,
    };
    return *config.path ? ls_trace_new(&config, trace) : LS_OK;
}

ls_status ls_runtime_trace_close(struct ls_trace *trace, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    ls_status closed = ls_trace_close(trace);
    return status && closed ? ls_kept_error_raise(&kept) : status ? status : closed;
}
