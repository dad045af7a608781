/* Why this worker's group, or its join, ends. */
#pragma once
#include "cluster/cluster_private.h"

/* With the monitor held */
/* Records the root cause, if it is the first, and raises the abort flag with message. */
void ls_failure_raise(struct ls_cluster *cluster, const struct ls_failure *failure, const char *message);
/* This worker has seen a loss that no stream tells of: it says Stop. root: its own rank, or a joiner's. */
void ls_failure_stop(struct ls_cluster *cluster, int root, const char *message);
/* Tells all members the root. */
void ls_failure_say_stop(struct ls_cluster *cluster);
/* Returns true if this process was away for so long that the others may have given it up. To them its absence began
 * when they last heard of it, which on a busy machine is well before it was stopped. */
bool ls_failure_is_absence(const struct ls_heartbeat *heartbeat, int64_t gap);
/* A process that was stopped for longer than the limit has been given up by the others: the echo of that is all that
 * it sees of them. Then its absence is the failure; false: it was not away. */
bool ls_failure_blame_absence(struct ls_cluster *cluster, const char *echo);
/* Ends the join on this side with the text, if nothing has before. */
void ls_failure_refuse_join(struct ls_cluster *cluster, ls_status status, const char *text);
/* Returns true if this process was itself stopped a moment ago. */
bool ls_failure_was_absent(const struct ls_cluster *cluster);
/* The members have left in order; stopped: what they say where they have stopped as one asked, else "". */
void ls_failure_note_over(struct ls_cluster *cluster, const char *stopped);
