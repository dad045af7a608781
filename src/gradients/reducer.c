/* The communicator thread and its hand-over with the replica threads: counters and gates, no locks. The group is used
 * by the communicator until caught_up opens, then by the last replica to wait until completed opens. With lanes the
 * communicator alone uses it: it makes whole steps, one behind the other, while replicas compute the next ones. */
#include "gradients/reducer.h"

#include <string.h>

#include "base/gate.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/point.h"
#include "base/thread.h"
#include "collective/collectives.h"
#include "store/store.h"
#include "strategy/strategy.h"

struct progress {
    size_t next;                   /* the first bucket that this replica has not given yet */
    uint32_t caught_up, completed; /* the gates' values when the step began */
    int64_t step;                  /* for the timeline */
    int64_t begun;                 /* steps */
};
struct ls_reducer {
    ls_strategy *strategy;
    struct ls_reducer_config config; /* lane_count is 1 where steps do not go on */
    ls_compression compression;      /* NONE where nothing would be compressed */
    int lane;                        /* the communicator's present one */
    int64_t *steps;            /* [lanes] for the timeline: the first replica's, until it begins the lane's next one */
    _Atomic int64_t ended;     /* steps; the gate completed opens with each */
    _Atomic int *arrived;      /* [lanes][count] local replicas that have given the bucket */
    struct progress *progress; /* [local replicas], each its own thread's */
    _Atomic int waiting;       /* local replicas that have come to the wait */
    struct ls_gate work;       /* opened when a bucket is complete, or at the end */
    struct ls_gate caught_up; /* opened when the communicator has done its part of the step: all buckets but the last */
    struct ls_gate completed; /* opened when the step is complete */
    _Atomic size_t reduced;   /* buckets of the present step; the gate opens with each where replicas wait for it */
    struct ls_gate moved;
    _Atomic bool stopping;
    _Atomic int failure; /* the status of a replica that could not give its gradients */
    _Atomic int status;  /* of the present step's buckets so far */
    char error[LS_ERROR_SIZE];
    pthread_t thread;
    bool started;
};

static _Atomic int *arrived_of(const struct ls_reducer *reducer, int lane, size_t bucket) {
    return &reducer->arrived[(size_t)lane * reducer->config.count + bucket];
}

static bool is_given(struct ls_reducer *reducer, size_t bucket) {
    if (bucket >= reducer->config.count) return false;
    return atomic_load(arrived_of(reducer, reducer->lane, bucket)) == reducer->strategy->local_count;
}

/* The gate's value is read before the test. A bucket that becomes complete after the test opens the gate to another
 * value, and the wait returns at once: no bucket is missed. */
static bool wait_for_bucket(struct ls_reducer *reducer, size_t bucket) {
    for (;;) {
        uint32_t seen = ls_gate_value(&reducer->work);
        if (is_given(reducer, bucket)) return true;
        if (atomic_load(&reducer->stopping)) return false;
        ls_gate_wait(&reducer->work, seen, 0);
    }
}

/* SUM in place, with compression between workers. It is a SUM and no MEAN: the loss of each replica was divided by the
 * rows of all replicas, as tf.nn.compute_average_loss does, so replicas with fewer rows have less weight. */
static ls_status reduce_range(struct ls_reducer *reducer, ls_compression compression, size_t begin, size_t end) {
    void *arrays[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < reducer->config.adder.count; i++) arrays[i] = reducer->config.adder.arrays[i] + begin;
    const struct ls_all_reduce call = {
        .name = "gradients",
        .communication = reducer->strategy->runtime->communication,
        .op = LS_SUM,
        .dtype = LS_FLOAT32,
        .count = end - begin,
        .leaves = {reducer->config.adder.first},
        .compression = compression,
        .inputs = (const void *const *)arrays,
        .outputs = arrays,
    };
    return ls_group_all_reduce(reducer->strategy->runtime->group, &call);
}

/* The elements of a bucket that servers keep. Buckets of statistics alone, the first ones, have none. */
static ls_status push(struct ls_reducer *reducer, size_t bucket, size_t begin) {
    const float *arrays[LS_MAX_LOCAL_DEVICES];
    size_t before = 0;
    while (reducer->config.buckets[before].begin >= reducer->config.compressible) before++;
    for (int i = 0; i < reducer->config.adder.count; i++) arrays[i] = reducer->config.adder.arrays[i] + begin;
    return ls_store_push(reducer->config.store, bucket - before, reducer->config.adder.first, arrays,
                         reducer->compression);
}

