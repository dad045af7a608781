/* A ring of steps. The data threads take row after row of the earliest step that has one left; who wants a replica's
 * rows waits until all of them are there. Mirrors tf.data's parallel map and prefetch, in a fixed order. */
#include "data/read_ahead.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/denormal.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "data/sources.h"

struct slot {
    struct ls_read_step step;
    int64_t total, taken, done;            /* rows */
    int64_t missing[LS_READ_MAX_REPLICAS]; /* rows of a replica that are not there yet */
    float *features;                       /* owns */
    int32_t *labels;                       /* owns */
    int64_t failed;                        /* the first row that could not be read */
    ls_status status;
    char message[LS_ERROR_SIZE];
};

struct ls_read_ahead {
    struct ls_read_ahead_config config;
    size_t elements;           /* of one example */
    struct ls_monitor monitor; /* guards what follows, but for the bytes of rows that are not done */
    bool monitored, ending;
    struct slot *slots; /* owns; a ring */
    int first, count;   /* under way */
    pthread_t threads[LS_DATA_MAX_WORKERS];
    int started;
};

static struct slot *slot_at(const struct ls_read_ahead *ahead, int i) {
    return &ahead->slots[(ahead->first + i) % ahead->config.steps];
}

/* ---- The data threads ------------------------------------------------------------------------------------------- */

/* The earliest row that nobody has taken; false when there is none. */
static bool take_row(struct ls_read_ahead *ahead, struct slot **slot, int64_t *row) {
    for (int i = 0; i < ahead->count; i++) {
        *slot = slot_at(ahead, i);
        if ((*slot)->taken == (*slot)->total) continue;
        *row = (*slot)->taken++;
        return true;
    }
    return false;
}

static int replica_of(const struct slot *slot, int64_t row) {
    int replica = 0;
    while (row >= slot->step.first[replica + 1]) replica++;
    return replica;
}

static void row_done(struct ls_read_ahead *ahead, struct slot *slot, int64_t row, ls_status status) {
    if (status && (!slot->status || row < slot->failed)) {
        slot->status = status;
        slot->failed = row;
        memcpy(slot->message, ls_error(), strlen(ls_error()) + 1);
    }
    slot->done++;
    if (--slot->missing[replica_of(slot, row)] == 0 || slot->done == slot->taken) ls_monitor_broadcast(&ahead->monitor);
}

static void *read_rows(void *argument) {
    struct ls_read_ahead *ahead = argument;
    struct ls_read_buffers kept = {0};
    (void)ls_denormals_flush();
    ls_monitor_lock(&ahead->monitor);
    while (!ahead->ending) {
        struct slot *slot;
        int64_t row;
        if (!take_row(ahead, &slot, &row)) {
            (void)ls_monitor_wait(&ahead->monitor, LS_NEVER);
            continue;
        }
        ls_monitor_unlock(&ahead->monitor);
        ls_status status = ls_dataset_read(ahead->config.dataset, &slot->step.rows[row], &kept,
                                           slot->features + (size_t)row * ahead->elements, &slot->labels[row]);
        ls_monitor_lock(&ahead->monitor);
        row_done(ahead, slot, row, status);
    }
    ls_monitor_unlock(&ahead->monitor);
    ls_read_buffers_free(&kept);
    return NULL;
}

/* ---- Making and freeing ----------------------------------------------------------------------------------------- */

static ls_status allocate(struct ls_read_ahead *ahead) {
    const struct ls_read_ahead_config *config = &ahead->config;
    size_t rows = (size_t)config->rows, bytes = rows * ahead->elements * sizeof(float);
    ahead->slots = ls_alloc_array((size_t)config->steps, sizeof(*ahead->slots));
    if (!ahead->slots) return ls_fail_memory("batches", (size_t)config->steps * sizeof(struct slot));
    for (int i = 0; i < config->steps; i++) {
        struct slot *slot = &ahead->slots[i];
        slot->step.rows = ls_alloc_array(rows, sizeof(*slot->step.rows));
        if (!slot->step.rows) return ls_fail_memory("batches", rows * sizeof(struct ls_row));
        if (!config->threads) continue;
        slot->features = ls_alloc_aligned(bytes);
        slot->labels = ls_alloc_array(rows, sizeof(*slot->labels));
        if (!slot->features || !slot->labels) return ls_fail_memory("batches", bytes);
    }
    return LS_OK;
}

static ls_status start_threads(struct ls_read_ahead *ahead) {
    ls_status status = ls_monitor_init(&ahead->monitor);
    ahead->monitored = !status;
    while (!status && ahead->started < ahead->config.threads) {
        char name[32];
        (void)snprintf(name, sizeof(name), "ls-data-%d", ahead->started);
        status = ls_thread_start(&ahead->threads[ahead->started], name, read_rows, ahead);
        if (!status) ahead->started++;
    }
    return status;
}

ls_status ls_read_ahead_new(const struct ls_read_ahead_config *config, struct ls_read_ahead **ahead) {
    struct ls_read_ahead *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("batches", sizeof(*made));
    made->config = *config;
    made->elements = (size_t)ls_shape_count(&config->dataset->shape);
    ls_status status = allocate(made);
    if (!status) status = start_threads(made);
    if (status)
        ls_read_ahead_free(made);
    else
        *ahead = made;
    return status;
}

