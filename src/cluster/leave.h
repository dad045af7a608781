/* Leaving. */
#pragma once
#include "cluster/cluster.h"
#include "cluster/cluster_private.h"

/* This worker was asked to stop: it says its Leave, and every wait of this process ends with CANCELLED. Any thread, any
 * number of times; ls_cluster_leave or ls_join_give_up follow. */
void ls_leave_cancel(struct ls_cluster *cluster);
/* The same with a reason of the caller's, and ABORTED where there is a group: an error, after which nothing recovers.
 */
void ls_leave_abort(struct ls_cluster *cluster, const char *reason);
/* Returns true if the group ends because this worker or another one was asked to stop; waits a moment for the word of
 * it. */
bool ls_leave_is_cancelled(struct ls_cluster *cluster);
/* All workers have stopped after one step, as the text says: whoever leaves in order from now on says so. */
void ls_leave_note_stopped(struct ls_cluster *cluster, const char *text);
/* Leaves. LS_OK: exit barrier with the limit of the settings; peers that then go are no failure. Otherwise tells all
 * peers the cause (this thread's error) and does not wait for them. Returns status, or what the barrier met. Frees. */
ls_status ls_cluster_leave(struct ls_cluster *cluster, ls_status status);
/* The exit barrier of ls_cluster_leave before it, for who recovers from a loss in it. */
ls_status ls_leave_pass_exit(struct ls_cluster *cluster);
/* Returns true if another worker has left in order, and so all have passed the exit barrier. */
bool ls_leave_is_over(struct ls_cluster *cluster);
/* After that: LS_OK, or LS_CANCELLED where they have stopped as one asked. */
ls_status ls_leave_outcome(struct ls_cluster *cluster);
/* Tells all, waits up to a second until they know, frees. */
void ls_leave_end(struct ls_cluster *cluster, const struct ls_leave *leave);
/* A collective of this worker's has failed by itself: the other members are told now, also those with whom this one has
 * no data connection, and end with the same status and message. */
void ls_leave_tell_failure(struct ls_cluster *cluster, ls_status status, const char *message);
