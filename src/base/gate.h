/* A gate: a counter that threads wait on until it moves. Waiting spins for a moment where cores are to spare, then
 * sleeps in the kernel (futex), so that handing work to another thread costs about a microsecond on an idle machine. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

struct ls_gate {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};
static inline uint32_t ls_gate_value(struct ls_gate *gate) {
    return atomic_load_explicit(&gate->value, memory_order_acquire);
}
/* Moves the counter and wakes everybody. What was written before is seen by those who wake. */
void ls_gate_open(struct ls_gate *gate);
/* Returns when the counter is not seen any more. spins: turns before sleeping, 0 when cores are short. */
void ls_gate_wait(struct ls_gate *gate, uint32_t seen, int spins);
/* Turns worth spinning when so many threads of this host want to run at once. */
int ls_gate_spins(int threads);
