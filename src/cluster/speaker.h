/* A speaker carries control streams between another worker of its host and workers of other hosts (carried.h). It only
 * passes on: what is said in a stream, its handshake included, is between the two ends. With the monitor held. */
#pragma once
#include "cluster/message.h"
#include "cluster/stream.h"

/* True: the carrier stands between this worker and the peer: on the host of one of the two. */
bool ls_speaker_may_carry(const struct ls_cluster *cluster, const struct ls_peer *carrier, const struct ls_peer *peer);
/* A Carry for somebody else has come over this stream. False: it breaks the protocol. */
bool ls_speaker_receive(struct ls_cluster *cluster, const struct ls_control_stream *stream,
                        const struct ls_carry *carry);
/* The peer has accepted this worker's stream: those that wait for that are opened. */
void ls_speaker_reached(struct ls_cluster *cluster, const struct ls_peer *peer);
/* The peer's stream to this worker (incoming), or from it, is gone, and with it all that were carried on it. by_kernel:
 * the kernel of the peer's host has closed it. */
void ls_speaker_strand(struct ls_cluster *cluster, const struct ls_peer *peer, bool incoming, bool by_kernel);
/* This worker has given the peer up, for the reason how: those at the other ends are told. */
void ls_speaker_lose(struct ls_cluster *cluster, const struct ls_peer *peer, const char *how);
void ls_speaker_release(struct ls_cluster *cluster);
