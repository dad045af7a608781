/* Staging of a replica's gradients in host memory, where they are added, and back. A device with host memory needs
 * none. Each range that goes has a number. */
#pragma once
#include "device/device.h"
#include "collective/bucket.h"
#include "runtime/runtime.h"

struct ls_host_staging {
    struct ls_device *device; /* borrowed */
    float *gradients;         /* device */
    float *host;              /* gradients itself, or as much host memory that the device has pinned */
};
/* Begins to copy a range to the host after the ops queued so far. The thread that computes calls it. */
ls_status ls_host_staging_send(const struct ls_host_staging *route, size_t number, const struct ls_bucket *range);
/* Waits until the range is in host memory. Any thread may call it. */
ls_status ls_host_staging_arrive(const struct ls_host_staging *route, size_t number, const struct ls_runtime *runtime);
/* Waits until the device has done what it is doing to a bucket, and marked so: "compute and copy". */
ls_status ls_host_staging_await(const struct ls_runtime *runtime, struct ls_device *device, int mark, const char *doing,
                                size_t number);
/* Begins to copy the range back. Any thread may call it. */
ls_status ls_host_staging_return(const struct ls_host_staging *route, const struct ls_bucket *range);
/* Ops that are queued from now on see the ranges that came back. The thread that computes calls it. */
ls_status ls_host_staging_settle(const struct ls_host_staging *route);
