/* Sends are marked by the number of their range; what comes back is seen after settle. */
#include "strategy/route.h"

#include <stdio.h>

#include "strategy/await.h"

static bool is_direct(const struct ls_route *route) {
    return route->host == route->gradients;
}

/* Where numbers meet again in one mark, what waits for the earlier range waits for the later one too. */
static int mark_of(size_t number) {
    return (int)(number % LS_DEVICE_MARKS);
}

static size_t bytes_of(const struct ls_bucket *range) {
    return (range->end - range->begin) * sizeof(float);
}

ls_status ls_route_send(const struct ls_route *route, size_t number, const struct ls_bucket *range) {
    if (is_direct(route)) return LS_OK;
    return route->device->ops->queue->send(route->device, mark_of(number), route->host + range->begin,
                                           route->gradients + range->begin, bytes_of(range));
}

struct sending {
    const struct ls_route *route;
    int mark;
};

static ls_status ask(void *context, bool *done) {
    const struct sending *sending = context;
    struct ls_device *device = sending->route->device;
    return device->ops->queue->sent(device, sending->mark, done);
}

ls_status ls_route_arrive(const struct ls_route *route, size_t number, const struct ls_membership *membership) {
    if (is_direct(route)) return LS_OK;
    struct sending sending = {route, mark_of(number)};
    struct ls_await await = {.ask = ask, .context = &sending};
    (void)snprintf(await.what, sizeof(await.what), "%s to compute and copy gradient bucket %zu", route->device->name,
                   number);
    return ls_await(membership, &await);
}

ls_status ls_route_return(const struct ls_route *route, const struct ls_bucket *range) {
    if (is_direct(route)) return LS_OK;
    return route->device->ops->queue->receive(route->device, route->gradients + range->begin,
                                              route->host + range->begin, bytes_of(range));
}

ls_status ls_route_settle(const struct ls_route *route) {
    return is_direct(route) ? LS_OK : route->device->ops->queue->settle(route->device);
}
