/* The flight record: the last collectives of a group in a ring, for the post-mortem (torch's FlightRecorder). The
 * thread that makes the calls alone writes and reads it: no lock, and no allocation after the start. A call costs one
 * reading of the clock beside the one with which it starts its deadline anyway. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "collective/run/frame.h"

enum ls_flight_state { LS_FLIGHT_BEGUN, LS_FLIGHT_DONE, LS_FLIGHT_FAILED };
struct ls_flight_entry {
    uint64_t sequence, count;
    int64_t begun, ended; /* of ls_now; 0 if not yet */
    int32_t kind, dtype;
    int32_t algorithm; /* an enum ls_algorithm; 0 if none was chosen */
    enum ls_flight_state state;
    char name[LS_FRAME_NAME];
};
struct ls_flight {
    struct ls_flight_entry *entries; /* [capacity] */
    size_t capacity;
    size_t next;                     /* where the next call goes */
    uint64_t count;                  /* ever begun; the newest capacity of them are kept */
    struct ls_activity *activity;    /* borrowed; NULL if nothing is recorded */
    struct ls_flight_entry *current; /* the call in progress; NULL between calls */
};

/* A capacity of 0 means 1024. */
ls_status ls_flight_init(struct ls_flight *flight, size_t capacity, struct ls_activity *activity);
void ls_flight_free(struct ls_flight *flight);
void ls_flight_begin(struct ls_flight *flight, const struct ls_frame *frame);
/* The call in progress started its clock. */
void ls_flight_start(struct ls_flight *flight, int64_t now);
/* The call in progress, if there is one, has ended. */
void ls_flight_end(struct ls_flight *flight, bool failed);
/* The index-th oldest that is kept; NULL past the newest. */
const struct ls_flight_entry *ls_flight_get(const struct ls_flight *flight, uint64_t index);
uint64_t ls_flight_dropped(const struct ls_flight *flight);
