/* The library's points report here. */
#include "watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of the process: a named point has no handle. Written before the first thread starts. */
static struct {
    char point[32];
    int signal;       /* 0: the thread rests */
    useconds_t pause; /* the thread rests so long, that time and each time after it; 0: once */
    long enough;      /* it rests until it has entered so many generations; 0: to the end */
    long most;        /* it rests so many times, no more; 0: as often as it comes there */
    atomic_long left; /* times until it happens */
    atomic_long entered, sums;
    int times; /* descriptor; -1: none */
} watch = {.times = -1};

#define REST 3500000 /* microseconds that a thread rests, as in a long step */
#define SLOW 1800000
#define PACE 50000

static int count_entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    while (folder && readdir(folder)) count++;
    if (folder) (void)closedir(folder);
    return count;
}

static void note(const char *point) {
    struct timespec now;
    char line[128];
    size_t bytes = 0;
    int descriptors = 0, threads = 0;
    if (watch.times < 0) return;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (strcmp(point, "entered") == 0) {
        struct mallinfo2 info = mallinfo2();
        bytes = info.uordblks + info.hblkhd;
        descriptors = count_entries("/proc/self/fd");
        threads = count_entries("/proc/self/task");
    }
    int length = snprintf(line, sizeof(line), "%s %lld %zu %d %d\n", point,
                          (long long)now.tv_sec * 1000000000 + now.tv_nsec, bytes, descriptors, threads);
    if (write(watch.times, line, (size_t)length) != length) abort();
}

void ls_reached(const char *point) {
    note(point);
    if (strcmp(point, "entered") == 0) atomic_fetch_add(&watch.entered, 1);
    if (strcmp(point, "sums") == 0) atomic_fetch_add(&watch.sums, 1);
    if (strcmp(point, watch.point) != 0) return;
    long left = atomic_fetch_sub(&watch.left, 1);
    bool rests = left <= 1 && (!watch.most || left > 1 - watch.most);
    if (watch.pause && rests && (!watch.enough || atomic_load(&watch.entered) < watch.enough))
        (void)usleep(watch.pause);
    if (watch.pause || left != 1) return;
    note("hurt");
    if (watch.signal)
        (void)raise(watch.signal); /* this thread takes it at once; a signal of the process may go to another one */
    else
        (void)usleep(REST);
}

long watch_sums(void) {
    return atomic_load(&watch.sums);
}

ls_status watch_read(void) {
    const char *at = getenv("LOCKSTEP_TEST_AT"), *times = getenv("LOCKSTEP_TEST_TIMES");
    char action[8] = "";
    long count = 0;
    if (times && *times) watch.times = open(times, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (!at || !*at) return LS_OK;
    int read = sscanf(at, "%31[^:]:%ld:%7[A-Z]:%ld:%ld", watch.point, &count, action, &watch.enough, &watch.most);
    if (read < 3 || count < 1) return LS_INVALID_ARGUMENT;
    watch.pause = strcmp(action, "SLOW") == 0 ? SLOW : strcmp(action, "PACE") == 0 ? PACE : 0;
    watch.signal = strcmp(action, "STOP") == 0 ? SIGSTOP : strcmp(action, "REST") == 0 ? 0 : SIGKILL;
    atomic_store(&watch.left, count);
    return LS_OK;
}
