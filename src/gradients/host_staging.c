/* Sends are marked by the number of their range. Ops see the returned ranges after settle. */
#include "gradients/host_staging.h"

#include <stdio.h>

#include "gradients/adder.h"
#include "runtime/wait_for_device.h"

static bool is_direct(const struct ls_host_staging *route) {
    return route->host == route->gradients;
}

/* Range numbers share marks. A wait for the earlier range of a shared mark lasts until the later one is there. */
static int mark_of_host_staging(size_t number) {
    return (int)(number % LS_DEVICE_MARKS);
}

static size_t bytes_of_range(const struct ls_bucket *range) {
    return (range->end - range->begin) * sizeof(float);
}

/* The copy runs beside the ops that are queued later. The host learns by the mark when it is done, and asks from the
 * communicator's thread, so the thread that computes goes on queueing. */
ls_status ls_host_staging_send(const struct ls_host_staging *route, size_t number, const struct ls_bucket *range) {
    if (is_direct(route)) return LS_OK;
    return route->device->ops->queue->send(route->device, mark_of_host_staging(number), route->host + range->begin,
                                           route->gradients + range->begin, bytes_of_range(range));
}

struct sending {
    struct ls_device *device;
    int mark;
};

static ls_status ask_sent(void *context, bool *done) {
    const struct sending *sending = context;
    return sending->device->ops->queue->sent(sending->device, sending->mark, done);
}

ls_status ls_host_staging_await(const struct ls_runtime *runtime, struct ls_device *device, int mark, const char *doing,
                                size_t number) {
    struct sending sending = {device, mark};
    struct ls_wait_for_device await = {.ask = ask_sent, .context = &sending};
    (void)snprintf(await.what, sizeof(await.what), "%s to %s gradient bucket %zu", device->name, doing, number);
    return ls_wait_for_device(runtime, &await);
}

ls_status ls_host_staging_arrive(const struct ls_host_staging *route, size_t number, const struct ls_runtime *runtime) {
    if (is_direct(route)) return LS_OK;
    return ls_host_staging_await(runtime, route->device, mark_of_host_staging(number), "compute and copy", number);
}

ls_status ls_host_staging_return(const struct ls_host_staging *route, const struct ls_bucket *range) {
    if (is_direct(route)) return LS_OK;
    return route->device->ops->queue->receive(route->device, route->gradients + range->begin,
                                              route->host + range->begin, bytes_of_range(range));
}

ls_status ls_host_staging_settle(const struct ls_host_staging *route) {
    return is_direct(route) ? LS_OK : route->device->ops->queue->settle(route->device);
}

/* ---- the host adds every replica's ---- */

static ls_status give_host_staging(const struct ls_adder *adder, int local, size_t bucket) {
    return ls_host_staging_send(&adder->routes[local], bucket, &adder->buckets[bucket]);
}

static ls_status arrive_host_staging(const struct ls_adder *adder, size_t bucket) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < adder->replicas; i++)
        status = ls_host_staging_arrive(&adder->routes[i], bucket, adder->runtime);
    return status;
}

static ls_status put_back_host_staging(const struct ls_adder *adder, size_t bucket) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < adder->replicas; i++)
        status = ls_host_staging_return(&adder->routes[i], &adder->buckets[bucket]);
    return status;
}

static ls_status settle_host_staging(const struct ls_adder *adder, int local) {
    return ls_host_staging_settle(&adder->routes[local]);
}

const struct ls_adder_ops ls_host_staging_adds = {.give = give_host_staging,
                                                  .arrive = arrive_host_staging,
                                                  .put_back = put_back_host_staging,
                                                  .settle = settle_host_staging};