/* Each worker gets the sums of its share, in their place. */
static ls_status scatter(struct ls_reducer *reducer, size_t bucket, size_t begin) {
    const struct ls_runtime *runtime = reducer->strategy->runtime;
    const size_t *shares = reducer->config.shares + bucket * (size_t)runtime->size;
    float *array = reducer->config.adder.arrays[0] + begin;
    size_t before = 0;
    for (int i = 0; i < runtime->rank; i++) before += shares[i];
    const struct ls_reduce_scatter call = {.name = "gradients",
                                           .op = LS_SUM,
                                           .dtype = LS_FLOAT32,
                                           .counts = shares,
                                           .input = array,
                                           .output = array + before};
    return ls_group_reduce_scatter(runtime->group, &call);
}

/* Numbers at the blob's end are never rounded: they hold counts. */
static ls_status reduce_parts(struct ls_reducer *reducer, size_t bucket) {
    const struct ls_bucket *range = &reducer->config.buckets[bucket];
    if (!reducer->compression && !reducer->config.store && !reducer->config.shares)
        return reduce_range(reducer, LS_COMPRESS_NONE, range->begin, range->end);
    size_t end = range->end < reducer->config.compressible ? range->end : reducer->config.compressible;
    if (end < range->begin) end = range->begin;
    ls_status status = LS_OK;
    if (range->begin < end && reducer->config.store)
        status = push(reducer, bucket, range->begin);
    else if (range->begin < end && reducer->config.shares)
        status = scatter(reducer, bucket, range->begin);
    else if (range->begin < end)
        status = reduce_range(reducer, reducer->compression, range->begin, end);
    return status || end == range->end ? status : reduce_range(reducer, LS_COMPRESS_NONE, end, range->end);
}

static ls_status begin_to_add(const struct ls_adder *adder, size_t bucket) {
    return adder->ops->begin ? adder->ops->begin(adder, bucket) : LS_OK;
}

/* While the workers add, the node adds the next bucket and copies it. Further buckets wait: a returning bucket would
 * wait for all ops that the devices still compute. */
static ls_status reduce(struct ls_reducer *reducer, size_t bucket) {
    const struct ls_adder *adder = &reducer->config.adder;
    ls_status status = begin_to_add(adder, bucket);
    if (status || !adder->count) return status;
    status = adder->ops->arrive(adder, bucket);
    if (!status && is_given(reducer, bucket + 1)) status = begin_to_add(adder, bucket + 1);
    if (!status) status = reduce_parts(reducer, bucket);
    return status ? status : adder->ops->put_back(adder, bucket);
}

/* track is the calling thread's. */
static ls_status reduce_bucket(struct ls_reducer *reducer, size_t bucket, struct ls_track *track) {
    size_t count = reducer->config.buckets[bucket].end - reducer->config.buckets[bucket].begin;
    int64_t begun = ls_track_begin(track);
    ls_reached("bucket");
    ls_status status = reduce(reducer, bucket);
    if (!status && reducer->config.reduced) reducer->config.reduced(reducer->config.context, bucket);
    ls_track_end(track, begun, "all-reduce",
                 (struct ls_span_facts){reducer->steps[reducer->lane], bucket, count * sizeof(float)});
    return status;
}

static void note_failure(struct ls_reducer *reducer, ls_status status) {
    if (status) (void)memcpy(reducer->error, ls_error(), strlen(ls_error()) + 1);
    atomic_store(&reducer->status, (int)status);
}

bool ls_reducer_has_failed(const struct ls_reducer *reducer) {
    return atomic_load(&reducer->status) || atomic_load(&reducer->failure);
}

static void reduce_and_note(struct ls_reducer *reducer, size_t bucket, struct ls_track *track) {
    if (!ls_reducer_has_failed(reducer)) note_failure(reducer, reduce_bucket(reducer, bucket, track));
}

static void take_lane(struct ls_reducer *reducer) {
    int count = reducer->config.adder.count;
    for (int i = 0; i < count; i++) reducer->config.adder.arrays[i] = reducer->config.lanes[reducer->lane * count + i];
}

static void end_step(struct ls_reducer *reducer) {
    bool failed = ls_reducer_has_failed(reducer);
    ls_status status = reducer->config.end(reducer->config.context, reducer->lane, failed);
    if (!failed) note_failure(reducer, status);
    reducer->lane = (reducer->lane + 1) % reducer->config.lane_count;
    (void)atomic_fetch_add(&reducer->ended, 1);
    ls_gate_open(&reducer->completed);
}

static void tell_reduced(struct ls_reducer *reducer, size_t count) {
    atomic_store(&reducer->reduced, count);
    ls_gate_open(&reducer->moved);
}

/* The communicator's part of a step. Every bucket is waited for even after a failure, so that all replicas are through
 * before the next step. Buckets go in the order of their numbers, whichever is complete first: a collective needs the
 * same order on all workers. The last bucket is left to the replica that comes last. That thread has nothing else to
 * do, and one hand-over between threads is saved where the step waits for it. */
