/* Another worker is lost, or its streams are. */
#pragma once
#include "cluster/cluster_private.h"

/* With the monitor held */
/* The peer is lost, for the reason how; where this process was away itself, that is the root. A member tells all. */
void ls_loss_declare(struct ls_cluster *cluster, struct ls_peer *peer, const char *how);
/* A stream of the peer is gone. */
void ls_loss_of_stream(struct ls_cluster *cluster, struct ls_peer *peer, const char *how);
/* Both are of no use any more: ends them. Before the group runs they are made again. */
void ls_loss_drop(struct ls_cluster *cluster, struct ls_peer *peer, const char *why);
