/* A mutex and a condition of pthreads on the monotonic clock. */
#include "base/monitor.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"

ls_status ls_monitor_init(struct ls_monitor *monitor) {
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (!error) {
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        error = pthread_cond_init(&monitor->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    if (!error && (error = pthread_mutex_init(&monitor->mutex, NULL))) (void)pthread_cond_destroy(&monitor->changed);
    monitor->made = !error;
    return error ? ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make a monitor: %s", strerror(error)) : LS_OK;
}

void ls_monitor_destroy(struct ls_monitor *monitor) {
    if (!monitor->made) return;
    (void)pthread_cond_destroy(&monitor->changed);
    (void)pthread_mutex_destroy(&monitor->mutex);
}

void ls_monitor_lock(struct ls_monitor *monitor) {
    (void)pthread_mutex_lock(&monitor->mutex);
}

void ls_monitor_unlock(struct ls_monitor *monitor) {
    (void)pthread_mutex_unlock(&monitor->mutex);
}

void ls_monitor_broadcast(struct ls_monitor *monitor) {
    (void)pthread_cond_broadcast(&monitor->changed);
}

bool ls_monitor_wait(struct ls_monitor *monitor, int64_t deadline) {
    if (deadline == LS_NEVER) return pthread_cond_wait(&monitor->changed, &monitor->mutex) == 0;
    struct timespec until = {.tv_sec = deadline / LS_SECOND, .tv_nsec = deadline % LS_SECOND};
    return pthread_cond_timedwait(&monitor->changed, &monitor->mutex, &until) != ETIMEDOUT;
}
