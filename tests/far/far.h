/* A device without host memory, for tests: the CPU's ops over memory that nobody else can read, done as late as a GPU
 * may do them. It is a plugin of its own (LOCKSTEP_PLUGIN), with devices gpu:0, gpu:1, ...; its bits are the CPU's.
 *
 * Ops have one queue, copies of send and receive another. Ops run when somebody waits for anything; a copy only when it
 * must have been made, so that what is overwritten or read too early gives other bits. */
#pragma once
#include <pthread.h>

#include "base/status.h"
#include "device/device.h"
#include "device/plugin.h"

enum far_kind { FAR_RUN, FAR_COPY, FAR_WAIT, FAR_MARK, FAR_FETCH, FAR_ADD };
struct far_task {
    struct far_task *next;
    enum far_kind kind;
    uint64_t number; /* of its queue; WAIT: of the last copy that it waits for; a copy: the last op before it */
    /* RUN: with the scale as it was at the call */
    struct ls_op op;
    float scale;
    /* COPY, MARK (of a group), FETCH, ADD */
    void *to, *own; /* own: bytes to copy, freed with the task; NULL: */
    const void *from, *with;
    size_t size;
    int mark;
    uint64_t *reached;
    struct far_device *peer; /* of whose copies so many come first: */
    uint64_t behind;
};
struct far_queue {
    struct far_task *first, **end;
    uint64_t queued, done; /* numbers */
};
struct far_block {
    struct far_block *next;
    char *memory;
    size_t size, wanted; /* with what fills the last page; without */
};
struct far_device {
    struct ls_device device;
    struct ls_device *inner; /* a CPU; owns */
    int index;
    /* With far_lock, as the execution: */
    struct far_queue ops, copies;
    size_t used, most;               /* bytes that are wanted, now and at the most */
    int away;                        /* copies forwarded and not received yet */
    uint64_t marks[LS_DEVICE_MARKS]; /* numbers of copies */
    int polls;                       /* of one copy, before it is made */
    struct far_task **graph_end;     /* of what is captured at present; NULL: nothing is */
    pthread_t capturing;
    ls_status status; /* the first error of what was queued */
    char error[LS_ERROR_SIZE];
    bool stuck;  /* no copy is ever done */
    int ending;  /* groups that are aborted and not closed */
    int failing; /* the so many-th optimizer from now on fails when it runs; 0: none */
};

/* For tests, by dlsym: what was used so far. */
struct far_counts {
    _Atomic int replays;
    _Atomic int ops;       /* that were queued one by one */
    _Atomic int early;     /* receives that were begun while ops were still to be done */
    _Atomic int left;      /* waits that left copies */
    _Atomic int ahead;     /* forwards that were begun while what was forwarded before had not come back */
    _Atomic int forgotten; /* groups */
    _Atomic int hasty;     /* releases of memory while a group was aborted and not closed */
};
extern struct far_counts far_counts;
/* Likewise: captures end with an error. */
extern _Atomic bool far_refuses_graphs;
/* Likewise: no abort of a group gets on while this is so. */
extern _Atomic bool far_aborts_wait;

extern const struct ls_plugin_host *far_host;
extern const struct ls_device_kind far_device_kind;
extern const struct ls_device_queue_ops far_queue_ops;
extern const struct ls_device_group_ops far_group_ops;

/* This module's error becomes the host's. */
ls_status far_give(ls_status status);

/* One lock for all devices, since they wait for each other; a thread may take it again. */
void far_lock(void);
void far_unlock(void);

/* memory.c: pages that are closed but while far work is done. All devices of one index reach them, as of one GPU. */
ls_status far_allocate(struct far_device *far, size_t size, void **memory);
void far_release(struct far_device *far, void *memory);
void far_open_memory(struct far_device *far, bool open);
bool far_owns(const struct far_device *far, const void *memory, size_t size);
/* Memory of any device's allocate_host, or pinned. */
ls_status far_allocate_host(size_t size, void **memory);
void far_release_host(void *memory);
ls_status far_pin(void *memory, size_t size);
void far_unpin(void *memory);
bool far_reaches(const void *memory, size_t size);

/* queue.c */
ls_status far_compile(struct ls_device *device, const struct ls_op *const *ops, size_t count,
                      struct ls_program **program);
ls_status far_queue_op(struct far_device *far, const struct ls_op *op);
ls_status far_queue_copy(struct far_device *far, void *to, const void *from, size_t size, bool from_host);
/* All ops, and copies up to a number. */
void far_do(struct far_device *far, uint64_t copies);
/* Work that is still queued will never be done. */
void far_forget(struct far_device *far);
ls_status far_synchronize(struct ls_device *device);
/* A group's: *reached becomes value when all ops that are queued now are done. */
ls_status far_queue_mark(struct far_device *far, uint64_t *reached, uint64_t value);

/* ops.c */
ls_status far_build(struct ls_device *device, struct ls_op *op);
void far_discard(struct ls_device *device, struct ls_op *op);
ls_status far_run_task(struct far_device *far, struct far_task *task);
