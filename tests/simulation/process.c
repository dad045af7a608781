/* Processes, and what stands in for base and for libc in them. All is one real thread, so a lock has nothing to do: a
 * routine gives itself up only in a wait, and an event never does. */
#include "simulation/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/memory.h"
#include "base/monitor.h"
#include "base/status.h"
#include "base/thread.h"
#include "simulation/clock_world.h"
#include "simulation/libc.h"
#include "simulation/wire.h"

#define CORES 64  /* of a host */
#define LOOK  100 /* nanoseconds, at a stream */

struct process_block {
    struct process_block *next, **back;
    struct process *process;
    size_t size;
};

static struct {
    struct process *now;
    struct descriptor *descriptors;
    int count, room, free_count;
    int *free; /* [room] numbers */
    uint64_t serial;
} world;

/* ---- Memory -------------------------------------------------------------------------------------------------------
 */

void *ls_alloc(size_t size) {
    struct process_block *block = calloc(1, sizeof(*block) + size);
    struct process *process = world.now;
    if (!block) return NULL;
    block->size = size;
    block->process = process;
    if (!process) return block + 1;
    block->next = process->memory;
    if (block->next) block->next->back = &block->next;
    block->back = &process->memory;
    process->memory = block;
    process->held += size;
    if (process->held > process->most_held) process->most_held = process->held;
    return block + 1;
}

void *ls_alloc_array(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : ls_alloc(bytes);
}

/* Nobody in the control plane asks for it. */
void *ls_alloc_aligned(size_t size) {
    (void)size;
    return NULL;
}

char *ls_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = ls_alloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

void ls_free(void *memory) {
    if (!memory) return;
    struct process_block *block = (struct process_block *)memory - 1;
    if (block->process) {
        *block->back = block->next;
        if (block->next) block->next->back = block->back;
        block->process->held -= block->size;
    }
    free(block);
}

static void free_memory(struct process *process) {
    while (process->memory) ls_free(process->memory + 1);
}

/* ---- Processes ----------------------------------------------------------------------------------------------------
 */

struct process *process_enter(struct process *process) {
    struct process *before = world.now;
    world.now = process;
    return before;
}

struct process *process_now(void) {
    return world.now;
}

struct process *process_new(int rank, int host) {
    struct process *process = calloc(1, sizeof(*process));
    if (!process) abort();
    process->rank = rank;
    process->host = host;
    process->alive = true;
    return process;
}

static void close_descriptors(const struct process *process) {
    for (int i = 0; i < world.count; i++)
        if (world.descriptors[i].used && world.descriptors[i].process == process) (void)close(DESCRIPTOR_BASE + i);
}

void process_kill(struct process *process) {
    if (!process->alive) return;
    process->alive = false;
    wire_kill(process);
    for (int i = 0; i < process->thread_count; i++) routine_kill(process->threads[i]);
    close_descriptors(process);
    free_memory(process);
}

void process_free(struct process *process) {
    process_kill(process);
    free(process);
}

int64_t process_looks(const struct process *process) {
    return LOOK * wire_streams(process);
}

int64_t process_thaws_at(const struct process *process) {
    return process->frozen_until;
}

void process_end_all(void) {
    free(world.descriptors);
    free(world.free);
    memset(&world, 0, sizeof(world));
}

/* ---- Monitors and threads ------------------------------------------------------------------------------------------
 */

ls_status ls_monitor_init(struct ls_monitor *monitor) {
    memset(monitor, 0, sizeof(*monitor));
    return LS_OK;
}

void ls_monitor_destroy(struct ls_monitor *monitor) {
    (void)monitor;
}

void ls_monitor_lock(struct ls_monitor *monitor) {
    (void)monitor;
}

void ls_monitor_unlock(struct ls_monitor *monitor) {
    (void)monitor;
}

static void wake(const struct process *process, const void *something) {
    for (int i = 0; i < process->thread_count; i++) routine_wake(process->threads[i], something);
}

void ls_monitor_broadcast(struct ls_monitor *monitor) {
    wake(world.now, monitor);
}

bool ls_monitor_wait(struct ls_monitor *monitor, int64_t deadline) {
    return clock_now() < deadline && routine_wait(monitor, deadline);
}

void ls_thread_block_signals(sigset_t *before) {
    (void)sigemptyset(before);
}

bool process_start(routine_fn *fn, void *argument) {
    struct process *process = world.now;
    struct routine *routine = routine_new(process, fn, argument);
    if (routine) process->threads[process->thread_count++] = routine;
    return routine != NULL;
}

