/* An adder brings the gradients of a worker's replicas to the sum of all workers, and back. NCCL is one, sums in the
 * node another, host memory the third. Each is a table of these functions. The reducer knows no more of them. */
#pragma once
#include "collective/bucket.h"
#include "gradients/host_staging.h"

struct ls_adder;
/* Buckets are numbered in their order. */
struct ls_adder_ops {
    /* Gives a local replica's part of the bucket: the results of all ops queued up to now. The thread that computes on
     * the replica's device calls it. */
    ls_status (*give)(const struct ls_adder *adder, int local, size_t bucket);
    /* Begins to add. One thread at a time calls it when all local replicas have given the bucket. A second call
     * does nothing where the adder has arrays. */
    ls_status (*begin)(const struct ls_adder *adder, size_t bucket);
    /* Waits until the bucket is in the arrays. */
    ls_status (*arrive)(const struct ls_adder *adder, size_t bucket);
    /* Begins to copy the sums in the arrays back to all replicas. */
    ls_status (*put_back)(const struct ls_adder *adder, size_t bucket);
    /* Ends the step when all local replicas have come to its end, before they settle. failed: a bucket is not added. */
    ls_status (*finish)(const struct ls_adder *adder, bool failed);
    /* Ops that are queued from now on see the sums. The thread that computes calls it. */
    ls_status (*settle)(const struct ls_adder *adder, int local);
};
struct ls_adder {
    const struct ls_adder_ops *ops;
    const struct ls_runtime *runtime;
    void *by; /* borrowed: the group of GPUs, or the node's sums */
    const struct ls_bucket *buckets;
    struct ls_host_staging routes[LS_MAX_LOCAL_DEVICES]; /* [replicas] the blobs */
    int replicas;
    /* in host memory, where the workers add them; none where the adder has added those of all workers */
    float *arrays[LS_MAX_LOCAL_DEVICES];
    int count;
    const int *first; /* as of ls_leaves, of the arrays */
};

/* by: a struct ls_nccl, and a struct ls_intra_node. */
extern const struct ls_adder_ops ls_nccl_adds, ls_intra_node_adds, ls_host_staging_adds;
