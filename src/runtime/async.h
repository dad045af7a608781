/* The calls of a bare communicator that are matched by name. A thread, ls-async, makes them: rank after rank it hears
 * in rounds which calls each has begun, and makes those that all have begun, in one order on all ranks. Threads: any
 * may submit and wait; ls-async alone uses the group from ls_async_new on. */
#pragma once
#include "base/monitor.h"
#include "observe/trace.h"
#include "runtime/negotiation.h"
#include "runtime/operation.h"
#include "runtime/runtime.h"

struct ls_async {
    struct ls_ranks *ranks; /* borrowed */
    pthread_t thread;
    struct ls_track *track;
    int64_t calls;
    struct ls_monitor monitor;   /* guards what follows */
    struct ls_operations begun;  /* and not ended, in order */
    struct ls_operation *untold; /* the first with parts that the other ranks do not know, if there is one */
    size_t untold_parts;
    void *by_name;                     /* parts that have not ended, in a tree of tsearch(3) */
    int64_t changes;                   /* how often something was begun */
    bool joined, ending, busy;         /* busy: the thread may be using the group */
    struct ls_kept_error failed;       /* every call ends with it until the next generation */
    int references;                    /* the communicator, and each handle of a begun call */
    struct ls_negotiation negotiation; /* of the thread; of its size the others read nothing */
    int64_t next_report;
    void *neutral; /* [neutral_size] bytes that a rank that has joined gives, and where it receives */
    size_t neutral_size;
};
ls_status ls_async_new(struct ls_ranks *ranks, struct ls_track *track, struct ls_async **async);
/* Waits for what was begun where status is LS_OK; else ends it. Then ends the thread, and lets the reference go. */
void ls_async_close(struct ls_async *async, ls_status status);
void ls_async_hold(struct ls_async *async);
void ls_async_release(struct ls_async *async);

/* From now on spans go to track; NULL: to none. FAILED_PRECONDITION while a call has not ended. Nothing without async.
 */
ls_status ls_async_trace(struct ls_async *async, struct ls_track *track);

/* Checks and begins a operation, which stays where it is until it has ended. INVALID_ARGUMENT: nothing was begun.
 * ALREADY_EXISTS: one of that name has been begun. */
ls_status ls_async_begin(struct ls_async *async, struct ls_operation *operation);
bool ls_async_has_ended(struct ls_async *async, const struct ls_operation *operation);
/* Its status; DEADLINE_EXCEEDED if it has not ended by deadline, which ends nothing. */
ls_status ls_async_wait(struct ls_async *async, const struct ls_operation *operation, int64_t deadline);

/* By the thread: the part of that name that was begun here, NULL if none was; and its end, which may be that of its
 * operation. */
struct ls_call_part *ls_async_find(struct ls_async *async, const struct ls_frame *frame);
void ls_async_end_part(struct ls_async *async, struct ls_call_part *part, int64_t begun);
/* By the thread: ends a operation with a status and this thread's error. */
void ls_async_end(struct ls_async *async, struct ls_operation *operation, ls_status status);

/* Before a recovery: returns when the thread uses the group no more. After it: calls may be begun again. */
void ls_async_rest(struct ls_async *async);
ls_status ls_async_resume(struct ls_async *async);
