/* Meeting in shared memory: every worker of the host waits until all have come. */
#pragma once
#include "collective/run/executor.h"
#include "collective/shm/shared.h"

struct ls_meeting_place {
    struct ls_shared *shared;
    bool crowded; /* there are fewer processors than threads that take part */
};
/* Waits until all workers have come; their earlier writes are visible then. Else returns an error that names the
 * missing workers, as a collective over links would. opening is true at the first meeting of a call. */
ls_status ls_shm_barrier(const struct ls_meeting_place *place, bool opening);
/* Takes the next block of blocks 0 to count - 1 of some work after a meeting. Each block goes to the first worker that
 * asks, so no worker waits for one that does not run. count or more means that no block is left. */
uint64_t ls_shm_barrier_take(const struct ls_meeting_place *place);
/* Reports that this worker has done so many of the blocks that it took. Waits until all blocks are done, but not until
 * all workers have come. */
ls_status ls_shm_barrier_done(const struct ls_meeting_place *place, uint64_t blocks, uint64_t count);
