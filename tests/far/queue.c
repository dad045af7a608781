/* The two queues of a far device, and lists of ops that are kept. */
#include <stdio.h>
#include <string.h>

#include "base/denormal.h"
#include "base/memory.h"
#include "base/status.h"
#include "far.h"

static struct far_device *far_of(struct ls_device *device) {
    return (struct far_device *)device;
}

static void free_task(struct far_task *task) {
    ls_free(task->own);
    ls_free(task);
}

static void append(struct far_queue *queue, struct far_task *task) {
    if (!queue->first) queue->end = &queue->first;
    task->next = NULL;
    *queue->end = task;
    queue->end = &task->next;
    queue->queued++;
}

static struct far_task *take(struct far_queue *queue) {
    struct far_task *task = queue->first;
    queue->first = task->next;
    queue->done++;
    return task;
}

static void note(struct far_device *far, ls_status status) {
    if (!status || far->status) return;
    far->status = status;
    memcpy(far->error, ls_error(), strlen(ls_error()) + 1);
}

/* ---- doing ---- */

static void do_ops(struct far_device *far, uint64_t until);
static void do_copies(struct far_device *far, uint64_t until);

/* The peer does what is waited for, and no more: what it does later may wait for this device. */
static void fetch(struct far_device *far, const struct far_task *task) {
    struct far_device *peer = task->peer;
    far_open_memory(peer, true);
    do_copies(peer, task->behind);
    if (peer->status && !far->status) {
        far->status = peer->status;
        memcpy(far->error, peer->error, sizeof(far->error));
    }
    if (!far->status && task->size) memcpy(task->to, task->from, task->size);
    far_open_memory(peer, false);
}

static void add(const struct far_task *task) {
    unsigned denormals = ls_denormals_keep();
    float *to = task->to;
    const float *a = task->from, *b = task->with;
    for (size_t i = 0; i < task->size / sizeof(float); i++) to[i] = a[i] + b[i];
    ls_denormals_restore(denormals);
}

static void do_copies(struct far_device *far, uint64_t until) {
    while (far->copies.done < until && !far->stuck) {
        struct far_task *task = take(&far->copies);
        do_ops(far, task->number);
        if (task->kind == FAR_FETCH) fetch(far, task);
        if (task->kind == FAR_ADD && !far->status) add(task);
        if (task->kind == FAR_COPY && !far->status && task->size) memcpy(task->to, task->from, task->size);
        free_task(task);
    }
}

static void do_op(struct far_device *far, struct far_task *task) {
    if (task->kind == FAR_WAIT) do_copies(far, task->number);
    if (task->kind == FAR_MARK) __atomic_store_n(task->reached, task->number, __ATOMIC_SEQ_CST);
    if (far->status) return; /* what comes after an error is not done */
    if (task->kind == FAR_RUN) note(far, far_run_task(far, task));
    if (task->kind == FAR_COPY && task->size) memcpy(task->to, task->own ? task->own : task->from, task->size);
}

static void do_ops(struct far_device *far, uint64_t until) {
    while (far->ops.done < until) {
        struct far_task *task = take(&far->ops);
        do_op(far, task);
        free_task(task);
    }
}

/* Ops are done in the thread that wants them, as if it had entered the CPU. */
void far_do(struct far_device *far, uint64_t copies) {
    struct ls_thread_state before;
    if (far->inner->ops->enter(far->inner, &before)) return;
    far_open_memory(far, true);
    do_ops(far, far->ops.queued);
    do_copies(far, copies);
    far_open_memory(far, false);
    far->inner->ops->leave(far->inner, &before);
}

void far_forget(struct far_device *far) {
    while (far->ops.first) free_task(take(&far->ops));
    while (far->copies.first) free_task(take(&far->copies));
}

static ls_status state_of(const struct far_device *far) {
    return far->status ? ls_fail(far->status, "%s: %s", far->device.name, far->error) : LS_OK;
}

ls_status far_synchronize(struct ls_device *device) {
    struct far_device *far = far_of(device);
    far_lock();
    far_do(far, far->copies.queued);
    ls_status status = state_of(far);
    far_unlock();
    return far_give(status);
}

/* Copies that no op waits for are left. */
static ls_status far_wait(struct ls_device *device) {
    struct far_device *far = far_of(device);
    far_lock();
    far_do(far, far->copies.done);
    far_counts.left += far->copies.done < far->copies.queued;
    ls_status status = state_of(far);
    far_unlock();
    return far_give(status);
}

/* ---- queueing ---- */

static struct far_task *new_task(enum far_kind kind) {
    struct far_task *task = ls_alloc(sizeof(*task));
    if (task) task->kind = kind;
    return task;
}

static bool captures(const struct far_device *far) {
    return far->graph_end && pthread_equal(far->capturing, pthread_self());
}

