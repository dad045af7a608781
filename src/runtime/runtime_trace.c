/* One file for each task. */
#include "runtime/runtime_trace.h"

#include <stdio.h>

#include "base/status.h"
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
    char error[LS_ERROR_SIZE];
    if (!status) return ls_trace_close(trace);
    (void)snprintf(error, sizeof(error), "%s", ls_error());
    return ls_trace_close(trace) ? ls_fail(status, "%s", error) : status;
}
