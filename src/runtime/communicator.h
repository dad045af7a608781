/* The parts of a bare communicator. */
#pragma once
#include "observe/trace.h"
#include "runtime/async.h"
#include "runtime/operation.h"
#include "runtime/runtime.h"

struct ls_subset;

struct ls_communicator {
    struct ls_runtime *runtime;
    struct ls_ranks *ranks; /* the runtime's, or the set's */
    struct ls_trace *trace; /* the timeline; NULL without one, and of a set */
    struct ls_track *track; /* of the thread that makes the calls */
    int64_t calls;          /* on it */
    struct ls_subset *set;  /* NULL: it is no set */
    struct ls_subset *sets; /* of its ranks */
    uint32_t gradients;     /* ls_gradients that were made */
    struct ls_async *async; /* NULL: calls are matched by their order */
    uint32_t numbered;      /* sets that were made in this generation */
    int32_t ids;            /* that sets have been given, ever; the same on all ranks */
    bool agrees;            /* this process knows the sets of the others */
};

/* Notes a call as a span of the timeline, whose step is the call's number. */
void ls_communicator_note(ls_communicator *communicator, int64_t begun, const char *kind, const char *name,
                          size_t bytes);
/* Makes a call and returns when it has ended: at once, or where calls are matched by name when all ranks have begun it.
 */
ls_status ls_communicator_make(ls_communicator *communicator, struct ls_operation *operation);
