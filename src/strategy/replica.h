/* Replicas. */
#pragma once
#include "strategy/strategy.h"

/* Threads, runs, meetings */
ls_status ls_replicas_start(ls_strategy *strategy);
void ls_replicas_stop(ls_strategy *strategy);
ls_status ls_replicas_meet(struct ls_replica *replica, ls_meeting_fn *act, void *context);
