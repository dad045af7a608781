/* oneDNN's engine and stream of one CPU device. Primitives that are made with them run in the calling thread and its
 * OpenMP team, one at a time. */
#include "device/cpu/cpu.h"

#include "base/status.h"

ls_status ls_library_status(dnnl_status_t code, const char *what) {
    if (code == dnnl_success) return LS_OK;
    return ls_fail(code == dnnl_out_of_memory ? LS_RESOURCE_EXHAUSTED : LS_INTERNAL, "oneDNN's %s failed: status %d%s",
                   what, (int)code, code == dnnl_out_of_memory ? " (out of memory)" : "");
}

ls_status ls_library_open(struct ls_library *library) {
    struct ls_library opened = {0};
    ls_status status = ls_library_status(dnnl_engine_create(&opened.engine, dnnl_cpu, 0), "engine");
    if (status) return status;
    status = ls_library_status(dnnl_stream_create(&opened.stream, opened.engine, dnnl_stream_default_flags), "stream");
    if (status)
        (void)dnnl_engine_destroy(opened.engine);
    else
        *library = opened;
    return status;
}

void ls_library_close(struct ls_library *library) {
    (void)dnnl_stream_destroy(library->stream);
    (void)dnnl_engine_destroy(library->engine);
}
