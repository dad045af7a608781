/* The collectives of a group: a file each. */
#pragma once
#include "collective/group.h"
#include "collective/group_private.h"

/* Adasum: an all-reduce that adds what two gradients do not have in common, and averages what they do (Maleki et al.
 * 2020, "Scaling Distributed Training with Adaptive Summation"; Horovod's op Adasum). */

/* INVALID_ARGUMENT for what this rank alone can see: a type that is no float. */
ls_status ls_adasum_check(const char *name, ls_dtype dtype);
/* The call's one leaf a rank. INVALID_ARGUMENT unless the ranks are a power of two. */
ls_status ls_group_adasum(struct ls_group *group, const struct ls_all_reduce *call);

/* All-gather. */

/* INVALID_ARGUMENT for what this rank alone can see, as the call gives it. */
ls_status ls_group_all_gather_check(const struct ls_group *group, const ls_all_gather_options *call);
/* Of a call without allocated; input may be its own place in output. */
ls_status ls_group_all_gather(struct ls_group *group, const ls_all_gather_options *call);

/* All-reduce. */

/* True if calls with a compression are compressed; calls through shared memory are not. */
bool ls_group_all_reduce_compresses(const struct ls_group *group, ls_communication communication);
/* INVALID_ARGUMENT for what this rank alone can see in all but leaves, count and arrays. */
ls_status ls_group_all_reduce_check(const struct ls_all_reduce *call);
ls_status ls_group_all_reduce(struct ls_group *group, const struct ls_all_reduce *call);

/* All-reduce of a list of arrays in one call: Horovod's grouped_allreduce, torch's all_reduce_coalesced. */

struct ls_all_reduce_list {
    struct ls_all_reduce call; /* but for count, inputs, outputs and leaves: a rank has one leaf */
    size_t count;              /* of arrays */
    const size_t *counts;      /* [count] elements of each */
    const void *const *inputs;
    void *const *outputs;
};
/* Each array gets the bits that an all-reduce of it alone gives it. */
ls_status ls_group_all_reduce_list(struct ls_group *group, const struct ls_all_reduce_list *list);

/* All-to-all. */

/* MPI_Alltoallv, where each rank knows what it receives. */
ls_status ls_group_all_to_all(struct ls_group *group, const struct ls_all_to_all *call);

/* Barrier. */

ls_status ls_group_barrier(struct ls_group *group, const char *name);

/* Broadcast. */

/* INVALID_ARGUMENT for what this rank alone can see, as the call gives it. */
ls_status ls_group_broadcast_check(const struct ls_group *group, const ls_broadcast_options *call);
/* Of rank 0, each rank hears from it directly, so that a parameter server finds its frame. In a group with servers. */
ls_status ls_group_broadcast_directly(struct ls_group *group, const char *name, ls_dtype dtype, void *data,
                                      size_t count);
/* Of a call without allocated. */
ls_status ls_group_broadcast(struct ls_group *group, const ls_broadcast_options *call);

/* Calls with allocated: of parts whose sizes only their senders know. Each is two calls under one name: the counts,
 * then the elements. The output is allocated here, for ls_free; it is not NULL, also for no elements. */

ls_status ls_ragged_all_gather(struct ls_group *group, const ls_all_gather_options *call);
ls_status ls_ragged_all_to_all(struct ls_group *group, const ls_all_to_all_options *call);
ls_status ls_ragged_broadcast(struct ls_group *group, const ls_broadcast_options *call);

/* Reduce-scatter. */

/* INVALID_ARGUMENT for what this rank alone can see, as the call gives it. */
ls_status ls_group_reduce_scatter_check(const struct ls_group *group, const struct ls_reduce_scatter *call);
ls_status ls_group_reduce_scatter(struct ls_group *group, const struct ls_reduce_scatter *call);
