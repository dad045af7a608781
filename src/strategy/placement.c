/* Placement of replicas on workers. The strategy's option replicas, or all devices of all workers at the first
 * generation, give num_replicas_in_sync. They are dealt over the devices in order, and anew over those that are left in
 * an elastic generation with fewer workers. A device may hold several, each with a thread of its own. The batch, its
 * division and the order of addition hang on replica ids alone, so nothing else changes, not even the bits. With scaled
 * batches each device has one replica instead, and the batch shrinks with them. */
#include "strategy/placement.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "collective/schedule/schedules.h"
#include "device/gpu.h"
#include "runtime/device_strings.h"
#include "strategy/participant.h"
#include "strategy/strategy.h"
#include "base/plain.h"

/* ---- replicas on this worker ---- */

/* Adds one replica for each device, and takes the devices. */
static ls_status append(ls_strategy *strategy, struct ls_device *const *devices, int count) {
    size_t before = (size_t)strategy->local_count, total = before + (size_t)count;
    struct ls_replica *replicas = ls_alloc_array(total, sizeof(*replicas));
    struct ls_meeting_call *calls = ls_alloc_array(total, sizeof(*calls));
    if (!replicas || !calls) {
        for (int i = 0; i < count; i++) ls_device_close(devices[i]);
        ls_free(replicas);
        ls_free(calls);
        return ls_fail_memory("replicas", total * sizeof(*replicas));
    }
    if (before) memcpy(replicas, strategy->replicas, before * sizeof(*replicas));
    for (size_t i = before; i < total; i++) {
        replicas[i].strategy = strategy;
        replicas[i].device = devices[i - before];
        replicas[i].local_id = (int)i;
    }
    ls_free(strategy->replicas);
    ls_free(strategy->meeting.calls);
    strategy->replicas = replicas;
    strategy->meeting.calls = calls;
    strategy->local_count = (int)total;
    return LS_OK;
}

static ls_status open_list(const ls_strategy *strategy, struct ls_device **devices, int *count) {
    const char *list = strategy->options.devices ? strategy->options.devices : strategy->runtime->settings.devices;
    int threads = strategy->options.threads_per_replica ? strategy->options.threads_per_replica : 1;
    const char *trouble = ls_plain_same(list, "auto") ? ls_gpu_trouble() : NULL;
    bool speaks = strategy->runtime->tasks <= LS_LOG_FEW || !strategy->runtime->local_rank; /* for its host */
    if (trouble) ls_log_shared(&strategy->runtime->log, speaks, LS_LOG_WARNING, "computing on the CPU: %s", trouble);
    LS_CLEANUP(ls_free_pointer) char *plain = ls_strdup(list);
    if (!plain) return ls_fail_memory("a list of devices", strlen(list));
    ls_status status = ls_device_strings_read(strategy->runtime->config, plain);
    return status ? status : ls_devices_open(plain, threads, devices, count);
}

/* Opens the devices, as many as are wanted. */
static ls_status open_devices(ls_strategy *strategy, int wanted) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    ls_status status = open_list(strategy, devices, &count);
    if (status) return status;
    for (int i = wanted; i < count; i++) ls_device_close(devices[i]);
    return append(strategy, devices, count < wanted ? count : wanted);
}

ls_status ls_placement_open(ls_strategy *strategy) {
    ls_status status = open_devices(strategy, LS_MAX_LOCAL_DEVICES);
    strategy->device_count = strategy->local_count;
    return status;
}

/* A device that computes behind the threads has a track beside the replica's. */
static void name_device_track(ls_strategy *strategy, struct ls_replica *replica) {
    char name[48];
    replica->device_track = NULL;
    if (!replica->track || !replica->device->ops->queue || !replica->device->ops->queue->stamp) return;
    (void)snprintf(name, sizeof(name), "replica %d's %s", replica->id, replica->device->name);
    if (ls_trace_add_track(strategy->trace, name, &replica->device_track)) replica->device_track = NULL;
}

void ls_placement_name_tracks(ls_strategy *strategy) {
    for (int i = 0; strategy->trace && i < strategy->local_count; i++) {
        struct ls_replica *replica = &strategy->replicas[i];
        char name[32];
        (void)snprintf(name, sizeof(name), "replica %d", replica->id);
        if (ls_trace_add_track(strategy->trace, name, &replica->track)) replica->track = NULL;
        name_device_track(strategy, replica);
    }
}

static ls_status add_devices(ls_strategy *strategy, int count) {
    int before = strategy->local_count;
    ls_status status = LS_OK;
    while (!status && strategy->local_count < count) status = open_devices(strategy, count - strategy->local_count);
    return status ? status : ls_participants_add_replicas(strategy, before);
}

static void shrink(ls_strategy *strategy, int count) {
    ls_participants_drop_replicas(strategy, count);
    for (int i = count; i < strategy->local_count; i++) ls_device_close(strategy->replicas[i].device);
    strategy->local_count = count;
}

/* On failure the former replicas are left. The threads are stopped first: they hold the addresses of replicas, which
 * append moves. A failure shrinks to the former count, so that the strategy can still be closed, or try again. */
static ls_status resize(ls_strategy *strategy, int count) {
    bool started = strategy->started;
    int before = strategy->local_count;
    ls_status status = LS_OK;
    if (started) ls_replicas_stop(strategy);
    if (count > before) status = add_devices(strategy, count);
    shrink(strategy, status ? before : count);
    strategy->spins = ls_gate_spins(strategy->runtime->local_size * strategy->local_count);
    ls_status again = started ? ls_replicas_start(strategy) : LS_OK;
    return status ? status : again;
}

