/* The communicator thread and its hand-over with the replica threads: counters and gates, no locks. The group is used
 * by the communicator until caught_up opens, then by the last replica to wait until completed opens. */
#include "strategy/reducer.h"

#include <string.h>

#include "base/gate.h"
#include "base/memory.h"
#include "base/point.h"
#include "base/thread.h"
#include "strategy/model.h"
#include "strategy/strategy.h"

struct progress {
    size_t next;                   /* the first bucket that this replica has not given yet */
    uint32_t caught_up, completed; /* the gates' values when the step began */
    int64_t step;                  /* for the timeline */
};
struct ls_reducer {
    ls_strategy *strategy;
    float *gradients[LS_MAX_LOCAL_DEVICES];
    const struct ls_bucket *buckets;
    size_t count, compressible;
    ls_compression compression; /* NONE where nothing would be compressed */
    _Atomic int *arrived;       /* [count] local replicas that have given the bucket */
    struct progress *progress;  /* [local replicas], each its own thread's */
    _Atomic int waiting;        /* local replicas that have come to the wait */
    struct ls_gate work;        /* opened when a bucket is complete, or at the end */
    struct ls_gate caught_up; /* opened when the communicator has done its part of the step: all buckets but the last */
    struct ls_gate completed; /* opened when the step is complete */
    _Atomic bool stopping;
    _Atomic int failure; /* a status: some replica could not give its gradients */
    ls_status status;    /* of the present step's buckets so far */
    char error[LS_ERROR_SIZE];
    pthread_t thread;
    bool started;
};

static bool wait_for_bucket(struct ls_reducer *reducer, size_t bucket) {
    for (;;) {
        uint32_t seen = ls_gate_value(&reducer->work);
        if (atomic_load(&reducer->arrived[bucket]) == reducer->strategy->local_count) return true;
        if (atomic_load(&reducer->stopping)) return false;
        ls_gate_wait(&reducer->work, seen, 0);
    }
}

static ls_status reduce_range(struct ls_reducer *reducer, ls_compression compression, size_t begin, size_t end) {
    void *arrays[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < reducer->strategy->local_count; i++) arrays[i] = reducer->gradients[i] + begin;
    return ls_strategy_add_gradients(reducer->strategy, compression, arrays, end - begin);
}

/* What lies at the blob's end, counts among other things, is never rounded. */
static ls_status reduce_parts(struct ls_reducer *reducer, size_t bucket) {
    const struct ls_bucket *range = &reducer->buckets[bucket];
    if (!reducer->compression) return reduce_range(reducer, LS_COMPRESS_NONE, range->begin, range->end);
    size_t end = range->end < reducer->compressible ? range->end : reducer->compressible;
    if (end < range->begin) end = range->begin;
    ls_status status = LS_OK;
    if (range->begin < end) status = reduce_range(reducer, reducer->compression, range->begin, end);
    return status || end == range->end ? status : reduce_range(reducer, LS_COMPRESS_NONE, end, range->end);
}

/* The track is the calling thread's. */
static ls_status reduce_bucket(struct ls_reducer *reducer, size_t bucket, struct ls_track *track) {
    size_t count = reducer->buckets[bucket].end - reducer->buckets[bucket].begin;
    int64_t begun = ls_track_begin(track);
    ls_reached("bucket");
    ls_status status = reduce_parts(reducer, bucket);
    ls_track_end(track, begun, "all-reduce",
                 (struct ls_span_facts){reducer->progress[0].step, bucket, count * sizeof(float)});
    return status;
}

static void reduce_and_note(struct ls_reducer *reducer, size_t bucket, struct ls_track *track) {
    if (reducer->status || atomic_load(&reducer->failure)) return;
    reducer->status = reduce_bucket(reducer, bucket, track);
    if (reducer->status) (void)memcpy(reducer->error, ls_error(), strlen(ls_error()) + 1);
}

/* The communicator's part of a step. Every bucket is waited for even after a failure, so that all replicas are through
 * before the next step. */
static bool reduce_step(struct ls_reducer *reducer) {
    for (size_t bucket = 0; bucket + 1 < reducer->count; bucket++) {
        if (!wait_for_bucket(reducer, bucket)) return false;
        reduce_and_note(reducer, bucket, reducer->strategy->communicator_track);
        atomic_store(&reducer->arrived[bucket], 0);
    }
    ls_gate_open(&reducer->caught_up);
    return true;
}

