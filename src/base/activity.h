/* What a worker is doing, for whoever asks from outside (lockstep top): numbers that one thread at a time writes and
 * any thread reads. Each is right by itself; together they may be a moment apart. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

struct ls_activity {
    atomic_int_fast64_t step;        /* training steps committed by fit; 0: none yet */
    atomic_int_fast64_t collectives; /* that have ended */
    atomic_int_fast64_t bytes;       /* of their vectors */
    atomic_int_fast64_t inside;      /* nanoseconds spent in them */
    atomic_int_fast64_t restarts;    /* of this task's process, before this one */
    atomic_int_fast64_t since;       /* when the present one began, of ls_now; 0: there is none */
};

static inline void ls_activity_set(atomic_int_fast64_t *number, int64_t value) {
    atomic_store_explicit(number, value, memory_order_relaxed);
}
static inline int64_t ls_activity_get(const atomic_int_fast64_t *number) {
    return atomic_load_explicit(number, memory_order_relaxed);
}
/* For the one thread that writes it. */
static inline void ls_activity_add(atomic_int_fast64_t *number, int64_t value) {
    ls_activity_set(number, ls_activity_get(number) + value);
}
