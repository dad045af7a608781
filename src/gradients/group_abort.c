/* The aborting thread and the waiting one share a record. The last of them frees it. */
#include "gradients/nccl.h"

#include "base/deadlines.h"
#include "base/memory.h"
#include "base/monitor.h"
#include "base/thread.h"

struct ending {
    const struct ls_device_group_ops *ops;
    struct ls_device_group *group;
    struct ls_monitor monitor; /* guards: */
    bool done, left;
};

static void free_ending(struct ending *ending) {
    ls_monitor_destroy(&ending->monitor);
    ls_free(ending);
}

static void *ending_thread(void *argument) {
    struct ending *ending = argument;
    ending->ops->abort(ending->group);
    ls_monitor_lock(&ending->monitor);
    ending->done = true;
    bool left = ending->left;
    ls_monitor_broadcast(&ending->monitor);
    ls_monitor_unlock(&ending->monitor);
    if (left) {
        ending->ops->forget(ending->group);
        free_ending(ending);
    }
    return NULL;
}

/* done and left change under one lock: exactly one of the two threads sees that it is the last, and frees the record.
 */
static bool await_end(struct ending *ending) {
    int64_t deadline = ls_now() + LS_ABORT_TIMEOUT;
    ls_monitor_lock(&ending->monitor);
    while (!ending->done && ls_monitor_wait(&ending->monitor, deadline)) continue;
    bool done = ending->done;
    ending->left = !done;
    ls_monitor_unlock(&ending->monitor);
    return done;
}

static bool start_ending(const struct ls_device_group_ops *ops, struct ls_device_group *group, pthread_t *thread,
                         struct ending **ending) {
    struct ending *made = ls_alloc(sizeof(*made));
    if (!made) return false;
    made->ops = ops;
    made->group = group;
    bool started = !ls_monitor_init(&made->monitor) && !ls_thread_start(thread, "ls-abort", ending_thread, made);
    if (started)
        *ending = made;
    else
        free_ending(made);
    return started;
}

bool ls_group_abort(const struct ls_device_group_ops *ops, struct ls_device_group *group) {
    struct ending *ending;
    pthread_t thread;
    if (!start_ending(ops, group, &thread, &ending)) { /* there is no other way */
        ops->abort(group);
        return true;
    }
    bool done = await_end(ending);
    if (!done) {
        (void)pthread_detach(thread);
        return false;
    }
    (void)pthread_join(thread, NULL);
    free_ending(ending);
    return true;
}
