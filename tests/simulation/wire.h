/* The simulated network: sockets that connect, and the control streams of cluster/rpc. Messages of a stream come in
 * order, after the sender's link has taken them and a delay that is drawn. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_KINDS 18 /* of messages, by their field in the envelope */

/* The control messages of one task, those of its processes before included. */
struct wire_traffic {
    uint64_t sent[WIRE_KINDS], received, bytes; /* bytes in both directions */
    int streams, most_streams;                  /* both directions */
};
struct process;
void wire_begin(int tasks);
void wire_end(void);
/* The process is the one that listens for its rank, from when it has a listener. */
void wire_add(struct process *process, struct wire_traffic *traffic);
void wire_free(struct process *process);
int wire_streams(const struct process *process); /* open ones */
/* Its kernel closes its connections, and tells the others. */
void wire_kill(struct process *process);
/* Its machine loses its power: nobody is told, and the connections of the others end after half a minute. */
void wire_crash(struct process *process);
/* From now to until nothing passes between ranks of different sides (borrowed). */
void wire_cut(const uint8_t *sides, int64_t until);
/* The process that runs now takes connections, or does no more. */
void wire_listen(bool listens);
