/* Messages to others, and the word to the own threads. */
#pragma once
#include "cluster/cluster_private.h"
#include "cluster/rpc/rpc_stream.h"

/* Wakes whoever waits for a change: the monitor's waiters and the forming thread. */
void ls_outbox_notify(struct ls_cluster *cluster);
/* A message of this process and its generation. */
struct ls_message ls_outbox_message(const struct ls_cluster *cluster, enum ls_message_kind kind);
/* Encodes and queues; a stream that cannot be written to counts as closed soon, so nothing is returned. */
void ls_outbox_send(struct ls_rpc_stream *stream, const struct ls_message *message);
/* Sends one message to all of the roster that this worker has met; NULL: to all that have accepted its Hello. It is
 * encoded once. */
void ls_outbox_send_all(const struct ls_cluster *cluster, const struct ls_message *message, const uint64_t *roster);
