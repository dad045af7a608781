/* A carried stream: a control stream to a worker of another host that passes through a worker of one of the two hosts,
 * the speaker (speaker.h). Its messages travel as Carry on the speaker's own streams with both ends, each in the
 * direction in which that stream was dialled, so that what is said, and the end of who said it, keep their order.
 * stream.h is its interface; these are the parts. With the monitor held. */
#pragma once
#include "cluster/message.h"
#include "cluster/stream.h"

/* Opens a stream to the peer through the carrier, to which this worker has an accepted stream of its own. */
ls_status ls_carried_open(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_peer *carrier,
                          struct ls_control_stream **stream);
ls_status ls_carried_send(struct ls_control_stream *stream, const void *data, size_t size);
void ls_carried_finish(struct ls_control_stream *stream);
void ls_carried_drop(struct ls_control_stream *stream);
/* The stream of this worker's that it travels on; NULL once it has ended. */
const struct ls_control_stream *ls_carried_carrier(const struct ls_control_stream *stream);
/* A Carry has come over this stream. Its two ends are met. False: it breaks the protocol. */
bool ls_carried_receive(struct ls_cluster *cluster, const struct ls_control_stream *stream,
                        const struct ls_carry *carry);
/* The peer's stream to this worker (incoming), or from it, is gone, and with it all that were carried on it. */
void ls_carried_strand(struct ls_cluster *cluster, struct ls_peer *peer, bool incoming);
/* Tells of the ends of carried streams, in the order in which they came. */
void ls_carried_deliver(struct ls_cluster *cluster);
/* The worker whose own stream has ended, where that is why this one has; else NULL. */
struct ls_peer *ls_carried_root(const struct ls_control_stream *stream);
/* True: this worker and the peer are on one host, and streams pass between them that one of them carries. */
bool ls_carried_joins(const struct ls_peer *peer);
/* Counts one stream more, or less, that passes over the peer's stream to this worker (incoming), or from it. */
void ls_carried_count(struct ls_peer *peer, bool incoming, int more);
/* Sends a Carry on a worker's own stream; NULL: it is gone, and nothing is sent. */
void ls_carried_say(struct ls_control_stream *carrier, const struct ls_carry *carry);
void ls_carried_release(struct ls_cluster *cluster);
