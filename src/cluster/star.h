/* The star of control streams: which workers are connected. Each worker keeps streams with its window, the lowest
 * ranks. The lowest survivor of these coordinates (docs/protocol.md, "Words"). With the monitor held. */
#pragma once
#include "cluster/cluster_private.h"

/* The rank that coordinates the generation that this worker is in: who has convened it. */
int ls_star_coordinator(const struct ls_cluster *cluster);
bool ls_star_coordinates(const struct ls_cluster *cluster);
/* Returns true if a loss of the streams with this peer is one of the group's, and beats go over them. */
bool ls_star_counts(const struct ls_cluster *cluster, const struct ls_peer *peer);
/* Returns true if this worker dials the peer, and dials it again. */
bool ls_star_wants(const struct ls_cluster *cluster, const struct ls_peer *peer);
/* Returns true if the peer is one of the lowest ranks, with whom streams stay. */
bool ls_star_is_deputy(const struct ls_cluster *cluster, const struct ls_peer *peer);
/* The window is as at the start. */
void ls_star_reset(struct ls_cluster *cluster);
/* Widens the window where it is time. Returns when to come again. */
int64_t ls_star_step(struct ls_cluster *cluster);
/* A Beat says that this rank is a survivor that leads; -1: it knows none. */
void ls_star_hear(struct ls_cluster *cluster, int leader);
/* Closes the streams that a running generation does not need. */
void ls_star_prune(struct ls_cluster *cluster);