static ls_status queue_task(struct far_device *far, struct far_task *task) {
    ls_status status = LS_OK;
    far_lock();
    if (!captures(far)) {
        append(&far->ops, task);
    } else if (task->kind == FAR_RUN) {
        *far->graph_end = task;
        far->graph_end = &task->next;
    } else {
        free_task(task);
        status = ls_fail(LS_INTERNAL, "%s: only ops can be captured", far->device.name);
    }
    far_unlock();
    return far_give(status);
}

/* The scale as it is now. */
ls_status far_queue_op(struct far_device *far, const struct ls_op *op) {
    struct far_task *task = new_task(FAR_RUN);
    if (!task) return far_give(ls_fail_memory("a far op", sizeof(*task)));
    task->op = *op;
    if (op->scale) task->scale = *op->scale;
    far_counts.ops++;
    return queue_task(far, task);
}

ls_status far_queue_copy(struct far_device *far, void *to, const void *from, size_t size, bool from_host) {
    struct far_task *task = new_task(FAR_COPY);
    if (!task) return ls_fail_memory("a far copy", sizeof(*task));
    task->to = to;
    task->from = from;
    task->size = size;
    if (from_host && !(task->own = ls_alloc(size ? size : 1))) {
        free_task(task);
        return ls_fail_memory("a far copy", size);
    }
    if (from_host && size) memcpy(task->own, from, size);
    return queue_task(far, task);
}

ls_status far_queue_mark(struct far_device *far, uint64_t *reached, uint64_t value) {
    struct far_task *task = new_task(FAR_MARK);
    if (!task) return ls_fail_memory("a far mark", sizeof(*task));
    task->reached = reached;
    task->number = value;
    return queue_task(far, task);
}

/* Checks the memory that the task touches: of the host (or NULL), and of devices. */
static ls_status check_beside(const struct far_device *far, const struct far_task *task, const void *host) {
    const struct far_device *from = task->peer ? task->peer : far;
    bool there = true;
    if (!task->size) return LS_OK;
    if (host && !far_reaches(host, task->size))
        return ls_fail(LS_INVALID_ARGUMENT, "%s: a copy's host memory is not pinned", far->device.name);
    if (task->to != host) there = there && far_owns(far, task->to, task->size);
    if (task->from != host) there = there && far_owns(from, task->from, task->size);
    if (task->with) there = there && far_owns(far, task->with, task->size);
    return there ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "%s: a copy of other memory", far->device.name);
}

static ls_status queue_copy_beside(struct far_device *far, struct far_task task, const void *host) {
    struct far_task *made = new_task(FAR_COPY);
    if (!made) return far_give(ls_fail_memory("a far copy", sizeof(*made)));
    *made = task;
    far_lock();
    ls_status status = check_beside(far, &task, host);
    if (!status && captures(far)) status = ls_fail(LS_INTERNAL, "%s: only ops can be captured", far->device.name);
    if (status)
        free_task(made);
    else
        append(&far->copies, made);
    if (!status && task.mark >= 0) far->marks[task.mark] = far->copies.queued;
    far_unlock();
    return far_give(status);
}

static ls_status far_send(struct ls_device *device, int mark, void *host, const void *from, size_t size) {
    struct far_device *far = far_of(device);
    const struct far_task task = {
        .kind = FAR_COPY, .number = far->ops.queued, .to = host, .from = from, .size = size, .mark = mark};
    return queue_copy_beside(far, task, host);
}

static ls_status far_receive(struct ls_device *device, void *to, const void *host, size_t size) {
    struct far_device *far = far_of(device);
    far_lock();
    far_counts.early += far->ops.done < far->ops.queued;
    if (far->away) far->away--;
    far_unlock();
    const struct far_task task = {.kind = FAR_COPY, .to = to, .from = host, .size = size, .mark = -1};
    return queue_copy_beside(far, task, host);
}

static ls_status far_fetch(struct ls_device *device, void *to, const struct ls_device *peer, int mark, const void *from,
                           size_t size) {
    struct far_device *far = far_of(device), *other = (struct far_device *)peer;
    far_lock();
    const struct far_task task = {.kind = FAR_FETCH,
                                  .to = to,
                                  .from = from,
                                  .size = size,
                                  .mark = -1,
                                  .peer = other,
                                  .behind = other->marks[mark]};
    ls_status status = queue_copy_beside(far, task, NULL);
    far_unlock();
    return status;
}

static ls_status far_add(struct ls_device *device, float *to, const float *a, const float *b, size_t count) {
    const struct far_task task = {
        .kind = FAR_ADD, .to = to, .from = a, .with = b, .size = count * sizeof(float), .mark = -1};
    return queue_copy_beside(far_of(device), task, NULL);
}

