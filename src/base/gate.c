/* Futexes with a short spin before them. */
#define _GNU_SOURCE
#include "base/gate.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define SPINS 4000 /* about 100 microseconds */

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void ls_gate_open(struct ls_gate *gate) {
    atomic_fetch_add(&gate->value, 1);
    if (atomic_load(&gate->sleepers))
        (void)syscall(SYS_futex, &gate->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool ls_gate_wait_until(struct ls_gate *gate, uint32_t seen, int spins, int64_t deadline) {
    for (int i = 0; i < spins; i++) {
        if (ls_gate_value(gate) != seen) return true;
        relax();
    }
    int64_t left = 1;
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->value) == seen && (deadline == LS_NEVER || (left = deadline - ls_now()) > 0)) {
        const struct timespec most = {left / LS_SECOND, left % LS_SECOND};
        (void)syscall(SYS_futex, &gate->value, FUTEX_WAIT_PRIVATE, seen, deadline == LS_NEVER ? NULL : &most, NULL, 0);
    }
    atomic_fetch_sub(&gate->sleepers, 1);
    return ls_gate_value(gate) != seen;
}

void ls_gate_wait(struct ls_gate *gate, uint32_t seen, int spins) {
    (void)ls_gate_wait_until(gate, seen, spins, LS_NEVER);
}

/* All processors count, for a host's workers may be bound to different ones. */
int ls_gate_spins(int threads) {
    return threads <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS : 0;
}
