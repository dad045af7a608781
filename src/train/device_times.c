/* The device's clock and the host's meet at point 0. All other points are told from there. */
#include "train/device_times.h"

#include <stdio.h>

#include "base/memory.h"

struct ls_device_times {
    struct ls_device *device;
    struct ls_track *track;
    int64_t begun; /* point 0 by the host's clock */
    int points, count;
    bool failed; /* its times are not known; the ops tell why */
    struct {
        char name[40];
        int from, to;
    } spans[LS_DEVICE_STAMPS];
};

/* The device has nothing to do, so it comes to the point at once. */
static bool meet_clocks(struct ls_device_times *times) {
    bool met = !ls_device_wait(times->device) && !times->device->ops->queue->stamp(times->device, 0) &&
               !ls_device_wait(times->device);
    times->begun = ls_now();
    times->points = 1;
    return met;
}

struct ls_device_times *ls_device_times_begin(struct ls_device *device, struct ls_track *track) {
    if (!track || !device->ops->queue || !device->ops->queue->stamp) return NULL;
    struct ls_device_times *made = ls_alloc(sizeof(*made));
    if (!made) return NULL;
    made->device = device;
    made->track = track;
    if (!meet_clocks(made)) made->failed = true;
    return made;
}

void ls_device_times_free(struct ls_device_times **times) {
    ls_free(*times);
}

int ls_device_times_now(struct ls_device_times *times) {
    if (!times || times->failed) return 0;
    if (times->points == LS_DEVICE_STAMPS) return LS_DEVICE_STAMPS - 1;
    times->failed = times->device->ops->queue->stamp(times->device, times->points) != LS_OK;
    return times->points++;
}

void ls_device_times_note(struct ls_device_times *times, int from, int to, const char *name) {
    if (!times || times->count == LS_DEVICE_STAMPS) return;
    int i = times->count++;
    (void)snprintf(times->spans[i].name, sizeof(times->spans[i].name), "%s", name);
    times->spans[i].from = from;
    times->spans[i].to = to;
}

ls_status ls_device_times_end(struct ls_device_times *times, struct ls_span_facts facts) {
    ls_status status = times ? ls_device_wait(times->device) : LS_OK;
    if (!times || times->failed || status) return status;
    for (int i = 0; i < times->count; i++) {
        const struct ls_device_queue_ops *queue = times->device->ops->queue;
        int64_t from, to;
        status = queue->elapsed(times->device, 0, times->spans[i].from, &from);
        if (!status) status = queue->elapsed(times->device, 0, times->spans[i].to, &to);
        if (status) return status;
        ls_trace_track_add(times->track, times->spans[i].name, times->begun + from, times->begun + to, facts);
    }
    return LS_OK;
}
