/* Gradients of a worker's GPUs that are added in the node, from one GPU's memory to the other's, before the host adds
 * those of the workers (TensorFlow: HierarchicalCopyAllReduce, ReductionToOneDevice). A node adds groups of replicas
 * which are whole subtrees of the tree over all replica ids, or all that a worker has where it is RING that adds
 * between workers: so the bits are those that the host alone would give. */
#pragma once
#include <lockstep/lockstep.h>

#include "strategy/bucket.h"

/* Collective, in each generation, when it is known who holds which replicas: strategy->node_replicas, for all alike. */
ls_status ls_node_agree(ls_strategy *strategy);
/* How many sums this worker's replicas make. */
int ls_node_sums(const ls_strategy *strategy);

struct ls_node;
struct ls_node_config {
    float *const *gradients; /* [local replicas] device */
    float *const *sums;      /* [sums] pinned host memory for the other workers; NULL: there are none */
    const struct ls_bucket *buckets;
    size_t count;
};
/* Where strategy->node_replicas is above 1. Borrows strategy and what config points to. */
ls_status ls_node_new(ls_strategy *strategy, const struct ls_node_config *config, struct ls_node **node);
/* When what the devices have queued is done. */
void ls_node_free(struct ls_node *node);
/* Where the tree over the sums of all workers has its leaves: as ls_leaves. */
const int *ls_node_first(const struct ls_node *node);

/* Buckets are numbered in their order. By the thread that computes on a local replica's device: what it has queued up
 * to now is its part of the bucket. */
ls_status ls_node_give(struct ls_node *node, int local, size_t bucket);
/* When all local replicas have, by one thread at a time: begins to add; and to bring the sums to the host, or with one
 * worker to all its GPUs. Nothing where that has begun already. */
ls_status ls_node_begin(struct ls_node *node, size_t bucket);
/* Until the sums are in host memory. */
ls_status ls_node_arrive(struct ls_node *node, size_t bucket);
/* Begins to bring back what is there now, to all GPUs. */
ls_status ls_node_return(struct ls_node *node, size_t bucket);
/* By the thread that computes: ops that are queued from now on see it. */
ls_status ls_node_settle(const struct ls_node *node, int local);
/* When all local replicas have come to the end of the step. */
void ls_node_end_step(struct ls_node *node);
