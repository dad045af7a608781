/* Virtual time: one thread runs events in the order of (time, sequence), and routines, which are threads that give
 * themselves up where they wait. All random numbers come from one seed, so a run is the same each time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef void clock_fn(void *context, uint64_t number);
void clock_begin(uint64_t seed);
/* Forgets all events and routines. */
void clock_end(void);
/* True between the two: this program's time is virtual. */
bool clock_runs(void);
int64_t clock_now(void);
/* Calls fn then; LS_NEVER: never. */
void clock_at(int64_t at, clock_fn *fn, void *context, uint64_t number);
/* Runs the next event that is not after until. False: there is none, and it is until. */
bool clock_turn(int64_t until);
uint64_t clock_events(void); /* so far */
uint64_t clock_random(void);
/* From least to most, both possible. */
int64_t clock_between(int64_t least, int64_t most);

/* A thread of a simulated process. */
struct process;
struct routine;
typedef void *routine_fn(void *argument);
/* Starts when the present event is over. NULL: there are too many. */
struct routine *routine_new(struct process *process, routine_fn *fn, void *argument);
/* Never runs again; for one that does not run now. */
void routine_kill(struct routine *routine);
/* One that is kept is not used again before it is released. */
void routine_keep(struct routine *routine);
void routine_release(struct routine *routine);
struct routine *routine_running(void); /* NULL: none, but an event */
bool routine_is_over(const struct routine *routine);
struct process *routine_process(const struct routine *routine);
/* The running one waits for something; returns when it is woken, or at the deadline: false. */
bool routine_wait(const void *something, int64_t deadline);
/* Wakes the routine in a moment, if it waits for that. */
void routine_wake(struct routine *routine, const void *something);
