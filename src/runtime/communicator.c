/* Bare collectives: a group of processes for people who bring their own compute. The vocabulary (rank, size, local
 * rank) is Horovod's; the group is the one that a strategy uses. */
#include <stdio.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "collective/all_gather.h"
#include "collective/barrier.h"
#include "collective/broadcast.h"
#include "collective/reduce_scatter.h"
#include "runtime/communicator.h"
#include "runtime/subset.h"

ls_status ls_communicator_new(const ls_strategy_options *options, ls_communicator **communicator) {
    LS_NEED(communicator);
    ls_strategy_options copy;
    ls_status status = ls_options_copy("ls_strategy_options", &copy, sizeof(copy), options);
    if (status) return status;
    if (copy.compression)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "compression %d is for a strategy's gradients; a communicator is told call by call: "
                       "ls_all_reduce_compressed",
                       copy.compression);
    if (copy.communication == LS_NCCL)
        return ls_fail(LS_UNIMPLEMENTED,
                       "communication NCCL is for the gradients of a strategy on GPUs; a communicator "
                       "adds in host memory: use AUTO or RING");
    ls_communicator *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a communicator", sizeof(*made));
    status = ls_runtime_new(&copy, true, &made->runtime);
    if (!status && (status = ls_subset_renew(made))) (void)ls_communicator_recover(made, &status);
    if (!status) status = ls_runtime_trace(made->runtime, &made->trace);
    if (!status) status = ls_trace_add_track(made->trace, "caller", &made->track);
    if (status) return ls_communicator_close(made, status);
    *communicator = made;
    return LS_OK;
}

ls_status ls_communicator_close(ls_communicator *communicator, ls_status status) {
    if (!communicator) return status;
    if (communicator->set) return ls_subset_close(communicator->set, status);
    status = ls_runtime_close(communicator->runtime, status);
    status = ls_runtime_close_trace(communicator->trace, status);
    ls_subset_free_all(communicator);
    ls_free(communicator);
    return status;
}

bool ls_communicator_recover(ls_communicator *communicator, ls_status *status) {
    LS_NEED_OR(false, communicator, status);
    struct ls_runtime *runtime = communicator->runtime;
    if (communicator->set) {
        *status = ls_fail(LS_FAILED_PRECONDITION, "a process set recovers with its parent: recover that");
        return false;
    }
    if (!ls_runtime_begin_recovery(runtime, *status)) return false;
    do {
        ls_subset_suspend(communicator);
        *status = ls_runtime_enter(runtime);
        if (!*status) *status = ls_subset_renew(communicator);
    } while (*status && ls_runtime_begin_recovery(runtime, *status));
    return *status == LS_OK;
}

ls_status ls_communicator_abort(ls_communicator *communicator, const char *reason) {
    LS_NEED(communicator, reason);
    ls_runtime_abort(communicator->set ? communicator->runtime->whole : communicator->runtime, reason);
    return LS_OK;
}

void ls_communicator_free(ls_communicator *communicator) {
    (void)ls_communicator_close(communicator, LS_OK);
}

int ls_rank(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return communicator->runtime->rank;
}

int ls_size(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return communicator->runtime->size;
}

int ls_local_rank(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return communicator->runtime->local_rank;
}

int ls_local_size(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return communicator->runtime->local_size;
}

const char *ls_communicator_transport(const ls_communicator *communicator) {
    LS_NEED_OR(NULL, communicator);
    const struct ls_group *group = communicator->runtime->group;
    return communicator->runtime->communication == LS_AUTO ? ls_group_transport(group) : ls_group_links(group);
}

ls_status ls_communicator_allocate(ls_communicator *communicator, size_t size, void **memory) {
    LS_NEED(communicator, memory);
    return ls_group_share(communicator->runtime->group, size ? size : 1, memory);
}

void ls_communicator_release(ls_communicator *communicator, void *memory) {
    LS_NEED_OR(, communicator);
    ls_group_unshare(communicator->runtime->group, memory);
}

ls_status ls_communicator_note(ls_communicator *communicator, int64_t begun, const char *kind, const char *name,
                               size_t bytes, ls_status status) {
    char span[LS_FRAME_NAME + 32];
    if (!communicator->track || !name) return status;
    (void)snprintf(span, sizeof(span), "%s %.*s", kind, LS_FRAME_NAME, name);
    ls_track_end(communicator->track, begun, span,
                 (struct ls_span_facts){.step = ++communicator->calls, .bytes = bytes});
    return status;
}

ls_status ls_broadcast(ls_communicator *communicator, const char *name, int root, ls_dtype dtype, void *data,
                       size_t count) {
    LS_NEED(communicator);
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_group_broadcast(communicator->runtime->group, name, root, dtype, data, count);
    return ls_communicator_note(communicator, begun, "broadcast", name, count * ls_dtype_size(dtype), status);
}

static size_t own_bytes(const ls_communicator *communicator, ls_dtype dtype, const size_t *counts) {
    return counts ? counts[communicator->runtime->rank] * ls_dtype_size(dtype) : 0;
}

ls_status ls_all_gather(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                        const size_t *counts, void *output) {
    LS_NEED(communicator);
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_group_all_gather(communicator->runtime->group, name, dtype, input, counts, output);
    return ls_communicator_note(communicator, begun, "all-gather", name, own_bytes(communicator, dtype, counts),
                                status);
}

ls_status ls_reduce_scatter(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                            const void *input, const size_t *counts, void *output) {
    LS_NEED(communicator);
    const struct ls_reduce_scatter call = {
        .name = name,
        .communication = communicator->runtime->communication,
        .op = op,
        .dtype = dtype,
        .counts = counts,
        .input = input,
        .output = output,
    };
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_group_reduce_scatter(communicator->runtime->group, &call);
    return ls_communicator_note(communicator, begun, "reduce-scatter", name, own_bytes(communicator, dtype, counts),
                                status);
}

ls_status ls_barrier(ls_communicator *communicator, const char *name) {
    LS_NEED(communicator);
    int64_t begun = ls_track_begin(communicator->track);
    return ls_communicator_note(communicator, begun, "barrier", name, 0,
                                ls_group_barrier(communicator->runtime->group, name));
}
