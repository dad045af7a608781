/* Proving the token, before a Hello counts. */
#pragma once
#include "cluster/cluster_private.h"

/* Opens the handshake on a stream of this worker's: with a Challenge or with Hello. */
void ls_auth_token_open(struct ls_cluster *cluster, struct ls_rpc_stream *stream);
/* Returns true if this worker has sent the peer a Challenge that waits for its answer, and then the answer. */
bool ls_auth_token_is_open(const struct ls_cluster *cluster, const struct ls_peer *peer);
void ls_auth_token_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Returns true if an answer to Hello comes from a peer that has proved the token. Else the attempt has been ended. */
bool ls_auth_token_trusts(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Somebody's Challenge; false: it breaks the protocol. */
bool ls_auth_token_asked(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
/* Returns true if the Hello of the stream may be looked at. Else it has been refused. */
bool ls_auth_token_admits(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
/* A stranger's stream has ended: counted, where it was asked for the token and has not proved it. */
void ls_auth_token_ended(struct ls_cluster *cluster, struct ls_rpc_stream *stream);
/* The key of a generation's data connections, out of what its convener has drawn; false where libcrypto fails. */
bool ls_auth_token_key(const struct ls_cluster *cluster, const uint8_t drawn[LS_PROOF_SIZE],
                       uint8_t key[LS_PROOF_SIZE]);
