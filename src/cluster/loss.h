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

/* A member that waits long in a collective asks whether the others make the same call (docs/protocol.md). */

/* This worker waits in the collective with that number; call: its fingerprint, at most LS_STALL_MAX bytes. Any thread,
 * with nothing held. */
void ls_stall_tell(struct ls_cluster *cluster, uint64_t sequence, const void *call, size_t size);
/* A member waits, or the coordinator says so. With the monitor held. */
void ls_stall_receive(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_stall *stall);
