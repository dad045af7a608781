/* One other worker. */
#pragma once
#include "cluster/cluster_private.h"

/* The member with that index in the generation that the caller forms or is in: this worker, or one that it has met. */
struct ls_peer *ls_peer_member(const struct ls_cluster *cluster, int index);
/* With the monitor held */
/* The worker of that rank, made when it is first met; NULL: there is no memory. */
struct ls_peer *ls_peer_meet(struct ls_cluster *cluster, int rank);
void ls_peer_free_all(struct ls_cluster *cluster);
/* Everything that belonged to another process of this task is forgotten. */
void ls_peer_adopt(struct ls_peer *peer, uint64_t incarnation);
/* Connected in both directions. */
bool ls_peer_connected(const struct ls_peer *peer);
/* Connected, and it has entered a generation. */
bool ls_peer_is_survivor(const struct ls_peer *peer);
/* Why it is not complete, in words. */
const char *ls_peer_reason(const struct ls_peer *peer);
/* This worker's stream to it is gone, for the reason why; the joining thread makes another. */
void ls_peer_end_out(struct ls_peer *peer, const char *why);
/* Ends both streams, as when they had been closed for the reason why. */
void ls_peer_sever(struct ls_peer *peer, const char *why);
/* The same for who was lost. With elastic the own stream stays for a while: its end tells whether the process has
 * ended.
 */
void ls_peer_lose(struct ls_cluster *cluster, struct ls_peer *peer, const char *why);
/* Returns true if the end of its stream can say that its kernel has closed it. With TLS a relay stands before gRPC, and
 * a connection that timed out looks alike: so only where the peer was heard well before that. */
bool ls_peer_shows_end(const struct ls_cluster *cluster, const struct ls_peer *peer);
void ls_peer_end_fading(struct ls_peer *peer);
/* Forgets what belonged to the generation before. */
void ls_peer_renew(struct ls_peer *peer);
/* The share of sequence, NULL if it has not come; borrowed / taken (caller frees). */
struct ls_stored_share *ls_peer_find_share(const struct ls_peer *peer, uint64_t sequence);
struct ls_stored_share *ls_peer_take_share(struct ls_peer *peer, uint64_t sequence);
void ls_peer_share_free(struct ls_stored_share *share);
/* It was heard just now. */
void ls_peer_heard(struct ls_peer *peer);
/* Returns true if the rank is on the roster of the generation that this worker has entered. */
bool ls_peer_is_member(const struct ls_cluster *cluster, int rank);
/* Returns true if some other worker that is connected has entered a generation. */
bool ls_peer_is_any_survivor(const struct ls_cluster *cluster);
