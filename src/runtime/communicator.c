/* Bare collectives: a group of processes for people who bring their own compute. The vocabulary (rank, size, local
 * rank) is Horovod's; the group is the one that a strategy uses. */
#include <stdio.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "collective/link/abort.h"
#include "runtime/runtime.h"
#include "runtime/communicator.h"
#include "runtime/subset.h"

static const char async_track[] = "ls-async";

/* path NULL: that of LOCKSTEP_TRACE, if there is one. */
static ls_status begin_trace(ls_communicator *communicator, const char *path) {
    struct ls_track *track = NULL;
    ls_status status = ls_runtime_trace_open(communicator->runtime, path, &communicator->trace);
    if (!status) status = ls_trace_add_track(communicator->trace, "caller", &communicator->track);
    if (status || !communicator->async) return status;
    status = ls_trace_add_track(communicator->trace, async_track, &track);
    return status ? status : ls_async_trace(communicator->async, track);
}

static ls_status end_trace(ls_communicator *communicator, ls_status status) {
    communicator->track = NULL;
    return ls_runtime_trace_close(ls_steal(communicator->trace), status);
}

ls_status ls_communicator_new(const ls_strategy_options *options, ls_communicator **communicator) {
    LS_NEED(communicator);
    ls_strategy_options copy;
    ls_status status = ls_options_copy("ls_strategy_options", &copy, sizeof(copy), options);
    if (status) return status;
    if (copy.shard || copy.shard_copies)
        return ls_fail(LS_INVALID_ARGUMENT, "shard %d, shard_copies %d: a communicator has no moments; leave them out",
                       copy.shard, copy.shard_copies);
    if (copy.stages)
        return ls_fail(LS_INVALID_ARGUMENT, "stages %d: a communicator has no layers; leave it out", copy.stages);
    if (copy.compression)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "compression %d is for a strategy's gradients; a communicator is told call by call: "
                       "LS_ALL_REDUCE(.compression)",
                       copy.compression);
    if (copy.communication == LS_NCCL)
        return ls_fail(LS_UNIMPLEMENTED,
                       "communication NCCL is for the gradients of a strategy on GPUs; a communicator "
                       "adds in host memory: use AUTO or RING");
    LS_NEW(ls_communicator, made, "a communicator");
    status = ls_runtime_new(&copy, true, LS_RUNTIME_BARE, &made->runtime);
    if (!status) made->ranks = &made->runtime->ranks;
    if (!status && (status = ls_subset_renew(made))) (void)ls_communicator_recover(made, &status);
    if (!status) status = begin_trace(made, NULL);
    if (status) return ls_communicator_close(made, status);
    *communicator = made;
    return LS_OK;
}

ls_status ls_communicator_close(ls_communicator *communicator, ls_status status) {
    if (!communicator) return status;
    if (communicator->set) return ls_subset_close(communicator->set, status);
    ls_async_close(communicator->async, status);
    ls_subset_end_calls(communicator, status);
    status = ls_runtime_close(communicator->runtime, status);
    status = end_trace(communicator, status);
    ls_subset_free_all(communicator);
    ls_free(communicator);
    return status;
}

/* The call may have failed in another thread, whose message this one does not have. */
static void take_message(struct ls_runtime *runtime, ls_status status) {
    if (!status || *ls_error()) return;
    if (ls_abort_raised(runtime->abort))
        (void)ls_abort_status(runtime->abort);
    else
        (void)ls_fail(status, "a call of another thread failed with %s", ls_status_name(status));
}

bool ls_communicator_recover(ls_communicator *communicator, ls_status *status) {
    LS_NEED_OR(false, communicator, status);
    struct ls_runtime *runtime = communicator->runtime;
    if (communicator->set) {
        *status = ls_fail(LS_FAILED_PRECONDITION, "a process set recovers with its parent: recover that");
        return false;
    }
    take_message(runtime, *status);
    if (!ls_runtime_begin_recovery(runtime, *status)) return false;
    ls_async_rest(communicator->async);
    do {
        ls_subset_suspend(communicator);
        *status = ls_runtime_enter(runtime);
        if (!*status) *status = ls_subset_renew(communicator);
        if (!*status) *status = ls_async_resume(communicator->async);
    } while (*status && ls_runtime_begin_recovery(runtime, *status));
    return *status == LS_OK;
}

