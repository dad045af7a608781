/* The collectives of a bare communicator, each as a call that returns when it has ended and as one that begins. */
#include <string.h>

#include "base/need.h"
#include "base/status.h"
#include "runtime/communicator.h"
#include "runtime/pending.h"

/* Fills in zeros but for the progress, which async.c sets: its message is larger than all else. */
static void clear(struct ls_operation *operation, enum ls_operation_kind kind) {
    memset(operation, 0, offsetof(struct ls_operation, progress));
    operation->kind = kind;
}

/* Makes the call that a struct of this kind says, or begins it where pending is not NULL. */
static ls_status call(ls_communicator *communicator, enum ls_operation_kind kind, const void *options,
                      ls_pending **pending) {
    struct ls_operation operation;
    clear(&operation, kind);
    operation.communication = communicator->runtime->communication;
    ls_status status = ls_operation_read(&operation, options);
    if (status) return status;
    if (pending) return ls_pending_begin(communicator, &operation, pending);
    status = ls_communicator_make(communicator, &operation);
    ls_operation_free(&operation);
    return status;
}

ls_status ls_all_reduce(ls_communicator *communicator, const ls_all_reduce_options *options) {
    LS_NEED(communicator, options);
    return call(communicator, LS_OPERATION_ALL_REDUCE, options, NULL);
}

ls_status ls_all_reduce_begin(ls_communicator *communicator, const ls_all_reduce_options *options,
                              ls_pending **pending) {
    LS_NEED(communicator, options, pending);
    return call(communicator, LS_OPERATION_ALL_REDUCE, options, pending);
}

ls_status ls_broadcast(ls_communicator *communicator, const ls_broadcast_options *options) {
    LS_NEED(communicator, options);
    return call(communicator, LS_OPERATION_BROADCAST, options, NULL);
}

ls_status ls_broadcast_begin(ls_communicator *communicator, const ls_broadcast_options *options, ls_pending **pending) {
    LS_NEED(communicator, options, pending);
    return call(communicator, LS_OPERATION_BROADCAST, options, pending);
}

ls_status ls_all_gather(ls_communicator *communicator, const ls_all_gather_options *options) {
    LS_NEED(communicator, options);
    return call(communicator, LS_OPERATION_ALL_GATHER, options, NULL);
}

ls_status ls_all_gather_begin(ls_communicator *communicator, const ls_all_gather_options *options,
                              ls_pending **pending) {
    LS_NEED(communicator, options, pending);
    return call(communicator, LS_OPERATION_ALL_GATHER, options, pending);
}

ls_status ls_reduce_scatter(ls_communicator *communicator, const ls_reduce_scatter_options *options) {
    LS_NEED(communicator, options);
    return call(communicator, LS_OPERATION_REDUCE_SCATTER, options, NULL);
}

ls_status ls_all_to_all(ls_communicator *communicator, const ls_all_to_all_options *options) {
    LS_NEED(communicator, options);
    return call(communicator, LS_OPERATION_ALL_TO_ALL, options, NULL);
}

ls_status ls_barrier(ls_communicator *communicator, const char *name) {
    LS_NEED(communicator);
    struct ls_operation operation;
    clear(&operation, LS_OPERATION_BARRIER);
    operation.name = name;
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_join(ls_communicator *communicator, int *last) {
    LS_NEED(communicator, last);
    if (!communicator->async)
        return ls_fail(LS_FAILED_PRECONDITION, "ls_join needs calls that are matched by name: all ranks call "
                                               "ls_communicator_negotiate first");
    struct ls_operation operation = {.kind = LS_OPERATION_JOIN, .name = "ls_join"};
    ls_status status = ls_communicator_make(communicator, &operation);
    if (!status) *last = operation.progress.last;
    return status;
}
