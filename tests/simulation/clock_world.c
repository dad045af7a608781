/* The heap of events and the switches between routines. A routine that is woken runs a moment later, as a thread does,
 * and all that wakes it in that moment wakes it once. */
#include "simulation/clock_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/status.h"
#include "simulation/process.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK (512 << 10)
#else
#define STACK (96 << 10) /* bytes; what is not touched takes no memory */
#endif
#define MOST_ROUTINES 65536
#define LEAST_WAKE    (2 * LS_MICROSECOND) /* between a word and the run of whom it wakes */
#define MOST_WAKE     (50 * LS_MICROSECOND)

struct event {
    int64_t at;
    uint64_t sequence, number;
    clock_fn *fn;
    void *context;
};

struct routine {
    ucontext_t context;
    struct process *process;
    routine_fn *fn;
    void *argument;
    const void *awaited; /* NULL: it does not wait */
    bool over, kept, woken, expired;
    uint64_t ticket; /* of its wait; an event of another one is late */
    char error[LS_ERROR_SIZE];
    void *fake_stack;
    char *stack;
};

static struct {
    bool runs;
    int64_t now;
    uint64_t sequence, state, count;
    struct event *events; /* a heap */
    size_t size, room;
    struct routine **routines; /* all that were made; over ones are used again */
    int routine_count, idle_count;
    struct routine **idle;
    char *stacks;
    struct routine *running;
    ucontext_t main;
    void *main_fake_stack;
    const void *main_bottom;
    size_t main_size;
} world;

static void die(const char *what) {
    (void)fprintf(stderr, "simulation: %s\n", what);
    abort();
}

/* ---- Random numbers: SplitMix64 (Steele, Lea, Flood, 2014) --------------------------------------------------------
 */

uint64_t clock_random(void) {
    uint64_t z = (world.state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int64_t clock_between(int64_t least, int64_t most) {
    return least + (int64_t)(clock_random() % (uint64_t)(most - least + 1));
}

/* ---- Events -------------------------------------------------------------------------------------------------------
 */

static bool is_before(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void grow_events(void) {
    world.room = world.room ? 2 * world.room : 1024;
    world.events = realloc(world.events, world.room * sizeof(*world.events));
    if (!world.events) die("no memory for events");
}

void clock_at(int64_t at, clock_fn *fn, void *context, uint64_t number) {
    if (at == LS_NEVER) return;
    if (world.size == world.room) grow_events();
    struct event event = {at < world.now ? world.now : at, world.sequence++, number, fn, context};
    size_t i = world.size++;
    for (; i && is_before(&event, &world.events[(i - 1) / 2]); i = (i - 1) / 2)
        world.events[i] = world.events[(i - 1) / 2];
    world.events[i] = event;
}

static struct event take_first(void) {
    struct event first = world.events[0], last = world.events[--world.size];
    size_t i = 0;
    for (size_t child = 1; child < world.size; child = 2 * i + 1) {
        if (child + 1 < world.size && is_before(&world.events[child + 1], &world.events[child])) child++;
        if (!is_before(&world.events[child], &last)) break;
        world.events[i] = world.events[child];
        i = child;
    }
    world.events[i] = last;
    return first;
}

bool clock_turn(int64_t until) {
    if (!world.size || world.events[0].at > until) {
        if (until != LS_NEVER && until > world.now) world.now = until;
        return false;
    }
    struct event event = take_first();
    world.now = event.at;
    world.count++;
    event.fn(event.context, event.number);
    return true;
}

int64_t clock_now(void) {
    return world.now;
}

bool clock_runs(void) {
    return world.runs;
}

uint64_t clock_events(void) {
    return world.count;
}

void clock_begin(uint64_t seed) {
    memset(&world, 0, sizeof(world));
    world.runs = true;
    world.now = 1000 * LS_SECOND;
    world.state = seed;
    world.routines = calloc(MOST_ROUTINES, sizeof(*world.routines));
    world.idle = calloc(MOST_ROUTINES, sizeof(*world.idle));
    world.stacks = mmap(NULL, (size_t)MOST_ROUTINES * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!world.routines || !world.idle || world.stacks == MAP_FAILED) die("no memory for routines");
}

void clock_end(void) {
    for (int i = 0; i < world.routine_count; i++) free(world.routines[i]);
    free(world.routines);
    free(world.idle);
    free(world.events);
    (void)munmap(world.stacks, (size_t)MOST_ROUTINES * STACK);
    world.runs = false;
}

/* ---- Routines ------------------------------------------------------------------------------------------------------
 */

/* AddressSanitizer is told of each switch: it keeps its own notes of a stack. */
static void leave_stack(void **fake_stack, const void *bottom, size_t size) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake_stack, bottom, size);
#else
    (void)fake_stack, (void)bottom, (void)size;
#endif
}

static void arrive_at_stack(void *fake_stack, const void **bottom, size_t *size) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
#else
    (void)fake_stack, (void)bottom, (void)size;
#endif
}

