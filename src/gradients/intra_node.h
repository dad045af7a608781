/* Reduction of the gradients of a worker's GPUs in the node, from one GPU's memory to the other's, before the host adds
 * those of the workers (TensorFlow: HierarchicalCopyAllReduce, ReductionToOneDevice). A node adds groups of replicas
 * that are whole subtrees of the tree over all replica ids. With RING between workers it adds all replicas of a worker.
 * So the bits are those that the host alone would give. */
#pragma once
#include <lockstep/lockstep.h>

#include "collective/bucket.h"

/* The number of sums that this worker's replicas make. */
int ls_intra_node_sums(const ls_strategy *strategy);

struct ls_intra_node;
struct ls_intra_node_config {
    float *const *gradients; /* [local replicas] device */
    float *const *sums;      /* [sums] pinned host memory for the other workers; NULL if this worker is alone */
    const struct ls_bucket *buckets;
    size_t count;
};
/* Needs strategy->node_replicas above 1. Borrows strategy and all that config points to. */
ls_status ls_intra_node_new(ls_strategy *strategy, const struct ls_intra_node_config *config,
                            struct ls_intra_node **node);
/* Frees it. The devices must have done all that they have queued. */
void ls_intra_node_free(struct ls_intra_node *node);
/* The leaves of the tree over the sums of all workers, as ls_leaves. */
const int *ls_intra_node_first(const struct ls_intra_node *node);

/* Gives a local replica's part of the bucket: the results of all ops queued up to now. Buckets are numbered in their
 * order. The thread that computes on the replica's device calls it. */
ls_status ls_intra_node_give(struct ls_intra_node *node, int local, size_t bucket);
/* Begins to add, and to copy the sums to the host or, with one worker, to all its GPUs. One thread at a time calls it
 * when all local replicas have given the bucket. A second call does nothing. */
ls_status ls_intra_node_begin(struct ls_intra_node *node, size_t bucket);
/* Waits until the sums are in host memory. */
ls_status ls_intra_node_arrive(struct ls_intra_node *node, size_t bucket);
/* Begins to copy the sums in host memory back to all GPUs. */
ls_status ls_intra_node_return(struct ls_intra_node *node, size_t bucket);
/* Ops that are queued from now on see the sums. The thread that computes calls it. */
ls_status ls_intra_node_settle(const struct ls_intra_node *node, int local);
/* Ends the step. All local replicas must have come to its end. */
void ls_intra_node_end_step(struct ls_intra_node *node);
