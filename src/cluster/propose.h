/* The choice of whom to follow, and the proposals of the one that is followed (docs/protocol.md). */
#pragma once
#include "cluster/cluster_private.h"

/* Looks whom to follow, and proposes where this worker may. Not while FORMING or READY. */
void ls_propose(struct ls_cluster *cluster);
/* A Report, Propose, Accept or Begin of the peer; false: the message breaks the protocol. */
bool ls_propose_receive(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Another proposal in the same memory; number 0: there is none. */
void ls_propose_renew(struct ls_proposal *proposal, uint64_t number);
/* Elastic: what is proposed stands in the ledger before it is sent or accepted; false: there is no room. */
bool ls_propose_keep(struct ls_cluster *cluster);
/* Once all have accepted this worker's own proposal, it enters and says Begin. */
void ls_propose_begin(struct ls_cluster *cluster);
/* The survivor that leads, as far as this worker knows, which may be itself; -1: it knows none. */
int ls_propose_leader(const struct ls_cluster *cluster);
bool ls_propose_is_own(const struct ls_cluster *cluster);
/* Returns true if a generation is being formed. */
bool ls_propose_is_attempting(const struct ls_cluster *cluster);
/* An attempt has failed: the one that this worker follows is told. */
void ls_propose_again(struct ls_cluster *cluster);
/* The process has been seen to end: whom this worker follows is told. */
void ls_propose_note_end(struct ls_cluster *cluster, uint64_t incarnation);
/* Why nothing is proposed though all who are missed are there, in words: whose report or which votes are missing;
 * empty: it is not known. */
void ls_propose_describe(struct ls_cluster *cluster, char *text, size_t size);
/* The peer's stream is gone: what it reported, or that it was followed, is over. */
void ls_propose_forget(struct ls_cluster *cluster, struct ls_peer *peer);
/* The group has gone on without this process. */
void ls_propose_fence(struct ls_cluster *cluster, const char *why);
/* The attempt is over, for the caller to see. */
void ls_propose_fail(struct ls_cluster *cluster, const char *why);
