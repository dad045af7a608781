/* Bare collectives: a group of processes for people who bring their own compute. The vocabulary (rank, size, local
 * rank) is Horovod's; the group is the one that a strategy uses. */
#include "base/dtype.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "strategy/bare.h"

ls_status ls_communicator_new(const ls_strategy_options *options, ls_communicator **communicator) {
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
    LS_CLEANUP(ls_free_pointer) ls_communicator *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a communicator", sizeof(*made));
    status = ls_membership_new(&copy, true, &made->membership);
    if (!status) *communicator = ls_steal(made);
    return status;
}

ls_status ls_communicator_close(ls_communicator *communicator, ls_status status) {
    if (!communicator) return status;
    status = ls_membership_close(communicator->membership, status);
    ls_free(communicator);
    return status;
}

bool ls_communicator_recover(ls_communicator *communicator, ls_status *status) {
    struct ls_membership *membership = communicator->membership;
    if (!*status || !ls_membership_may_recover(membership, *status)) return false;
    ls_membership_say_lost(membership);
    *status = ls_membership_enter(membership);
    return *status == LS_OK;
}

void ls_communicator_free(ls_communicator *communicator) {
    (void)ls_communicator_close(communicator, LS_OK);
}

int ls_rank(const ls_communicator *communicator) {
    return communicator->membership->rank;
}

int ls_size(const ls_communicator *communicator) {
    return communicator->membership->size;
}

int ls_local_rank(const ls_communicator *communicator) {
    return communicator->membership->local_rank;
}

int ls_local_size(const ls_communicator *communicator) {
    return communicator->membership->local_size;
}

const char *ls_communicator_transport(const ls_communicator *communicator) {
    const struct ls_group *group = communicator->membership->group;
    return communicator->membership->communication == LS_AUTO ? ls_group_transport(group) : ls_group_links(group);
}

ls_status ls_communicator_allocate(ls_communicator *communicator, size_t size, void **memory) {
    return ls_group_share(communicator->membership->group, size ? size : 1, memory);
}

void ls_communicator_release(ls_communicator *communicator, void *memory) {
    ls_group_unshare(communicator->membership->group, memory);
}

ls_status ls_all_reduce_compressed(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                   ls_compression compression, const void *input, void *output, size_t count) {
    const struct ls_all_reduce call = {
        .name = name,
        .communication = communicator->membership->communication,
        .op = op,
        .dtype = dtype,
        .count = count,
        .compression = compression,
        .inputs = &input,
        .outputs = &output,
    };
    return ls_group_all_reduce(communicator->membership->group, &call);
}

ls_status ls_all_reduce(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                        const void *input, void *output, size_t count) {
    return ls_all_reduce_compressed(communicator, name, op, dtype, LS_COMPRESS_NONE, input, output, count);
}

ls_status ls_broadcast(ls_communicator *communicator, const char *name, int root, ls_dtype dtype, void *data,
                       size_t count) {
    return ls_group_broadcast(communicator->membership->group, name, root, dtype, data, count);
}

ls_status ls_all_gather(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                        const size_t *counts, void *output) {
    return ls_group_all_gather(communicator->membership->group, name, dtype, input, counts, output);
}

ls_status ls_reduce_scatter(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                            const void *input, const size_t *counts, void *output) {
    const struct ls_reduce_scatter call = {
        .name = name,
        .communication = communicator->membership->communication,
        .op = op,
        .dtype = dtype,
        .counts = counts,
        .input = input,
        .output = output,
    };
    return ls_group_reduce_scatter(communicator->membership->group, &call);
}

ls_status ls_barrier(ls_communicator *communicator, const char *name) {
    return ls_group_barrier(communicator->membership->group, name);
}
