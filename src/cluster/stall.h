/* A member that waits long in a collective asks whether the others make the same call (docs/protocol.md). */
#pragma once
#include "cluster/cluster_private.h"

/* This worker waits in the collective with that number; call: its fingerprint, at most LS_STALL_MAX bytes. Any thread,
 * with nothing held. */
void ls_stall_tell(struct ls_cluster *cluster, uint64_t sequence, const void *call, size_t size);
/* A member waits, or the coordinator says so. With the monitor held. */
void ls_stall_receive(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_stall *stall);
