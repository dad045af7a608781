/* The parts of a bare communicator. */
#pragma once
#include "observe/trace.h"
#include "runtime/runtime.h"

struct ls_communicator {
    struct ls_runtime *runtime;
    struct ls_trace *trace; /* the timeline; NULL without one */
    struct ls_track *track; /* of the thread that makes the calls */
    int64_t calls;          /* on it */
};
/* Notes a call as a span of the timeline, whose step is the call's number. Returns status. */
ls_status ls_communicator_note(ls_communicator *communicator, int64_t begun, const char *kind, const char *name,
                               size_t bytes, ls_status status);