static void *communicator_thread(void *argument) {
    while (reduce_step(argument)) continue;
    return NULL;
}

ls_status ls_reducer_new(ls_strategy *strategy, const struct ls_reducer_config *config, struct ls_reducer **reducer) {
    size_t count = config->count;
    struct ls_reducer *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a reducer", sizeof(*made));
    made->strategy = strategy;
    made->buckets = config->buckets;
    made->count = count;
    made->compressible = config->compressible;
    if (ls_group_compresses(strategy->membership->group, strategy->options.communication))
        made->compression = strategy->options.compression;
    for (int i = 0; i < strategy->local_count; i++) made->gradients[i] = config->gradients[i];
    made->arrived = ls_alloc_array(count, sizeof(*made->arrived));
    made->progress = ls_alloc_array((size_t)strategy->local_count, sizeof(*made->progress));
    ls_status status = LS_OK;
    if (!made->arrived || !made->progress) status = ls_fail_memory("a reducer", count * sizeof(*made->arrived));
    if (!status && count > 1) {
        status = ls_thread_start(&made->thread, "ls-communicator", communicator_thread, made);
        made->started = !status;
    }
    if (status)
        ls_reducer_free(made);
    else
        *reducer = made;
    return status;
}

void ls_reducer_free(struct ls_reducer *reducer) {
    if (!reducer) return;
    atomic_store(&reducer->stopping, true);
    ls_gate_open(&reducer->work);
    if (reducer->started) (void)pthread_join(reducer->thread, NULL);
    ls_free(reducer->progress);
    ls_free((void *)reducer->arrived);
    ls_free(reducer);
}

void ls_reducer_begin(struct ls_reducer *reducer, int local, int64_t step) {
    reducer->progress[local] =
        (struct progress){0, ls_gate_value(&reducer->caught_up), ls_gate_value(&reducer->completed), step};
}

void ls_reducer_ready(struct ls_reducer *reducer, int local, size_t offset) {
    struct progress *progress = &reducer->progress[local];
    bool complete = false;
    for (; progress->next < reducer->count && reducer->buckets[progress->next].begin >= offset; progress->next++)
        if (atomic_fetch_add(&reducer->arrived[progress->next], 1) + 1 == reducer->strategy->local_count)
            complete = true;
    if (complete) ls_gate_open(&reducer->work);
}

/* By the last replica to come: the last bucket, and the end of the step for all. */
static void complete_step(struct ls_reducer *reducer, const struct progress *progress, struct ls_track *track) {
    if (reducer->count > 1) ls_gate_wait(&reducer->caught_up, progress->caught_up, reducer->strategy->spins);
    reduce_and_note(reducer, reducer->count - 1, track);
    ls_reached("sums");
    atomic_store(&reducer->arrived[reducer->count - 1], 0);
    atomic_store(&reducer->waiting, 0);
    ls_gate_open(&reducer->completed);
}

ls_status ls_reducer_wait(struct ls_reducer *reducer, int local) {
    const struct progress *progress = &reducer->progress[local];
    struct ls_track *track = reducer->strategy->replicas[local].track;
    int64_t begun = ls_track_begin(track);
    if (atomic_fetch_add(&reducer->waiting, 1) + 1 == reducer->strategy->local_count)
        complete_step(reducer, progress, track);
    else
        ls_gate_wait(&reducer->completed, progress->completed, reducer->strategy->spins);
    ls_track_end(track, begun, "wait for buckets", (struct ls_span_facts){.step = progress->step});
    if (atomic_load(&reducer->failure)) return ls_abort_status(reducer->strategy->membership->abort);
    return reducer->status ? ls_fail(reducer->status, "%s", reducer->error) : LS_OK;
}

ls_status ls_reducer_fail(struct ls_reducer *reducer, int local, ls_status status) {
    int none = LS_OK;
    char error[LS_ERROR_SIZE];
    (void)memcpy(error, ls_error(), strlen(ls_error()) + 1);
    if (atomic_compare_exchange_strong(&reducer->failure, &none, (int)status))
        ls_abort_raise(reducer->strategy->membership->abort, status, error); /* other workers wait for this one */
    ls_reducer_ready(reducer, local, 0);
    (void)ls_reducer_wait(reducer, local);
    return ls_fail(status, "%s", error);
}
