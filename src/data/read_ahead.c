/* A ring of steps. The data threads take row after row of the earliest step that has one left; who wants a replica's
 * rows waits until all of them are there. Mirrors tf.data's parallel map and prefetch, in a fixed order. */
#include "data/read_ahead.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/denormal.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/shape.h"
#include "base/monitor.h"
#include "base/thread.h"
#include "data/pixels.h"
#include "data/sources.h"

#define LOOK (50 * LS_MILLISECOND) /* between two questions whether to wait on */

struct slot {
    struct ls_read_step step;
    int64_t total, taken, done;            /* rows */
    int64_t missing[LS_READ_MAX_REPLICAS]; /* rows of a replica that are not there yet */
    char *features;                        /* borrowed */
    struct ls_targets targets;             /* owns */
    int64_t failed;                        /* the first row that could not be read */
    struct ls_kept_error error;            /* of that row */
};

struct ls_read_ahead {
    struct ls_read_ahead_config config;
    size_t elements, example;  /* of one example; its bytes where it lies */
    struct ls_monitor monitor; /* guards what follows, but for the bytes of rows that are not done */
    bool monitored, ending;
    bool overdue, left; /* a wait was in vain; nobody but the threads has this any more */
    struct slot *slots; /* owns; a ring */
    char *features;     /* owns: of all slots */
    bool pinned;
    int first, count; /* under way */
    struct reader {
        struct ls_read_ahead *ahead;
        pthread_t thread;
        const struct slot *slot; /* of the row that it reads, or NULL */
        int64_t row;             /* the first of those that it has taken */
    } readers[LS_DATA_MAX_WORKERS];
    int started, running;
};

static struct slot *slot_at(const struct ls_read_ahead *ahead, int i) {
    return &ahead->slots[(ahead->first + i) % ahead->config.steps];
}

static const struct ls_target_kind *kind_of(const struct ls_read_ahead *ahead) {
    return &ahead->config.dataset->targets;
}

/* ---- The data threads ------------------------------------------------------------------------------------------- */

/* Rows of one step that one thread reads. */
struct some {
    struct slot *slot;
    int64_t first, end;
};

/* The earliest rows that nobody has taken; false when there are none. Threads may finish rows out of order; a row's
 * place in its slot is fixed when the step begins, so the order of the batch does not depend on them. The earliest step
 * goes first: it is the one that somebody may wait for. */
static bool take_rows(struct ls_read_ahead *ahead, struct some *some) {
    for (int i = 0; i < ahead->count; i++) {
        struct slot *slot = slot_at(ahead, i);
        int64_t left = slot->total - slot->taken, count = left < ahead->config.together ? left : ahead->config.together;
        if (!left) continue;
        *some = (struct some){slot, slot->taken, slot->taken + count};
        slot->taken += count;
        return true;
    }
    return false;
}

static int replica_of(const struct slot *slot, int64_t row) {
    int replica = 0;
    while (row >= slot->step.first[replica + 1]) replica++;
    return replica;
}

/* Of several rows that fail the first one counts, in row order and not in time. The error of a batch is thereby the
 * same in every run. */
static void note_failure(struct slot *slot, int64_t row, ls_status status) {
    if (!status || (slot->error.status && row >= slot->failed)) return;
    slot->failed = row;
    ls_kept_error_set(&slot->error, status);
}

/* A wake is sent only when a replica's rows are complete, or when drop may wait for the last row taken. */
static void rows_done(struct ls_read_ahead *ahead, const struct some *some) {
    struct slot *slot = some->slot;
    bool wakes = false;
    for (int64_t row = some->first; row < some->end; row++) wakes |= --slot->missing[replica_of(slot, row)] == 0;
    slot->done += some->end - some->first;
    if (wakes || slot->done == slot->taken) ls_monitor_broadcast(&ahead->monitor);
}

const struct ls_pixel_table *ls_read_ahead_table(const struct ls_read_ahead *ahead) {
    return ahead->features ? ahead->config.dataset->table : NULL;
}

