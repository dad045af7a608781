/* TLS. */
#pragma once
#include "cluster/cluster_private.h"
#include "cluster/rpc/rpc_stream.h"

/* Returns true if the caller's certificate is the task's. Else text says why not. */
bool ls_auth_tls_caller(struct ls_cluster *cluster, const struct ls_rpc_caller *caller, const char *task_type,
                        int task_index, char text[LS_ERROR_SIZE]);
/* The dial to the peer has come to a verdict, which ends the join: one of the certificates, or only one of the two has
 * TLS. */
void ls_auth_tls_judge(struct ls_cluster *cluster, struct ls_peer *peer);
/* The listener's: somebody has heard the same from this worker. It is a stranger, whose word counts for nothing: the
 * others are dialled soon, and a join that ends already waits for one worker less. Takes the monitor. */
void ls_auth_tls_differed(void *context);
/* Returns true if `untold` workers may have heard of it by now. */
bool ls_auth_tls_has_told(const struct ls_cluster *cluster, int untold);
/* A stream to the peer, without TLS, has come to nothing for that reason: ends the join where it says that it has TLS.
 */
void ls_auth_tls_failed(struct ls_cluster *cluster, struct ls_peer *peer, const char *reason);
