/* A gate: a counter that threads wait on until it moves. Waiting spins for a moment where cores are to spare, then
 * sleeps in the kernel (futex), so that handing work to another thread costs about a microsecond on an idle machine. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ls_gate {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};
static inline uint32_t ls_gate_value(struct ls_gate *gate) {
    return atomic_load_explicit(&gate->value, memory_order_acquire);
}
/* Moves the counter and wakes everybody. A woken thread sees all that was written before. */
void ls_gate_open(struct ls_gate *gate);
/* Returns when the counter differs from seen. It spins so many turns before it sleeps; 0 when cores are short. */
void ls_gate_wait(struct ls_gate *gate, uint32_t seen, int spins);
/* The same until a deadline; false when it has passed. */
bool ls_gate_wait_until(struct ls_gate *gate, uint32_t seen, int spins, int64_t deadline);
/* The number of turns worth spinning when so many threads of this host want to run at once. */
int ls_gate_spins(int threads);