ls_status ls_communicator_abort(ls_communicator *communicator, const char *reason) {
    LS_NEED(communicator, reason);
    ls_runtime_abort(communicator->runtime, reason);
    return LS_OK;
}

void ls_communicator_free(ls_communicator *communicator) {
    (void)ls_communicator_close(communicator, LS_OK);
}

int ls_rank(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return communicator->ranks->rank;
}

int ls_size(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return communicator->ranks->size;
}

const char *ls_communicator_transport(const ls_communicator *communicator) {
    LS_NEED_OR(NULL, communicator);
    const struct ls_group *group = communicator->ranks->group;
    return communicator->runtime->communication == LS_AUTO ? ls_group_transport(group) : ls_group_links(group);
}

ls_status ls_communicator_allocate(ls_communicator *communicator, size_t size, void **memory) {
    LS_NEED(communicator, memory);
    void *made = NULL;
    struct ls_operation operation = {
        .kind = LS_OPERATION_SHARE, .name = "ls_communicator_allocate", .bytes = size ? size : 1, .memory = &made};
    ls_status status = ls_communicator_make(communicator, &operation);
    if (!status) *memory = made;
    return status;
}

void ls_communicator_release(ls_communicator *communicator, void *memory) {
    LS_NEED_OR(, communicator);
    ls_group_unshare(communicator->ranks->group, memory);
}

void ls_communicator_note(ls_communicator *communicator, int64_t begun, const char *kind, const char *name,
                          size_t bytes) {
    char span[LS_FRAME_NAME + 32];
    if (!communicator->track || !name) return;
    (void)snprintf(span, sizeof(span), "%s %.*s", kind, LS_FRAME_NAME, name);
    ls_track_end(communicator->track, begun, span,
                 (struct ls_span_facts){.step = ++communicator->calls, .bytes = bytes});
}

ls_status ls_communicator_make(ls_communicator *communicator, struct ls_operation *operation) {
    if (!operation->parts && operation->kind != LS_OPERATION_JOIN) {
        operation->parts = &operation->only;
        operation->part_count = 1;
    }
    if (communicator->async) {
        ls_status status = ls_async_begin(communicator->async, operation);
        return status ? status : ls_async_wait(communicator->async, operation, LS_NEVER);
    }
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_operation_run(operation, communicator->ranks->group, operation->name);
    if (communicator->track)
        ls_communicator_note(communicator, begun, ls_operation_span(operation), operation->name,
                             ls_operation_bytes(operation, communicator->ranks));
    return status;
}

ls_status ls_communicator_negotiate(ls_communicator *communicator) {
    LS_NEED(communicator);
    struct ls_track *track = NULL;
    if (communicator->async) return LS_OK;
    ls_status status = ls_trace_add_track(communicator->trace, async_track, &track);
    return status ? status : ls_async_new(communicator->ranks, track, &communicator->async);
}

static ls_status check_timeline(const ls_communicator *communicator, bool runs) {
    if (communicator->set)
        return ls_fail(LS_FAILED_PRECONDITION, "a process set has no timeline of its own: call its parent's");
    if (runs == !!communicator->trace) return LS_OK;
    return ls_fail(LS_FAILED_PRECONDITION, runs ? "no timeline runs: call ls_timeline_start first"
                                                : "a timeline runs already: call ls_timeline_stop first");
}

ls_status ls_timeline_start(ls_communicator *communicator, const char *path) {
    LS_NEED(communicator, path);
    ls_status status = check_timeline(communicator, false);
    if (!status && !*path) status = ls_fail(LS_INVALID_ARGUMENT, "ls_timeline_start: the path is empty");
    if (!status) status = ls_async_trace(communicator->async, NULL);
    if (status) return status;
    status = begin_trace(communicator, path);
    return status ? end_trace(communicator, status) : LS_OK;
}

ls_status ls_timeline_stop(ls_communicator *communicator) {
    LS_NEED(communicator);
    ls_status status = check_timeline(communicator, true);
    if (!status) status = ls_async_trace(communicator->async, NULL);
    return status ? status : end_trace(communicator, LS_OK);
}