void routine_release(struct routine *routine) {
    world.idle[world.idle_count++] = routine;
}

void routine_keep(struct routine *routine) {
    routine->kept = true;
}

static void switch_to(struct routine *routine) {
    struct process *before = process_enter(routine->process);
    world.running = routine;
    (void)ls_fail(LS_OK, "%s", routine->error); /* each thread has its own last error */
    leave_stack(&world.main_fake_stack, routine->stack, STACK);
    (void)swapcontext(&world.main, &routine->context);
    arrive_at_stack(world.main_fake_stack, NULL, NULL);
    world.running = NULL;
    (void)process_enter(before);
    if (routine->over && !routine->kept) routine_release(routine);
}

static void switch_back(struct routine *routine) {
    leave_stack(routine->over ? NULL : &routine->fake_stack, world.main_bottom, world.main_size);
    (void)swapcontext(&routine->context, &world.main);
    arrive_at_stack(routine->fake_stack, &world.main_bottom, &world.main_size);
}

static void begin_routine(void) {
    struct routine *routine = world.running;
    arrive_at_stack(NULL, &world.main_bottom, &world.main_size);
    (void)routine->fn(routine->argument);
    routine->over = true;
    process_wake_joiners(routine->process, routine);
    switch_back(routine);
}

static void resume(void *context, uint64_t number) {
    struct routine *routine = context;
    if (routine->over || routine->ticket != number / 2) return;
    int64_t thaws = process_thaws_at(routine->process);
    if (thaws > world.now) {
        clock_at(thaws, resume, routine, number);
        return;
    }
    routine->expired = number % 2;
    routine->ticket++;
    routine->awaited = NULL;
    switch_to(routine);
}

static struct routine *take_routine(void) {
    if (world.idle_count) return world.idle[--world.idle_count];
    if (world.routine_count == MOST_ROUTINES) return NULL;
    struct routine *routine = calloc(1, sizeof(*routine));
    if (!routine) die("no memory for a routine");
    routine->stack = world.stacks + (size_t)world.routine_count * STACK;
    world.routines[world.routine_count++] = routine;
    return routine;
}

/* It returns once only: nobody goes back to it. */
static __attribute__((noinline)) void prepare(ucontext_t *context) {
    (void)getcontext(context);
}

struct routine *routine_new(struct process *process, routine_fn *fn, void *argument) {
    struct routine *routine = take_routine();
    if (!routine) return NULL;
    *routine = (struct routine){
        .process = process, .fn = fn, .argument = argument, .ticket = routine->ticket + 1, .stack = routine->stack};
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(routine->stack, STACK);
#endif
    prepare(&routine->context);
    routine->context.uc_stack.ss_sp = routine->stack;
    routine->context.uc_stack.ss_size = STACK;
    makecontext(&routine->context, begin_routine, 0);
    clock_at(world.now + clock_between(LEAST_WAKE, MOST_WAKE), resume, routine, 2 * routine->ticket);
    return routine;
}

void routine_kill(struct routine *routine) {
    if (routine->over) return;
    routine->over = true;
    routine_release(routine);
}

struct routine *routine_running(void) {
    return world.running;
}

bool routine_is_over(const struct routine *routine) {
    return routine->over;
}

struct process *routine_process(const struct routine *routine) {
    return routine->process;
}

bool routine_wait(const void *something, int64_t deadline) {
    struct routine *routine = world.running;
    if (!routine) die("an event waits");
    routine->awaited = something;
    routine->woken = false;
    clock_at(deadline, resume, routine, 2 * routine->ticket + 1);
    (void)snprintf(routine->error, sizeof(routine->error), "%s", ls_error());
    switch_back(routine);
    return !routine->expired;
}

void routine_wake(struct routine *routine, const void *something) {
    if (routine->over || routine->woken || routine->awaited != something) return;
    routine->woken = true;
    clock_at(world.now + clock_between(LEAST_WAKE, MOST_WAKE) + process_looks(routine->process), resume, routine,
             2 * routine->ticket);
}
