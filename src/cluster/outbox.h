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
/* Sends one message to all peers that this worker has met and that is_meant names. It is encoded once. */
typedef bool ls_outbox_filter(const struct ls_cluster *cluster, const struct ls_peer *peer);
void ls_outbox_send_all(const struct ls_cluster *cluster, const struct ls_message *message, ls_outbox_filter *is_meant);
/* The filters. */
bool ls_outbox_accepted(const struct ls_cluster *cluster,
                        const struct ls_peer *peer); /* its Hello was accepted there */
bool ls_outbox_proposed(const struct ls_cluster *cluster,
                        const struct ls_peer *peer); /* it is on the proposal's roster */
bool ls_outbox_member(const struct ls_cluster *cluster, const struct ls_peer *peer);