void ls_read_ahead_free(struct ls_read_ahead *ahead) {
    if (!ahead) return;
    if (ahead->monitored) {
        ls_monitor_lock(&ahead->monitor);
        ahead->ending = true;
        ls_monitor_broadcast(&ahead->monitor);
        ls_monitor_unlock(&ahead->monitor);
    }
    for (int i = 0; i < ahead->started; i++) (void)pthread_join(ahead->threads[i], NULL);
    if (ahead->monitored) ls_monitor_destroy(&ahead->monitor);
    for (int i = 0; ahead->slots && i < ahead->config.steps; i++) {
        ls_free(ahead->slots[i].step.rows);
        ls_free(ahead->slots[i].features);
        ls_free(ahead->slots[i].labels);
    }
    ls_free(ahead->slots);
    ls_free(ahead);
}

/* ---- Going from step to step ------------------------------------------------------------------------------------ */

static ls_status fail_wait(const struct ls_read_ahead *ahead, const struct slot *slot) {
    int64_t row = slot->taken ? slot->taken - 1 : 0;
    return ls_fail(
        LS_DEADLINE_EXCEEDED,
        "the data of step %lld of epoch %lld has not been read within %g s: %lld of %lld examples are there, "
        "example %lld is being read",
        (long long)slot->step.step, (long long)slot->step.epoch, ahead->config.timeout_seconds, (long long)slot->done,
        (long long)slot->total, (long long)slot->step.rows[row].example);
}

/* With the monitor locked: nobody takes a row of the earliest step any more, and all that were taken are done. */
static ls_status drop(struct ls_read_ahead *ahead) {
    struct slot *slot = slot_at(ahead, 0);
    int64_t deadline = ls_deadline_in(ahead->config.timeout_seconds);
    slot->total = slot->taken;
    while (slot->done < slot->taken)
        if (!ls_monitor_wait(&ahead->monitor, deadline)) return fail_wait(ahead, slot);
    ahead->first = (ahead->first + 1) % ahead->config.steps;
    ahead->count--;
    return LS_OK;
}

ls_status ls_read_ahead_seek(struct ls_read_ahead *ahead, int64_t epoch, int64_t step) {
    ls_status status = LS_OK;
    ls_monitor_lock(&ahead->monitor);
    while (!status && ahead->count) {
        const struct ls_read_step *first = &slot_at(ahead, 0)->step;
        if (first->epoch == epoch && first->step == step) break;
        status = drop(ahead);
    }
    ls_monitor_unlock(&ahead->monitor);
    return status;
}

struct ls_read_step *ls_read_ahead_room(struct ls_read_ahead *ahead, const struct ls_read_step **last) {
    if (ahead->count) *last = &slot_at(ahead, ahead->count - 1)->step;
    return ahead->count < ahead->config.steps ? &slot_at(ahead, ahead->count)->step : NULL;
}

void ls_read_ahead_start(struct ls_read_ahead *ahead) {
    struct slot *slot = slot_at(ahead, ahead->count);
    const int64_t *first = slot->step.first;
    slot->total = first[ahead->config.local_replicas];
    slot->taken = slot->done = 0;
    slot->status = LS_OK;
    for (int i = 0; i < ahead->config.local_replicas; i++) slot->missing[i] = first[i + 1] - first[i];
    ls_monitor_lock(&ahead->monitor);
    ahead->count++;
    ls_monitor_broadcast(&ahead->monitor);
    ls_monitor_unlock(&ahead->monitor);
}

const struct ls_read_step *ls_read_ahead_present(const struct ls_read_ahead *ahead) {
    return &slot_at(ahead, 0)->step;
}

const struct ls_read_step *ls_read_ahead_next(const struct ls_read_ahead *ahead) {
    return ahead->count > 1 ? &slot_at(ahead, 1)->step : NULL;
}

/* ---- Taking ----------------------------------------------------------------------------------------------------- */

static ls_status read_now(const struct ls_read_ahead *ahead, int local_replica, struct ls_read_rows to) {
    const struct ls_read_step *step = ls_read_ahead_present(ahead);
    struct ls_read_buffers kept = {0};
    ls_status status = LS_OK;
    for (int64_t row = step->first[local_replica]; row < step->first[local_replica + 1] && !status; row++) {
        status = ls_dataset_read(ahead->config.dataset, &step->rows[row], &kept, to.features, to.labels++);
        to.features += ahead->elements;
    }
    ls_read_buffers_free(&kept);
    return status;
}

static ls_status wait_for_rows(struct ls_read_ahead *ahead, const struct slot *slot, int local_replica) {
    int64_t deadline = ls_deadline_in(ahead->config.timeout_seconds);
    ls_status status = LS_OK;
    ls_monitor_lock(&ahead->monitor);
    while (slot->missing[local_replica] && !status)
        if (!ls_monitor_wait(&ahead->monitor, deadline)) status = fail_wait(ahead, slot);
    if (!status && slot->status) status = ls_fail(slot->status, "%s", slot->message);
    ls_monitor_unlock(&ahead->monitor);
    return status;
}

ls_status ls_read_ahead_take(struct ls_read_ahead *ahead, int place, int local_replica, struct ls_read_rows to) {
    const struct slot *slot = slot_at(ahead, place);
    if (!ahead->config.threads) return read_now(ahead, local_replica, to);
    ls_status status = wait_for_rows(ahead, slot, local_replica);
    if (status) return status;
    int64_t first = slot->step.first[local_replica], count = slot->step.first[local_replica + 1] - first;
    memcpy(to.features, slot->features + (size_t)first * ahead->elements,
           (size_t)count * ahead->elements * sizeof(float));
    memcpy(to.labels, slot->labels + first, (size_t)count * sizeof(*to.labels));
    return LS_OK;
}