static bool reduce_step(struct ls_reducer *reducer) {
    size_t count = reducer->config.end ? reducer->config.count : reducer->config.count - 1;
    if (reducer->config.end) take_lane(reducer);
    for (size_t bucket = 0; bucket < count; bucket++) {
        if (!wait_for_bucket(reducer, bucket)) return false;
        reduce_and_note(reducer, bucket, reducer->strategy->communicator_track);
        atomic_store(arrived_of(reducer, reducer->lane, bucket), 0);
        if (reducer->config.in_flight) tell_reduced(reducer, bucket + 1);
    }
    if (reducer->config.end)
        end_step(reducer);
    else
        ls_gate_open(&reducer->caught_up);
    return true;
}

static void *communicator_thread(void *argument) {
    while (reduce_step(argument)) continue;
    return NULL;
}

ls_status ls_reducer_new(ls_strategy *strategy, const struct ls_reducer_config *config, struct ls_reducer **reducer) {
    size_t count = config->count;
    LS_NEW(struct ls_reducer, made, "a reducer");
    made->strategy = strategy;
    made->config = *config;
    if (!config->end) made->config.lane_count = 1;
    if (ls_group_all_reduce_compresses(strategy->runtime->group, strategy->runtime->communication))
        made->compression = strategy->options.compression;
    made->arrived = ls_alloc_array((size_t)made->config.lane_count * count, sizeof(*made->arrived));
    made->progress = ls_alloc_array((size_t)strategy->local_count, sizeof(*made->progress));
    ls_status status = LS_OK;
    made->steps = ls_alloc_array((size_t)made->config.lane_count, sizeof(*made->steps));
    if (!made->arrived || !made->progress || !made->steps)
        status = ls_fail_memory("a reducer", count * sizeof(*made->arrived));
    if (!status && (count > 1 || made->config.end)) {
        status = ls_thread_start(&made->thread, "ls-communicator", communicator_thread, made);
        made->started = !status;
    }
    return LS_HAND_OVER(status, reducer, made, ls_reducer_free(made));
}

void ls_reducer_free(struct ls_reducer *reducer) {
    if (!reducer) return;
    atomic_store(&reducer->stopping, true);
    ls_gate_open(&reducer->work);
    if (reducer->started) (void)pthread_join(reducer->thread, NULL);
    ls_free(reducer->steps);
    ls_free(reducer->progress);
    ls_free((void *)reducer->arrived);
    ls_free(reducer);
}

static int lane_of(const struct ls_reducer *reducer, int local) {
    return (int)((reducer->progress[local].begun - 1) % reducer->config.lane_count);
}

void ls_reducer_begin(struct ls_reducer *reducer, int local, int64_t step) {
    struct progress *progress = &reducer->progress[local];
    *progress = (struct progress){0, ls_gate_value(&reducer->caught_up), ls_gate_value(&reducer->completed), step,
                                  progress->begun + 1};
    if (!local) reducer->steps[lane_of(reducer, local)] = step;
}

static void copy_to_lane(const struct ls_reducer *reducer, int local, const struct ls_bucket *range) {
    float *lane = reducer->config.lanes[lane_of(reducer, local) * reducer->config.adder.count + local];
    const float *own = reducer->config.adder.routes[local].host;
    if (lane != own) memcpy(lane + range->begin, own + range->begin, (range->end - range->begin) * sizeof(float));
}

/* The replica's part of the bucket is queued on its device. */
static ls_status give(struct ls_reducer *reducer, int local, size_t bucket) {
    if (reducer->config.end) copy_to_lane(reducer, local, &reducer->config.buckets[bucket]);
    return reducer->config.adder.ops->give(&reducer->config.adder, local, bucket);
}

/* giving is false in an aborted step: buckets are then counted but not reduced. The replica's gradients are final from
 * offset on, so every bucket that begins there or behind is ready. arrived counts the local replicas; the addition that
 * completes a bucket also publishes the gradients to the communicator. The gate is opened once for all buckets of a
 * call. */
static ls_status move_on(struct ls_reducer *reducer, int local, size_t offset, bool giving) {
    struct progress *progress = &reducer->progress[local];
    int lane = lane_of(reducer, local);
    ls_status status = LS_OK;
    bool complete = false;
    while (progress->next < reducer->config.count && reducer->config.buckets[progress->next].begin >= offset) {
        if (giving) status = give(reducer, local, progress->next);
        if (status) break;
        _Atomic int *arrived = arrived_of(reducer, lane, progress->next++);
        if (atomic_fetch_add(arrived, 1) + 1 == reducer->strategy->local_count) complete = true;
    }
    if (complete) ls_gate_open(&reducer->work);
    return status;
}

