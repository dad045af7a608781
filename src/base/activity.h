/* Numbers that say how a worker is doing, for a question from outside (lockstep top). One thread at a time writes them
 * and any thread reads them. Each number is right by itself. Together they may be a moment apart. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

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
