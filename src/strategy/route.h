/* The way of a replica's gradients to where they are added, in host memory, and back. Where the device has host memory
 * they are there already. Each range that goes has a number. */
#pragma once
#include "device/device.h"
#include "strategy/bucket.h"
#include "strategy/membership.h"

struct ls_route {
    struct ls_device *device; /* borrowed */
    float *gradients;         /* device */
    float *host;              /* gradients itself, or as much host memory that the device has pinned */
};
/* By the thread that computes: begins to bring a range there, as the ops that are queued so far leave it. */
ls_status ls_route_send(const struct ls_route *route, size_t number, const struct ls_bucket *range);
/* Any thread: until it is there. */
ls_status ls_route_arrive(const struct ls_route *route, size_t number, const struct ls_membership *membership);
/* Any thread: begins to bring it back. */
ls_status ls_route_return(const struct ls_route *route, const struct ls_bucket *range);
/* By the thread that computes: ops that are queued from now on see what has come back. */
ls_status ls_route_settle(const struct ls_route *route);
