/* Waiting with deadlines on the monotonic clock. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>

#include "base/memory.h"

/* A mutex and the condition that it guards; the fields that it guards stand beside it. */
struct ls_monitor {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool made;
};
ls_status ls_monitor_init(struct ls_monitor *monitor);
void ls_monitor_destroy(struct ls_monitor *monitor); /* also one of zeros, or whose init has failed */
void ls_monitor_lock(struct ls_monitor *monitor);
void ls_monitor_unlock(struct ls_monitor *monitor);
/* Holds the monitor to the end of the block. */
#define LS_HOLD(monitor)                                                                                               \
    LS_CLEANUP(ls_monitor_leave) struct ls_monitor *ls_held = (monitor);                                               \
    ls_monitor_lock(ls_held)
static inline void ls_monitor_leave(struct ls_monitor **held) {
    ls_monitor_unlock(*held);
}
void ls_monitor_broadcast(struct ls_monitor *monitor);
/* Sets a flag for those who wait. */
static inline void ls_monitor_flag(struct ls_monitor *monitor, bool *flag) {
    LS_HOLD(monitor);
    *flag = true;
    ls_monitor_broadcast(monitor);
}
/* Waits for a change until deadline (LS_NEVER: for ever); false when the deadline has passed. */
bool ls_monitor_wait(struct ls_monitor *monitor, int64_t deadline);
