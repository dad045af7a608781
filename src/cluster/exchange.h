/* Exchange. */
#pragma once
#include "cluster/config.h"

struct ls_peer;
struct ls_message;

/* An all-gather of small messages over the control streams: every worker gives bytes under the same name and receives
 * everybody's, received[size], each freed with ls_free. DEADLINE_EXCEEDED naming who is missing after timeout seconds.
 * A failure raises the abort flag, and every later exchange fails alike. */
ls_status ls_cluster_exchange(struct ls_cluster *cluster, const char *name, struct ls_bytes bytes, double timeout,
                              struct ls_bytes *received);

/* With the monitor held */
/* Nothing of the exchanges before counts any more. */
void ls_exchange_renew(struct ls_cluster *cluster);
void ls_exchange_release(struct ls_cluster *cluster);
/* Takes a Shares, Finished or Waiting. Returns false if it does not keep to the protocol. */
bool ls_exchange_receive(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_message *message);
/* At the coordinator: that member waits in the exit barrier, and has made as many collectives as its share says. */
void ls_exchange_note_exit(struct ls_cluster *cluster, int rank, const void *share, size_t size);
/* Says to all that this worker is connected to whom it waits for; sequence 0: in forming a generation. */
void ls_exchange_say_waiting(struct ls_cluster *cluster, uint64_t sequence, int missing, const char *text);
