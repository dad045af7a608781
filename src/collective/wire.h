/* What the schedules of an all-reduce send and receive: float32 as it lies, or, where the reduction has a compression,
 * 16 bits an element in scratch. Sizes are those of the reduction's own elements everywhere. */
#pragma once
#include "collective/reduction.h"

#define LS_WIRE_RING ((size_t)256 * 1024) /* bytes; a multiple of what the executor folds at a time */

/* A range of elements. */
struct ls_values {
    const unsigned char *at;
    bool narrow; /* compressed */
    int gate;    /* the action that makes them; -1: they lie there */
    bool ring;   /* they come through a ring, for one fold */
};

/* A fold of size bytes into to, divided by divide unless that is 0; the caller adds its sources at once. sent receives
 * what other ranks are to get of it; with compression to receives the same rounded values. to NULL: for others only. */
int ls_wire_fold(struct ls_schedule *schedule, const struct ls_reduction *reduction, unsigned char *to, size_t size,
                 int divide, struct ls_values *sent);
/* To the fold added last. */
void ls_wire_source(struct ls_schedule *schedule, int fold, struct ls_subtree covers, const struct ls_values *values);
/* Returns the action behind which what the values were made of may be overwritten. */
int ls_wire_send(struct ls_schedule *schedule, int peer, const struct ls_values *values, size_t size);
/* size bytes from peer into scratch; last: nothing that is to be folded with them comes from that peer after them. */
struct ls_values ls_wire_receive(struct ls_schedule *schedule, const struct ls_reduction *reduction, int peer,
                                 size_t size, bool last);
/* The same into to, complete as far as the action *whole has come; the values may be sent on. */
struct ls_values ls_wire_receive_into(struct ls_schedule *schedule, const struct ls_reduction *reduction, int peer,
                                      unsigned char *to, size_t size, int *whole);