/* To where rows lie. */
static ls_status read_row(const struct ls_read_ahead *ahead, const struct ls_row *row, struct ls_read_buffers *kept,
                          const struct ls_read_rows *to) {
    const ls_dataset *dataset = ahead->config.dataset;
    return ls_read_ahead_table(ahead) ? ls_dataset_read_bytes(dataset, row, kept, to->features, &to->targets)
                                      : ls_dataset_read(dataset, row, kept, to->features, &to->targets);
}

static ls_status read_row_of(const struct ls_read_ahead *ahead, const struct slot *slot, int64_t row,
                             struct ls_read_buffers *kept) {
    const struct ls_read_rows to = {slot->features + (size_t)row * ahead->example,
                                    ls_targets_at(&slot->targets, kind_of(ahead), row)};
    return read_row(ahead, &slot->step.rows[row], kept, &to);
}

/* With the monitor locked, as before and after. The first row that fails ends it. */
static void read_slice(struct reader *reader, const struct some *some, struct ls_read_buffers *kept) {
    struct ls_read_ahead *ahead = reader->ahead;
    ls_status status = LS_OK;
    int64_t row = some->first;
    reader->slot = some->slot;
    reader->row = row;
    ls_monitor_unlock(&ahead->monitor);
    while (!status && row < some->end) status = read_row_of(ahead, some->slot, row++, kept);
    ls_monitor_lock(&ahead->monitor);
    reader->slot = NULL;
    note_failure(some->slot, row - 1, status);
    rows_done(ahead, some);
}

static void release_slots(struct ls_read_ahead *ahead) {
    if (ahead->monitored) ls_monitor_destroy(&ahead->monitor);
    for (int i = 0; ahead->slots && i < ahead->config.steps; i++) {
        ls_free(ahead->slots[i].step.rows);
        ls_targets_free(&ahead->slots[i].targets);
    }
    ls_free(ahead->features);
    ls_free(ahead->slots);
    ls_free(ahead);
}

/* The last of those that were left behind frees what nobody else has. */
static void end_reader(struct ls_read_ahead *ahead) {
    bool last = --ahead->running == 0 && ahead->left;
    const ls_dataset *dataset = ahead->config.dataset;
    ls_monitor_broadcast(&ahead->monitor);
    ls_monitor_unlock(&ahead->monitor);
    if (!last) return;
    release_slots(ahead);
    ls_dataset_free((ls_dataset *)dataset);
}

static void *run_reader(void *argument) {
    struct reader *reader = argument;
    struct ls_read_ahead *ahead = reader->ahead;
    struct ls_read_buffers kept = {0};
    (void)ls_denormals_flush();
    ls_monitor_lock(&ahead->monitor);
    while (!ahead->ending) {
        struct some some;
        if (take_rows(ahead, &some))
            read_slice(reader, &some, &kept);
        else
            (void)ls_monitor_wait(&ahead->monitor, LS_NEVER);
    }
    ls_dataset_read_buffers_free(&kept);
    end_reader(ahead);
    return NULL;
}

/* ---- Making and freeing ----------------------------------------------------------------------------------------- */

static ls_status allocate_slot(struct ls_read_ahead *ahead, struct slot *slot) {
    size_t rows = (size_t)ahead->config.rows;
    slot->step.rows = ls_alloc_array(rows, sizeof(*slot->step.rows));
    if (!slot->step.rows) return ls_fail_memory("batches", rows * sizeof(struct ls_row));
    return ahead->features ? ls_targets_new(kind_of(ahead), ahead->config.rows, &slot->targets) : LS_OK;
}

/* Without threads, and with no device that copies from there, rows are read to where they are asked for. */
static ls_status allocate_features(struct ls_read_ahead *ahead) {
    const struct ls_read_ahead_config *config = &ahead->config;
    size_t size = (size_t)config->rows * ahead->example, bytes;
    size = (size + LS_ALIGNMENT - 1) / LS_ALIGNMENT * LS_ALIGNMENT;
    if (!config->threads && !config->memory.pin) return LS_OK;
    if (__builtin_mul_overflow(size, (size_t)config->steps, &bytes)) bytes = SIZE_MAX;
    ahead->features = ls_alloc_aligned(bytes);
    if (!ahead->features) return ls_fail_memory("batches", bytes);
    for (int i = 0; i < config->steps; i++) ahead->slots[i].features = ahead->features + (size_t)i * size;
    ahead->pinned = config->memory.pin;
    if (ahead->pinned) config->memory.pin(config->memory.context, ahead->features, bytes);
    return LS_OK;
}

