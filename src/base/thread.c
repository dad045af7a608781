/* pthreads, with names and blocked signals. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

void ls_thread_block_signals(sigset_t *before) {
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, before);
}

ls_status ls_thread_start(pthread_t *thread, const char *name, ls_thread_fn *fn, void *argument) {
    sigset_t before;
    ls_thread_block_signals(&before);
    int error = pthread_create(thread, NULL, fn, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return ls_fail(LS_RESOURCE_EXHAUSTED, "cannot start thread '%s': %s", name, strerror(error));
    char kept[16];
    (void)snprintf(kept, sizeof(kept), "%s", name);
    (void)pthread_setname_np(*thread, kept);
    return LS_OK;
}

int ls_thread_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
}