/* The last bucket is nobody's to wait for: the replicas reduce it themselves. */
static void keep_pace(struct ls_reducer *reducer, int local) {
    size_t given = reducer->progress[local].next, most = reducer->config.in_flight;
    for (;;) {
        uint32_t seen = ls_gate_value(&reducer->moved);
        if (atomic_load(&reducer->reduced) + most >= given) return;
        ls_gate_wait(&reducer->moved, seen, reducer->strategy->spins);
    }
}

ls_status ls_reducer_ready(struct ls_reducer *reducer, int local, size_t offset) {
    ls_status status = move_on(reducer, local, offset, true);
    if (!status && reducer->config.in_flight) keep_pace(reducer, local);
    return status;
}

/* All that the adder has begun is done, or never will be. */
static void finish_adder(struct ls_reducer *reducer) {
    bool failed = ls_reducer_has_failed(reducer);
    if (!reducer->config.adder.ops->finish) return;
    ls_status status = reducer->config.adder.ops->finish(&reducer->config.adder, failed);
    if (!failed) note_failure(reducer, status);
}

/* Reduces the last bucket and ends the step for all. The last replica to come calls it. The counters are set back
 * before the gate opens, so that a replica may begin the next step right behind it. status and error were written by
 * the communicator before caught_up, and are read by the replicas behind completed. */
static void complete_step(struct ls_reducer *reducer, const struct progress *progress, struct ls_track *track) {
    if (reducer->config.count > 1) ls_gate_wait(&reducer->caught_up, progress->caught_up, reducer->strategy->spins);
    reduce_and_note(reducer, reducer->config.count - 1, track);
    finish_adder(reducer);
    ls_reached("sums");
    atomic_store(&reducer->arrived[reducer->config.count - 1], 0);
    atomic_store(&reducer->reduced, 0);
    atomic_store(&reducer->waiting, 0);
    ls_gate_open(&reducer->completed);
}

/* Another replica has failed. */
static ls_status given_up(const struct ls_reducer *reducer) {
    const struct ls_runtime *runtime = reducer->strategy->runtime;
    if (runtime->size > 1) return ls_abort_status(runtime->abort);
    return ls_fail(LS_ABORTED, "the step is given up: another replica failed");
}

ls_status ls_reducer_wait(struct ls_reducer *reducer, int local) {
    const struct progress *progress = &reducer->progress[local];
    struct ls_track *track = reducer->strategy->replicas[local].track;
    int64_t begun = ls_track_begin(track);
    if (reducer->config.end) return atomic_load(&reducer->failure) ? given_up(reducer) : LS_OK;
    if (atomic_fetch_add(&reducer->waiting, 1) + 1 == reducer->strategy->local_count)
        complete_step(reducer, progress, track);
    else
        ls_gate_wait(&reducer->completed, progress->completed, reducer->strategy->spins);
    ls_track_end(track, begun, "wait for buckets", (struct ls_span_facts){.step = progress->step});
    if (atomic_load(&reducer->failure)) return given_up(reducer);
    ls_status status = (ls_status)atomic_load(&reducer->status);
    return status ? ls_fail(status, "%s", reducer->error)
                  : reducer->config.adder.ops->settle(&reducer->config.adder, local);
}

/* Steps that are given end, also when one has failed. */
ls_status ls_reducer_await(struct ls_reducer *reducer, int64_t steps) {
    for (;;) {
        uint32_t seen = ls_gate_value(&reducer->completed);
        if (atomic_load(&reducer->ended) >= steps) break;
        ls_gate_wait(&reducer->completed, seen, reducer->strategy->spins);
    }
    ls_status status = (ls_status)atomic_load(&reducer->status);
    return status ? ls_fail(status, "%s", reducer->error) : LS_OK;
}

/* The first replica to fail gives the cause to the other workers, which wait in a collective. It then counts itself to
 * every bucket that it has not given: the communicator and the other replicas would wait for ever otherwise. */
ls_status ls_reducer_fail(struct ls_reducer *reducer, int local, ls_status status) {
    int none = LS_OK;
    struct ls_kept_error kept = ls_kept_error_of(status);
    const struct ls_runtime *runtime = reducer->strategy->runtime;
    if (atomic_compare_exchange_strong(&reducer->failure, &none, (int)status) && runtime->size > 1)
        ls_runtime_give_up(runtime, status, kept.message); /* other workers wait for this one */
    (void)move_on(reducer, local, 0, false);
    (void)ls_reducer_wait(reducer, local);
    return ls_kept_error_raise(&kept);
}