static ls_status allocate_slots(struct ls_read_ahead *ahead) {
    const struct ls_read_ahead_config *config = &ahead->config;
    ahead->slots = ls_alloc_array((size_t)config->steps, sizeof(*ahead->slots));
    if (!ahead->slots) return ls_fail_memory("batches", (size_t)config->steps * sizeof(struct slot));
    ls_status status = allocate_features(ahead);
    for (int i = 0; !status && i < config->steps; i++) status = allocate_slot(ahead, &ahead->slots[i]);
    return status;
}

static ls_status start_threads(struct ls_read_ahead *ahead) {
    ls_status status = ls_monitor_init(&ahead->monitor);
    ahead->monitored = !status;
    while (!status && ahead->started < ahead->config.threads) {
        char name[32];
        struct reader *reader = &ahead->readers[ahead->started];
        reader->ahead = ahead;
        ls_monitor_lock(&ahead->monitor);
        ahead->running++;
        ls_monitor_unlock(&ahead->monitor);
        (void)snprintf(name, sizeof(name), "ls-data-%d", ahead->started);
        status = ls_thread_start(&reader->thread, name, run_reader, reader);
        if (!status) ahead->started++;
        if (status) ahead->running--;
    }
    return status;
}

ls_status ls_read_ahead_new(const struct ls_read_ahead_config *config, struct ls_read_ahead **ahead) {
    LS_NEW(struct ls_read_ahead, made, "batches");
    made->config = *config;
    made->elements = (size_t)ls_shape_count(&config->dataset->shape);
    made->example = made->elements * (config->dataset->table ? 1 : sizeof(float));
    ls_status status = allocate_slots(made);
    if (!status) status = start_threads(made);
    return LS_HAND_OVER(status, ahead, made, ls_read_ahead_free(made));
}

/* Tells the threads to end; false where some still read when it is time to go on. */
static bool end_threads(struct ls_read_ahead *ahead) {
    ls_monitor_lock(&ahead->monitor);
    int64_t deadline = ahead->overdue ? ls_now() + LS_READING_TIMEOUT : ls_deadline_in(ahead->config.timeout_seconds);
    ahead->ending = true;
    ls_monitor_broadcast(&ahead->monitor);
    while (ahead->running && ls_monitor_wait(&ahead->monitor, deadline)) continue;
    bool ended = !ahead->running;
    ahead->left = !ended;
    if (ahead->left) ls_dataset_hold(ahead->config.dataset);
    for (int i = 0; ahead->left && i < ahead->started; i++) (void)pthread_detach(ahead->readers[i].thread);
    ls_monitor_unlock(&ahead->monitor);
    return ended;
}

void ls_read_ahead_free(struct ls_read_ahead *ahead) {
    if (ahead && ahead->pinned) ahead->config.memory.unpin(ahead->config.memory.context, ahead->features);
    if (!ahead || (ahead->monitored && !end_threads(ahead))) return;
    for (int i = 0; i < ahead->started; i++) (void)pthread_join(ahead->readers[i].thread, NULL);
    release_slots(ahead);
}

/* ---- Going from step to step ------------------------------------------------------------------------------------ */

/* Of those that are being read the one that was begun first. */
static int64_t find_late_row(const struct ls_read_ahead *ahead, const struct slot *slot) {
    int64_t row = slot->taken ? slot->taken - 1 : 0;
    for (int i = 0; i < ahead->started; i++)
        if (ahead->readers[i].slot == slot && ahead->readers[i].row < row) row = ahead->readers[i].row;
    return row;
}

static ls_status fail_wait(struct ls_read_ahead *ahead, const struct slot *slot) {
    int64_t row = find_late_row(ahead, slot);
    ahead->overdue = true;
    return ls_fail(LS_DEADLINE_EXCEEDED,
                   "the data of step %lld of epoch %lld has not been read within %g s: %lld of %lld examples are "
                   "there, example %lld is being read",
                   (long long)slot->step.step, (long long)slot->step.epoch, ahead->config.timeout_seconds,
                   (long long)slot->done, (long long)slot->total, (long long)slot->step.rows[row].example);
}

