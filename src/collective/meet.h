/* Meeting in shared memory: every worker waits until all have come. */
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
/* The ranks are not in the same call, or one is lost: fingerprints go over the links, so that every rank, also those
 * that wait there, hears of the difference. Never LS_OK. */
ls_status ls_meet_over_links(const struct ls_meeting_place *place);