/* ---- over all workers ---- */

static ls_status check_devices(const ls_strategy *strategy, int worker, int64_t count) {
    int task = ls_runtime_task(strategy->runtime, worker), known = strategy->task_devices[task];
    if (count < 1 || count > LS_MAX_LOCAL_DEVICES)
        return ls_fail(LS_INTERNAL, "rank %d says it has %lld devices", worker, (long long)count);
    if (known && known != count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "rank %d came back with %lld devices, it had %d: start it as it was started before", worker,
                       (long long)count, known);
    strategy->task_devices[task] = (int)count;
    return LS_OK;
}

/* Fills strategy->first for total replicas on all workers. Every worker computes the whole table from counts, which all
 * have exchanged; first[w] is the first replica id of worker w. Replicas are dealt over devices, larger parts first, as
 * rows over replicas in data/division.c. Ids are contiguous by worker, and so are leaves of the tree. */
static ls_status deal(ls_strategy *strategy, const int64_t *counts, int total) {
    int workers = strategy->runtime->size, devices = 0, given = 0;
    for (int w = 0; w < workers; w++) devices += (int)counts[w];
    if (devices > total && strategy->options.replicas)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "replicas %d: the workers have %d devices, and each needs one: ask for at least %d replicas, or "
                       "give them fewer devices",
                       total, devices, devices);
    if (devices > total)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "the workers have %d devices for %d replicas: a worker that was missing at the start was taken to "
            "have %d, as rank 0 has; give all workers as many",
            devices, total, (int)counts[0]);
    for (int w = 0; w < workers; w++) {
        given += (int)counts[w];
        strategy->first[w + 1] = (int)ls_block_start((size_t)total, devices, given);
        if (strategy->first[w + 1] - strategy->first[w] > LS_MAX_LOCAL_DEVICES)
            return ls_fail(LS_RESOURCE_EXHAUSTED,
                           "rank %d would hold %d replicas, %d are the limit: fewer workers can not hold them", w,
                           strategy->first[w + 1] - strategy->first[w], LS_MAX_LOCAL_DEVICES);
    }
    strategy->total_count = total;
    return LS_OK;
}

/* The number of replicas at the first generation. A task that was lost before it told its devices counts as the first
 * worker. */
static int64_t replicas_at_the_start(const struct ls_runtime *runtime, const int64_t *counts, int64_t present) {
    return present + (runtime->tasks - runtime->size) * counts[0];
}

/* Every worker tells its number of devices, and an old one the number of replicas. */
static ls_status exchange_counts(ls_strategy *strategy, int64_t *counts, int *total) {
    struct ls_runtime *runtime = strategy->runtime;
    size_t workers = (size_t)runtime->size;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, totals, workers, "replica ids");
    int64_t known = 0, sum = 0;
    ls_status status = ls_runtime_exchange(runtime, "devices", strategy->device_count, counts);
    for (int w = 0; !status && w < runtime->size; w++) status = check_devices(strategy, w, counts[w]);
    /* an old worker sees the difference here, and a new one hears of it below */
    if (!status) status = ls_runtime_exchange(runtime, "replicas", strategy->base_count, totals);
    for (int w = 0; !status && w < runtime->size; w++) {
        sum += counts[w];
        if (totals[w] > known) known = totals[w];
    }
    if (status) return status;
    if (!known) known = strategy->options.replicas;
    if (!known) known = replicas_at_the_start(runtime, counts, sum);
    if (sum > INT32_MAX || known > INT32_MAX) return ls_fail(LS_INTERNAL, "too many replicas");
    strategy->base_count = (int)known;
    bool present = ls_runtime_is_scaled(runtime) || ls_strategy_is_async(strategy);
    if (present && strategy->options.replicas)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "replicas %d: %s has one replica on each device that is there; leave replicas out",
                       strategy->options.replicas,
                       ls_strategy_is_async(strategy) ? "asynchronous training" : "an elastic run with scaled batches");
    *total = present ? (int)sum : strategy->base_count;
    return LS_OK;
}

static ls_status allocate_ids(ls_strategy *strategy) {
    size_t tasks = (size_t)strategy->runtime->tasks;
    if (strategy->first) return LS_OK;
    strategy->first = ls_alloc_array(tasks + 1, sizeof(*strategy->first));
    strategy->task_devices = ls_alloc_array(tasks, sizeof(*strategy->task_devices));
    return strategy->first && strategy->task_devices ? LS_OK : ls_fail_memory("replica ids", tasks * sizeof(int));
}

ls_status ls_placement_number(ls_strategy *strategy) {
    const struct ls_runtime *runtime = strategy->runtime;
    LS_CLEANUP(ls_free_pointer) int64_t *counts = ls_alloc_array((size_t)runtime->size, sizeof(*counts));
    int total = 0;
    ls_status status = counts ? allocate_ids(strategy) : ls_fail_memory("replica ids", (size_t)runtime->size);
    if (!status) status = exchange_counts(strategy, counts, &total);
    if (!status) status = deal(strategy, counts, total);
    if (status) return status;
    int own = strategy->first[runtime->rank], count = strategy->first[runtime->rank + 1] - own;
    bool moved = strategy->replicas[0].id != own || strategy->local_count != count || strategy->dealt != total;
    strategy->dealt = total;
    if (strategy->local_count != count) status = resize(strategy, count);
    if (status) return status;
    for (int i = 0; i < strategy->local_count; i++) strategy->replicas[i].id = own + i;
    ls_placement_name_tracks(strategy);
    strategy->layout += moved;
    return LS_OK;
}
