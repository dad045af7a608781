/* The handshake. */
#pragma once
#include "cluster/cluster_private.h"

/* The handshake, with the monitor held */
void ls_handshake_received(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
void ls_handshake_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Takes a second reply: the workers have finished before they took this parameter server in. Returns false if the
 * message is no such reply. */
bool ls_handshake_ended(struct ls_cluster *cluster, const struct ls_message *message);
