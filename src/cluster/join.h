/* Forming a generation, the first or the one after a loss. */
#pragma once
#include "cluster/cluster.h"
#include "cluster/peer.h"

/* A generation is accepted by all who hold its state and have its links: form, take the links, copy the state, accept.
 * When one of these fails and ls_join_may_recover says so, all begin again with form, as after a loss. While it
 * waits it logs, every report_interval, who is missing and why (name not found / refused / no answer / other cluster /
 * other version). CANCELLED: the others have left in order. */
ls_status ls_join_form(struct ls_cluster *cluster, const struct ls_standing *standing,
                       struct ls_generation *generation);
ls_status ls_join_accept(struct ls_cluster *cluster);
/* Of a parameter server, which serves while it waits: accepts, and does not wait for the beginning. Then says whether
 * the attempt, or its generation, still stands. CANCELLED: the others have left in order. */
ls_status ls_join_offer(struct ls_cluster *cluster);
ls_status ls_join_watch(struct ls_cluster *cluster);
/* Returns true if this thread's error, of anything that the cluster or its links are used for, comes from a loss after
 * which a new generation is to be formed. severed: a connection of the members broke, which is a loss also where nobody
 * has noticed one; the others are told. Else an UNAVAILABLE that no loss stands behind is the user's own. */
bool ls_join_may_recover(struct ls_cluster *cluster, ls_status status, bool severed);
/* For a cluster that is no member: tells those who are connected why, and frees. Keeps this thread's error. */
void ls_join_give_up(struct ls_cluster *cluster, ls_status status);

/* The handshake, with the monitor held */
void ls_handshake_received(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
void ls_handshake_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Takes a second reply: the workers have finished before they took this parameter server in. Returns false if the
 * message is no such reply. */
bool ls_handshake_ended(struct ls_cluster *cluster, const struct ls_message *message);

/* Compares lines "field=value\n" between all workers; the first difference is one INVALID_ARGUMENT error, the same on
 * every worker, that names the field, both values and both ranks. */
ls_status ls_agree_lines(struct ls_cluster *cluster, const char *name, const char *lines, double timeout);
