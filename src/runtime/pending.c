/* Handles of begun calls: Horovod's poll and synchronize. */
#include "runtime/pending.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/need.h"
#include "base/new.h"

static void free_pending(ls_pending *pending) {
    if (pending->async) ls_async_release(pending->async);
    ls_operation_free(&pending->operation);
    ls_free(pending->counts);
    ls_free(pending->name);
    ls_free(pending);
}

static ls_status fill_operation(ls_pending *pending, const ls_communicator *communicator,
                                const struct ls_operation *operation) {
    size_t ranks = (size_t)communicator->ranks->size;
    if (!operation->parts) {
        pending->operation.parts = &pending->operation.only;
        pending->operation.part_count = 1;
    }
    if (!operation->name) return ls_fail(LS_INVALID_ARGUMENT, "a collective needs a name");
    pending->operation.name = pending->name = ls_strdup(operation->name);
    if (!pending->name) return ls_fail_memory("a name", strlen(operation->name));
    if (operation->kind == LS_OPERATION_ALL_GATHER && operation->all_gather.counts) {
        pending->counts = ls_alloc_array(ranks, sizeof(size_t));
        if (!pending->counts) return ls_fail_memory("counts", ranks * sizeof(size_t));
        memcpy(pending->counts, operation->all_gather.counts, ranks * sizeof(size_t));
        pending->operation.all_gather.counts = pending->counts;
    }
    if (!communicator->async)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "'%s' cannot be begun: calls are matched by their order until ls_communicator_negotiate, which "
                       "all ranks call first",
                       operation->name);
    ls_async_hold(pending->async = communicator->async);
    return LS_OK;
}

ls_status ls_pending_begin(ls_communicator *communicator, const struct ls_operation *operation, ls_pending **pending) {
    ls_pending *made = ls_alloc(sizeof(*made));
    if (!made) {
        ls_free(operation->parts);
        return ls_fail_memory("a call", sizeof(*made));
    }
    made->operation = *operation;
    ls_status status = fill_operation(made, communicator, operation);
    if (!status) status = ls_async_begin(made->async, &made->operation);
    return LS_HAND_OVER(status, pending, made, free_pending(made));
}

bool ls_pending_done(const ls_pending *pending) {
    LS_NEED_OR(false, pending);
    return ls_async_has_ended(pending->async, &pending->operation);
}

ls_status ls_pending_wait(ls_pending *pending, double seconds) {
    LS_NEED(pending);
    if (!isfinite(seconds) || seconds < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "seconds %g must be a number of seconds, not negative", seconds);
    return ls_async_wait(pending->async, &pending->operation, ls_deadline_in(seconds));
}

void ls_pending_free(ls_pending *pending) {
    if (!pending) return;
    (void)ls_async_wait(pending->async, &pending->operation, LS_NEVER);
    free_pending(pending);
}
