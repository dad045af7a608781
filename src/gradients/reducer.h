/* The communicator thread. It all-reduces gradient buckets between workers, or between GPUs, while backward goes on.
 * Replica threads tell how far their gradients are ready. The thread reduces a bucket when it is ready on all local
 * replicas. A step is complete when every bucket is. */
#pragma once
#include <lockstep/lockstep.h>

#include "gradients/adder.h"

struct ls_store;
struct ls_reducer;
/* Ends a step in the communicator's thread, behind its buckets. failed: one of them, or a step before it. */
typedef ls_status ls_reducer_end_fn(void *context, int lane, bool failed);
/* The sums of the bucket are where workers need them, on all local replicas. In the thread that added them. */
typedef void ls_reducer_reduced_fn(void *context, size_t bucket);
struct ls_reducer_config {
    struct ls_adder adder;
    struct ls_store *store; /* takes what is compressible; NULL if every worker keeps it */
    /* [count][workers] elements of each bucket's compressible part of which a worker gets the sums, by ranks; with one
     * array a worker. NULL: all workers get all. Borrowed */
    const size_t *shares;
    /* Steps may go on while the next ones are computed: replicas do not wait for them then. They take turns with the
     * lanes, blobs in host memory [lane_count][local replicas] into which ready gradients are copied unless these are
     * the replicas' own. NULL: they do not
     */
    ls_reducer_end_fn *end;
    ls_reducer_reduced_fn *reduced; /* NULL: nobody is told */
    void *context;                  /* of both */
    /* Buckets that a replica may have given and that are not reduced when ls_reducer_ready returns. All local replicas
     * compute at once then. 0: any number */
    size_t in_flight;
    float *const *lanes; /* borrowed */
    int lane_count;
    const struct ls_bucket *buckets; /* as of ls_buckets_cut */
    size_t count;
    size_t compressible; /* elements of the blob that may be rounded; statistics and extras come after them and never
                            are */
};
/* Borrows strategy and all that config points to. */
ls_status ls_reducer_new(ls_strategy *strategy, const struct ls_reducer_config *config, struct ls_reducer **reducer);
void ls_reducer_free(struct ls_reducer *reducer);
/* Replica threads call these in each step in this order: begin (step names it in the timeline), ready with falling
 * offsets down to 0, wait. A call of fail replaces the rest of them. */
void ls_reducer_begin(struct ls_reducer *reducer, int local, int64_t step);
ls_status ls_reducer_ready(struct ls_reducer *reducer, int local, size_t offset);
/* Waits until every bucket is complete for ops that are queued from now on. With lanes it does not wait. */
ls_status ls_reducer_wait(struct ls_reducer *reducer, int local);
/* With lanes: waits until so many steps have ended since the reducer was made. A lane may be used again when a step
 * that used it has ended. */
ls_status ls_reducer_await(struct ls_reducer *reducer, int64_t steps);
/* Gives up the step on all replicas with this thread's error; returns status. */
ls_status ls_reducer_fail(struct ls_reducer *reducer, int local, ls_status status);
/* True if a replica gave a step up; no step follows it. Callable when no step is under way. */
bool ls_reducer_has_failed(const struct ls_reducer *reducer);