/* With the monitor locked: nobody takes a row of the earliest step any more, and all that were taken are done. total
 * falls to taken, so that no thread takes another row. Rows that are being read cannot be stopped: their thread writes
 * into the slot, which must not be given to the next step before. */
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
        if (first->epoch == epoch && first->step == step && !slot_at(ahead, 0)->error.status)
            break; /* what failed is tried again */
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
    slot->error.status = LS_OK;
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

/* Without threads. Rows of several replicas may be read at once. */
static ls_status read_now(const struct ls_read_ahead *ahead, const struct ls_read_step *step, int local_replica,
                          struct ls_read_rows to) {
    struct ls_read_buffers kept = {0};
    ls_status status = LS_OK;
    size_t example = ahead->features ? ahead->example : ahead->elements * sizeof(float);
    for (int64_t row = step->first[local_replica]; row < step->first[local_replica + 1] && !status; row++) {
        status = read_row(ahead, &step->rows[row], &kept, &to);
        to.features = (char *)to.features + example;
        to.targets = ls_targets_at(&to.targets, kind_of(ahead), 1);
    }
    ls_dataset_read_buffers_free(&kept);
    return status;
}

/* With the monitor locked. */
static ls_status wait_until(struct ls_read_ahead *ahead, const struct slot *slot, int64_t deadline) {
    const struct ls_read_interrupt *interrupt = &ahead->config.interrupt;
    int64_t look = interrupt->ask ? ls_now() + LOOK : LS_NEVER;
    if (ls_monitor_wait(&ahead->monitor, look < deadline ? look : deadline)) return LS_OK;
    if (ls_now() >= deadline) return fail_wait(ahead, slot);
    return interrupt->ask(interrupt->context);
}

static ls_status wait_for_rows(struct ls_read_ahead *ahead, const struct slot *slot, int local_replica) {
    int64_t deadline = ls_deadline_in(ahead->config.timeout_seconds);
    struct ls_activity *activity = ahead->config.interrupt.activity;
    ls_status status = LS_OK;
    ls_monitor_lock(&ahead->monitor);
    bool waits = activity && slot->missing[local_replica];
    if (waits) ls_activity_read(activity, ls_now());
    while (slot->missing[local_replica] && !status) status = wait_until(ahead, slot, deadline);
    if (waits) ls_activity_has_read(activity);
    if (!status) status = ls_kept_error_raise(&slot->error);
    ls_monitor_unlock(&ahead->monitor);
    return status;
}

ls_status ls_read_ahead_find(struct ls_read_ahead *ahead, int place, int local_replica, struct ls_read_rows *found) {
    const struct slot *slot = slot_at(ahead, place);
    int64_t first = slot->step.first[local_replica];
    *found = (struct ls_read_rows){slot->features + (size_t)first * ahead->example,
                                   ls_targets_at(&slot->targets, kind_of(ahead), first)};
    return ahead->config.threads ? wait_for_rows(ahead, slot, local_replica)
                                 : read_now(ahead, &slot->step, local_replica, *found);
}

ls_status ls_read_ahead_take(struct ls_read_ahead *ahead, int local_replica, struct ls_read_rows to) {
    const struct ls_read_step *step = ls_read_ahead_present(ahead);
    int64_t count = step->first[local_replica + 1] - step->first[local_replica];
    struct ls_read_rows from;
    if (!ahead->features) return read_now(ahead, step, local_replica, to);
    ls_status status = ls_read_ahead_find(ahead, 0, local_replica, &from);
    if (status) return status;
    if (ls_read_ahead_table(ahead))
        ls_pixels_expand(ls_read_ahead_table(ahead), from.features, (size_t)count * ahead->elements, to.features);
    else
        memcpy(to.features, from.features, (size_t)count * ahead->example);
    ls_targets_copy(kind_of(ahead), &from.targets, count, &to.targets);
    return LS_OK;
}
