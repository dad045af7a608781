/* The communicator thread: all-reduces gradient buckets between workers, or between GPUs, while backward goes on.
 * Replica threads say how far their gradients are ready; the thread reduces bucket by bucket once all local replicas
 * are; a step is complete when every bucket is. */
#pragma once
#include <lockstep/lockstep.h>

#include "strategy/bucket.h"
#include "strategy/nccl.h"
#include "strategy/node.h"
#include "strategy/route.h"

struct ls_reducer;
struct ls_reducer_config {
    const struct ls_route *routes;   /* [local replicas] the blobs; copied */
    struct ls_nccl *nccl;            /* adds in the blobs; NULL: */
    struct ls_node *node;            /* adds there first, and the host its sums; NULL: all is where the routes lead */
    float *const *sums;              /* [the node's] */
    const struct ls_bucket *buckets; /* as of ls_buckets_cut */
    size_t count;
    size_t compressible; /* elements of the blob: what comes after them, statistics and extras, is never rounded */
};
/* Borrows strategy and what config points to. */
ls_status ls_reducer_new(ls_strategy *strategy, const struct ls_reducer_config *config, struct ls_reducer **reducer);
void ls_reducer_free(struct ls_reducer *reducer);
/* From replica threads, each step in this order: begin (step names it in the timeline), ready with falling offsets down
 * to 0, wait; or fail instead of what is left of them. */
void ls_reducer_begin(struct ls_reducer *reducer, int local, int64_t step);
ls_status ls_reducer_ready(struct ls_reducer *reducer, int local, size_t offset);
/* Until every bucket is complete, for ops that are queued from now on. */
ls_status ls_reducer_wait(struct ls_reducer *reducer, int local);
/* Gives up the step on all replicas with this thread's error; returns status. */
ls_status ls_reducer_fail(struct ls_reducer *reducer, int local, ls_status status);
/* Whether a step was given up, by any of them: there is none after it. When no step is under way. */
bool ls_reducer_has_failed(const struct ls_reducer *reducer);
