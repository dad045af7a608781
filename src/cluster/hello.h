/* This worker's own words in a handshake. */
#pragma once
#include "cluster/cluster_private.h"

/* With the monitor held */
/* proof: of the token, [LS_PROOF_SIZE]; NULL where there is none. */
void ls_hello_send(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const uint8_t *proof);
/* A number that is equal for equal hosts of Hellos; never 0. */
uint64_t ls_hello_host(const char *host);
/* An answer to a Hello; text is borrowed. */
struct ls_message ls_hello_reply(const struct ls_cluster *cluster, enum ls_verdict verdict, const char *text);
/* Sends that answer, and nothing more on the stream. */
void ls_hello_answer(struct ls_cluster *cluster, struct ls_rpc_stream *stream, enum ls_verdict verdict,
                     const char *text);
/* The same with OVER: all have finished, or stopped as one asked. */
void ls_hello_answer_over(struct ls_cluster *cluster, struct ls_rpc_stream *stream);
/* The same for who may not join, with the code of its error. */
void ls_hello_refuse(struct ls_cluster *cluster, struct ls_rpc_stream *stream, ls_status code, const char *text);
/* The same for a worker of this cluster that says it is rank: it ends this worker's join too. */
void ls_hello_refuse_worker(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, ls_status code,
                            const char *text);
/* Refuses who has not proved to be a worker of this cluster, which does not end this worker's join. */
void ls_hello_refuse_stranger(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, enum ls_refusal kind,
                              const char *text);
/* The caller that says it is rank knows by now why it cannot join. This worker waits for it no longer. */
void ls_hello_told(struct ls_cluster *cluster, int rank);
/* This worker's stream ended in vain; the joining thread will try again. */
void ls_hello_end_attempt(struct ls_cluster *cluster, struct ls_peer *peer, const char *why);
