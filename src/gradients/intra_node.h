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
