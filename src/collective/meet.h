/* Meeting in shared memory: every worker of the host waits until all have come. */
#pragma once
#include "collective/executor.h"
#include "collective/shared.h"

struct ls_meeting_place {
    struct ls_shared *shared;
    struct ls_executor *executor; /* clock, abort flag and links, by which trouble is heard of */
    struct ls_schedule *schedule; /* for ls_meet_over_links */
    bool crowded;                 /* there are fewer processors than threads that take part */
};
/* All have come, and what they wrote before is seen; or an error that names those who have not, as a collective over
 * links would. opening: the first meeting of a call. */
ls_status ls_meet(const struct ls_meeting_place *place, bool opening);
/* After a meeting, blocks 0 to count - 1 of some work are for whoever comes first, so that nobody waits for a worker
 * that does not run. The next block for this one; count or more: none is left. */
uint64_t ls_meet_take(const struct ls_meeting_place *place);
/* This worker has done so many of the blocks that it took. Waits until all are done, not for all to come. */
ls_status ls_meet_done(const struct ls_meeting_place *place, uint64_t blocks, uint64_t count);
/* The ranks are not in the same call, or one is lost: fingerprints go over the links, so that every rank, also those
 * that wait there, hears of the difference. Never LS_OK. */
ls_status ls_meet_over_links(const struct ls_meeting_place *place);
