/* Liveness. */
#pragma once
#include "cluster/cluster_private.h"
#include "cluster/rpc/rpc_stream.h"

/* Sets the pace of a first join. Before any other thread: who knocks is answered by it. */
void ls_heartbeat_prepare(struct ls_cluster *cluster);
/* Starts the thread. */
ls_status ls_heartbeat_start(struct ls_cluster *cluster);
/* Of the generation that the caller has been given: how often to beat, and how long a silence may be. With the monitor
 * held. */
void ls_heartbeat_pace(struct ls_cluster *cluster);
/* Ends the thread. Not with the monitor held. */
void ls_heartbeat_stop(struct ls_cluster *cluster);

/* Callbacks, with the monitor held. */
void ls_control_message(void *context, struct ls_rpc_stream *stream, const void *data, size_t size);
void ls_control_closed(void *context, struct ls_rpc_stream *stream);
