/* The communicator thread: all-reduces gradient buckets between workers while backward goes on. Replica threads say how
 * far their gradients are ready; the thread reduces bucket by bucket once all local replicas are; a step is complete
 * when every bucket is. */
#pragma once
#include <lockstep/lockstep.h>

#include "strategy/bucket.h"

struct ls_reducer;
/* Borrows everything; gradients[local replicas] are the blobs, buckets as of ls_buckets_cut. */
ls_status ls_reducer_new(ls_strategy *strategy, float *const *gradients, const struct ls_bucket *buckets, size_t count,
                         struct ls_reducer **reducer);
void ls_reducer_free(struct ls_reducer *reducer);
/* From replica threads, each step in this order: begin (step names it in the timeline), ready with falling offsets down
 * to 0, wait; or fail instead of what is left of them. */
void ls_reducer_begin(struct ls_reducer *reducer, int local, int64_t step);
void ls_reducer_ready(struct ls_reducer *reducer, int local, size_t offset);
/* Until every bucket is complete. */
ls_status ls_reducer_wait(struct ls_reducer *reducer, int local);
/* Gives up the step on all replicas with this thread's error; returns status. */
ls_status ls_reducer_fail(struct ls_reducer *reducer, int local, ls_status status);
