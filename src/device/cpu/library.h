/* oneDNN's engine and stream of one CPU device, and its errors. */
#pragma once
#include <lockstep/lockstep.h>
#include <oneapi/dnnl/dnnl.h>

struct ls_library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};
ls_status ls_library_open(struct ls_library *library);
void ls_library_close(struct ls_library *library);
/* Returns LS_OK, or an error that names the failed call, what. */
ls_status ls_library_status(dnnl_status_t code, const char *what);
