/* Liveness. */
#pragma once
#include "cluster/cluster_private.h"

ls_status ls_heartbeat_start(struct ls_cluster *cluster);
/* Of the generation that the caller has been given: how often to beat, and how long a silence may be. With the monitor
 * held. */
void ls_heartbeat_pace(struct ls_cluster *cluster);
/* Ends the thread. Not with the monitor held. */
void ls_heartbeat_stop(struct ls_cluster *cluster);
