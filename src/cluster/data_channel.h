/* A channel is the data connections of one group of processes in a generation. A strategy or a communicator has channel
 * 0; each further group has a number of its own, so that its bytes never mix with another's. An even channel has one
 * connection a pair, in both directions, and the higher rank dials. An odd one has up to two: the sender dials, and
 * bytes go its way only. A connection of a channel that is not there yet is closed, and is made again. A channel takes
 * an eventfd and 8 bytes a worker (an odd one 16), and about 600 bytes a connection. The cluster's monitor guards it.
 */
#pragma once
#include "cluster/cluster_private.h"

static inline bool ls_data_channel_is_one_way(uint32_t number) {
    return number & 1;
}
/* ALREADY_EXISTS where the number is taken. Without the monitor. */
ls_status ls_data_channel_open(struct ls_cluster *cluster, uint32_t number, struct ls_data_channel **channel);
/* Closes its connections, and frees it; also after the cluster. Without the monitor. Number 0 stays until
 * ls_data_channel_end. */
void ls_data_channel_close(struct ls_data_channel *channel);
/* Frees number 0, and leaves the others to those who have opened them. */
void ls_data_channel_end(struct ls_cluster *cluster);

/* ---- with the monitor held ---- */

/* Returns NULL if no channel has that number. */
struct ls_data_channel *ls_data_channel_find(const struct ls_cluster *cluster, uint32_t number);
/* Returns what is kept of the connection with the rank; inbound: of the one-way connection from it. It is made when it
 * is first asked for; NULL: there is no memory. */
struct ls_peer_data *ls_data_channel_peer(const struct ls_data_channel *channel, int rank, bool inbound);
/* Closes the connections of all channels that belonged to the proposal before. */
void ls_data_channel_drop(struct ls_cluster *cluster);
