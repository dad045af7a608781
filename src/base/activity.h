/* Numbers that say how a worker is doing, for a question from outside (lockstep top, /metrics). One thread at a time
 * writes them and any thread reads them. Each number is right by itself. Together they may be a moment apart. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/float_bits.h"

/* A histogram of times. counts[i] has what took no longer than bound i, which is 10 us, 30 us, 100 us, ...
 * 30 s, and longer than the bound before; the last one has what took longer. */
#define LS_SHORTEST_DURATION 10000 /* nanoseconds */
enum { LS_DURATION_BOUNDS = 14 };
struct ls_durations {
    atomic_int_fast64_t counts[LS_DURATION_BOUNDS + 1], sum; /* sum: nanoseconds */
};

struct ls_activity {
    atomic_int_fast64_t step;        /* training steps committed by fit; 0: none yet */
    atomic_int_fast64_t collectives; /* that have ended */
    atomic_int_fast64_t bytes;       /* of their vectors */
    atomic_int_fast64_t inside;      /* nanoseconds spent in them */
    atomic_int_fast64_t restarts;    /* of this task's process, before this one */
    atomic_int_fast64_t since;       /* begin of the present collective, of ls_now; 0 without one */
    atomic_int_fast64_t reading;     /* time since which replicas wait for examples; 0 if none does */
    atomic_int readers;              /* their number */
    atomic_int_fast64_t waiting;     /* time since which the caller joins, recovers or exchanges; 0 if it does not */
    atomic_int_fast64_t members;     /* workers of the group; 0 while it forms */
    atomic_int_fast64_t generation;  /* of the group */
    atomic_int_fast64_t refused;     /* connections of strangers */
    atomic_int_fast64_t loss;        /* of the last step: the bits of a double */
    atomic_int_fast64_t applied;     /* pushes of all workers in asynchronous training, up to the last meeting */
    atomic_int_fast64_t dropped;     /* those that were too old */
    atomic_int_fast64_t staleness;   /* updates between the reading of a push's variables and the push, summed up */
    atomic_int_fast64_t saved;       /* when this worker has written its last checkpoint; 0: it has not */
    struct ls_durations steps, durations; /* of training steps; of collectives */
};

static inline void ls_activity_set(atomic_int_fast64_t *number, int64_t value) {
    atomic_store_explicit(number, value, memory_order_relaxed);
}
static inline int64_t ls_activity_get(const atomic_int_fast64_t *number) {
    return atomic_load_explicit(number, memory_order_relaxed);
}
/* A thread begins, or ends, to wait for examples. */
static inline void ls_activity_read(struct ls_activity *activity, int64_t now) {
    if (atomic_fetch_add(&activity->readers, 1) == 0) ls_activity_set(&activity->reading, now);
}
static inline void ls_activity_has_read(struct ls_activity *activity) {
    if (atomic_fetch_sub(&activity->readers, 1) == 1) ls_activity_set(&activity->reading, 0);
}
/* Notes that the caller waits since then (0: no more). Returns the former time, for a wait inside a wait. activity may
 * be NULL. */
static inline int64_t ls_activity_wait(struct ls_activity *activity, int64_t since) {
    int64_t before = activity ? ls_activity_get(&activity->waiting) : 0;
    if (activity) ls_activity_set(&activity->waiting, since);
    return before;
}
/* Adds to a number. Only the one thread that writes the number may call it. */
static inline void ls_activity_add(atomic_int_fast64_t *number, int64_t value) {
    ls_activity_set(number, ls_activity_get(number) + value);
}
/* The bound after bound i. */
static inline int64_t ls_durations_next(int i, int64_t bound) {
    return i % 2 ? bound / 3 * 10 : bound * 3;
}
static inline void ls_durations_add(struct ls_durations *durations, int64_t nanoseconds) {
    int64_t bound = LS_SHORTEST_DURATION;
    int i = 0;
    for (; i < LS_DURATION_BOUNDS && nanoseconds > bound; i++) bound = ls_durations_next(i, bound);
    ls_activity_add(&durations->counts[i], 1);
    ls_activity_add(&durations->sum, nanoseconds);
}
static inline double ls_activity_loss(const struct ls_activity *activity) {
    return ls_float_bits_double((uint64_t)ls_activity_get(&activity->loss));
}
static inline void ls_activity_set_loss(struct ls_activity *activity, double loss) {
    ls_activity_set(&activity->loss, (int64_t)ls_float_bits_of_double(loss));
}