ls_status ls_thread_start(pthread_t *thread, const char *name, ls_thread_fn *fn, void *argument) {
    struct process *process = world.now;
    struct routine *routine = process->thread_count < PROCESS_THREADS ? routine_new(process, fn, argument) : NULL;
    if (!routine) return ls_fail(LS_RESOURCE_EXHAUSTED, "no room for thread '%s'", name);
    routine_keep(routine);
    process->threads[process->thread_count++] = routine;
    *thread = (pthread_t)(uintptr_t)routine;
    return LS_OK;
}

int __wrap_pthread_join(pthread_t thread, void **result) {
    if (!clock_runs()) return __real_pthread_join(thread, result);
    struct routine *routine = (struct routine *)(uintptr_t)thread; /* NOLINT */
    while (!routine_is_over(routine)) (void)routine_wait(routine, LS_NEVER);
    routine_release(routine);
    return 0;
}

void process_wake_joiners(struct process *process, struct routine *routine) {
    wake(process, routine);
    for (int i = 0; i < process->thread_count; i++)
        if (process->threads[i] == routine) process->threads[i] = process->threads[--process->thread_count];
}

/* ---- Descriptors ---------------------------------------------------------------------------------------------------
 */

static const char polled; /* a routine in poll() waits for this */

struct descriptor *descriptor_of(int fd) {
    int index = fd - DESCRIPTOR_BASE;
    return index >= 0 && index < world.count && world.descriptors[index].used ? &world.descriptors[index] : NULL;
}

static int take_number(void) {
    if (world.free_count) return world.free[--world.free_count];
    if (world.count == world.room) {
        world.room = world.room ? 2 * world.room : 256;
        world.descriptors = realloc(world.descriptors, (size_t)world.room * sizeof(*world.descriptors));
        world.free = realloc(world.free, (size_t)world.room * sizeof(*world.free));
        if (!world.descriptors || !world.free) abort();
    }
    return world.count++;
}

int descriptor_new(bool socket) {
    int index = take_number();
    world.descriptors[index] =
        (struct descriptor){.used = true, .socket = socket, .serial = ++world.serial, .process = world.now};
    return DESCRIPTOR_BASE + index;
}

void descriptor_set_ready(struct descriptor *descriptor) {
    descriptor->ready = true;
    wake(descriptor->process, &polled);
}

int __wrap_eventfd(unsigned initial, int flags) {
    if (!world.now) return __real_eventfd(initial, flags);
    return descriptor_new(false);
}

int __wrap_eventfd_write(int fd, eventfd_t value) {
    struct descriptor *descriptor = descriptor_of(fd);
    if (!descriptor) return __real_eventfd_write(fd, value);
    descriptor->count += value;
    descriptor_set_ready(descriptor);
    return 0;
}

int __wrap_eventfd_read(int fd, eventfd_t *value) {
    struct descriptor *descriptor = descriptor_of(fd);
    if (!descriptor) return __real_eventfd_read(fd, value);
    *value = descriptor->count;
    descriptor->count = 0;
    descriptor->ready = false;
    return *value ? 0 : -1;
}

int __wrap_close(int fd) {
    struct descriptor *descriptor = descriptor_of(fd);
    if (!descriptor) return __real_close(fd);
    descriptor->used = false;
    world.free[world.free_count++] = fd - DESCRIPTOR_BASE;
    return 0;
}

static int count_ready(struct pollfd *slots, nfds_t count) {
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        const struct descriptor *descriptor = descriptor_of(slots[i].fd);
        slots[i].revents = descriptor && descriptor->ready ? slots[i].events : 0;
        ready += slots[i].revents != 0;
    }
    return ready;
}

int __wrap_poll(struct pollfd *slots, nfds_t count, int timeout) {
    if (!routine_running()) return __real_poll(slots, count, timeout);
    int64_t deadline = timeout < 0 ? LS_NEVER : clock_now() + timeout * LS_MILLISECOND;
    for (;;) {
        int ready = count_ready(slots, count);
        if (ready || clock_now() >= deadline) return ready;
        (void)routine_wait(&polled, deadline); /* woken for another descriptor too */
    }
}

/* ---- The rest of the world ----------------------------------------------------------------------------------------
 */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    if (!clock_runs()) return __real_clock_gettime(clock, time);
    *time = (struct timespec){clock_now() / LS_SECOND, clock_now() % LS_SECOND};
    return 0;
}

static void fill(uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)clock_random();
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags) {
    (void)flags;
    fill(bytes, size);
    return (ssize_t)size;
}

ls_status ls_entropy_fill(void *memory, size_t size) {
    fill(memory, size);
    return LS_OK;
}

int __wrap_gethostname(char *name, size_t size) {
    (void)snprintf(name, size, "host-%d", world.now->host);
    return 0;
}

long __wrap_sysconf(int name) {
    return name == _SC_NPROCESSORS_ONLN ? CORES : __real_sysconf(name);
}
