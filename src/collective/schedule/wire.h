/* The values that the schedules of an all-reduce send and receive: float32 as it lies, or, where the reduction has a
 * compression, 16 bits an element in scratch. Sizes are those of the reduction's own elements everywhere. */
#pragma once
#include "collective/schedule/reduction.h"

#define LS_WIRE_RING ((size_t)256 * 1024) /* bytes; a multiple of the piece that the executor folds at a time */

/* A range of elements. */
struct ls_values {
    const unsigned char *at;
    bool narrow; /* compressed */
    int gate;    /* the action that makes them; -1 if they lie there already */
    bool ring;   /* they come through a ring, for one fold */
};

/* Adds a fold with to, size and divide. The caller adds its sources at once. to may be NULL if only other ranks get the
 * result. sent receives the values for the other ranks; with compression to receives the same rounded values. */
int ls_wire_fold(struct ls_schedule *schedule, const struct ls_reduction *reduction, struct ls_action fold,
                 struct ls_values *sent);
/* Adds a source to the fold added last. */
void ls_wire_source(struct ls_schedule *schedule, int fold, struct ls_subtree covers, const struct ls_values *values);
/* Adds a send of the values. Returns the action behind which the sources of the values may be overwritten. */
int ls_wire_send(struct ls_schedule *schedule, int peer, const struct ls_values *values, size_t size);
/* Receives size bytes from peer into scratch. last is true if no later bytes from that peer are folded with these. */
struct ls_values ls_wire_receive(struct ls_schedule *schedule, const struct ls_reduction *reduction, int peer,
                                 size_t size, bool last);
/* Receives with peer, to and size, complete as far as the cursor of *whole; the values may be sent on. */
struct ls_values ls_wire_receive_into(struct ls_schedule *schedule, const struct ls_reduction *reduction,
                                      struct ls_action receive, int *whole);
