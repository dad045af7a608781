/* The timeline of a device that computes behind the replica's thread, by the device's own clock: points between the ops
 * of a step. They become spans of the device's track when the step's ops are done. Begin gives NULL without a timeline,
 * and where the device has no clock. NULL is nothing for the others. One thread. */
#pragma once
#include "device/device.h"
#include "observe/trace.h"

struct ls_device_times;
struct ls_device_times *ls_device_times_begin(struct ls_device *device, struct ls_track *track);
void ls_device_times_free(struct ls_device_times **times);
/* The point behind the ops that are queued so far. */
int ls_device_times_now(struct ls_device_times *times);
/* A span between two points; the name is copied. */
void ls_device_times_note(struct ls_device_times *times, int from, int to, const char *name);
/* Waits for the ops, and writes the spans. An error is that of the ops. */
ls_status ls_device_times_end(struct ls_device_times *times, struct ls_span_facts facts);