/* Of what was received so far: that stands before it in the queue. */
static ls_status far_forward(struct ls_device *device, int mark, void *host, const void *from, size_t size) {
    struct far_device *far = far_of(device);
    const struct far_task task = {.kind = FAR_COPY, .to = host, .from = from, .size = size, .mark = mark};
    far_lock();
    if (size) far_counts.ahead += far->away++ > 0;
    far_unlock();
    return queue_copy_beside(far, task, host);
}

/* As on a GPU it takes a while. */
static ls_status far_sent(struct ls_device *device, int mark, bool *done) {
    struct far_device *far = far_of(device);
    far_lock();
    uint64_t wanted = far->marks[mark];
    if (far->copies.done < wanted && ++far->polls >= 3) {
        far_do(far, wanted);
        far->polls = 0;
    }
    *done = far->copies.done >= wanted;
    ls_status status = state_of(far);
    far_unlock();
    return far_give(status);
}

static ls_status far_settle(struct ls_device *device) {
    struct far_device *far = far_of(device);
    struct far_task *task = new_task(FAR_WAIT);
    if (!task) return far_give(ls_fail_memory("a far wait", sizeof(*task)));
    far_lock();
    task->number = far->copies.queued;
    far_unlock();
    return queue_task(far, task);
}

/* ---- lists of ops ---- */

struct far_program {
    struct ls_program program;
    struct far_device *far;
    struct far_task *tasks;
};

static void far_drop(struct ls_program *program) {
    for (struct far_task *task = ((struct far_program *)program)->tasks, *next; task; task = next) {
        next = task->next;
        free_task(task);
    }
    ls_free(program);
}

static ls_status far_replay(struct ls_program *program) {
    const struct far_program *own = (const struct far_program *)program;
    ls_status status = LS_OK;
    far_counts.replays++;
    for (const struct far_task *task = own->tasks; task && !status; task = task->next) {
        struct far_task *copy = new_task(FAR_RUN);
        if (!copy) return far_give(ls_fail_memory("a far op", sizeof(*copy)));
        *copy = *task;
        status = queue_task(own->far, copy);
    }
    return status;
}

__attribute__((visibility("default"))) _Atomic bool far_refuses_graphs;

ls_status far_compile(struct ls_device *device, const struct ls_op *const *ops, size_t count,
                      struct ls_program **program) {
    struct far_device *far = far_of(device);
    struct far_program *made = ls_alloc(sizeof(*made));
    ls_status status = LS_OK;
    if (!made) return far_give(ls_fail_memory("a far program", sizeof(*made)));
    *made = (struct far_program){{far_replay, far_drop}, far, NULL};
    far_lock();
    far->graph_end = &made->tasks;
    far->capturing = pthread_self();
    far_unlock();
    for (size_t i = 0; !status && i < count; i++) status = ops[i]->run(ops[i]);
    far_lock();
    far->graph_end = NULL;
    far_unlock();
    if (!status && far_refuses_graphs)
        status = far_give(ls_fail(LS_UNIMPLEMENTED, "%s captures nothing today", device->name));
    if (status)
        far_drop(&made->program);
    else
        *program = &made->program;
    return status;
}

static ls_status queue_allocate_host(struct ls_device *device, size_t size, void **memory) {
    (void)device;
    return far_give(far_allocate_host(size, memory));
}

static void queue_release_host(struct ls_device *device, void *memory) {
    (void)device;
    far_release_host(memory);
}

static ls_status far_peak(struct ls_device *device, size_t *bytes) {
    far_lock();
    *bytes = far_of(device)->most;
    far_unlock();
    return LS_OK;
}

#define FAR_MEMORY ((size_t)1 << 30)

static ls_status far_available(struct ls_device *device, size_t *bytes) {
    (void)device;
    *bytes = FAR_MEMORY;
    return LS_OK;
}

static ls_status queue_pin(struct ls_device *device, void *memory, size_t size) {
    (void)device;
    return far_give(far_pin(memory, size));
}

static void queue_unpin(struct ls_device *device, void *memory) {
    (void)device;
    far_unpin(memory);
}

const struct ls_device_queue_ops far_queue_ops = {.synchronize = far_synchronize,
                                                  .wait = far_wait,
                                                  .allocate_host = queue_allocate_host,
                                                  .release_host = queue_release_host,
                                                  .peak = far_peak,
                                                  .available = far_available,
                                                  .pin = queue_pin,
                                                  .unpin = queue_unpin,
                                                  .send = far_send,
                                                  .sent = far_sent,
                                                  .receive = far_receive,
                                                  .fetch = far_fetch,
                                                  .add = far_add,
                                                  .forward = far_forward,
                                                  .settle = far_settle};
