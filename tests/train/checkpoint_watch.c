/* The points of a training tell when a writer is done. */
#include "train/checkpoint_watch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/point.h"

static atomic_int writing; /* checkpoints that were handed to a writer, and are not done */

void ls_reached(const char *point) {
    if (!strcmp(point, "checkpoint")) (void)atomic_fetch_add(&writing, 1);
    if (!strcmp(point, "checkpoint_done")) (void)atomic_fetch_sub(&writing, 1);
}

void checkpoint_watch_wait(const char *folder, int64_t step) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/checkpoint-%012lld.safetensors", folder, (long long)step);
    for (int turns = 0; (access(path, F_OK) || atomic_load(&writing)) && turns < 3000; turns++) (void)usleep(10000);
}
