/* The timeline of a runtime. */
#pragma once
#include "runtime/runtime.h"

/* Opens the timeline, of LOCKSTEP_TRACE where path is NULL. *trace stays NULL without path and setting. */
struct ls_trace;
ls_status ls_runtime_trace_open(const struct ls_runtime *runtime, const char *path, struct ls_trace **trace);
/* Writes the timeline. Returns status, whose message stays, or the error of writing. */
ls_status ls_runtime_trace_close(struct ls_trace *trace, ls_status status);
