/* A simulated process: its memory, its threads and its descriptors, which end with it. The functions of base/memory.h,
 * base/monitor.h, base/thread.h and base/random.h stand in for the library's own, and some of libc's are wrapped. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESS_THREADS 4

struct process_block;
struct routine;
struct wires; /* of wire.h */
struct process {
    int rank, host;
    bool alive;
    int64_t frozen_until; /* 0: it runs */
    int64_t slow;         /* nanoseconds that each of its messages takes longer */
    struct process_block *memory;
    size_t held, most_held; /* bytes */
    struct routine *threads[PROCESS_THREADS];
    int thread_count;
    struct wires *wires;
};
/* The process that runs now, NULL: none; returns the one before. */
struct process *process_enter(struct process *process);
struct process *process_now(void);
struct process *process_new(int rank, int host);
/* Starts the first thread of the process that runs now. */
bool process_start(void *(*fn)(void *), void *argument);
/* As kill -9 does. Not by itself. */
void process_kill(struct process *process);
void process_free(struct process *process);
/* The time that one of its threads takes to look at all that it has. */
int64_t process_looks(const struct process *process);
int64_t process_thaws_at(const struct process *process);
void process_wake_joiners(struct process *process, struct routine *routine);
/* Forgets all descriptors. */
void process_end_all(void);

/* A socket that connects: an event of the network sets its end. */
#define DESCRIPTOR_BASE (1 << 24)
struct descriptor {
    bool used, socket, ready;
    uint64_t count, serial; /* of an eventfd; of this use of the number */
    struct process *process;
    int error;
    struct process *remote; /* that has taken the connection */
};
struct descriptor *descriptor_of(int fd); /* NULL: it is none of these */
int descriptor_new(bool socket);
/* Wakes whoever polls it. */
void descriptor_set_ready(struct descriptor *descriptor);
