/* Placement of replicas on workers. */
#pragma once
#include "strategy/strategy.h"

/* Opens the devices, and finds this worker's replicas together with all workers. */
ls_status ls_placement_open(ls_strategy *strategy);
ls_status ls_placement_number(ls_strategy *strategy);
/* Names each replica's track in the timeline by its id. A replica without room there has no track. */
void ls_placement_name_tracks(ls_strategy *strategy);
