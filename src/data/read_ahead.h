/* Reads the examples of a row of steps, the present one and those that come next, with threads of its own; or, without
 * threads, those that are asked for. The examples read do not depend on the threads. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "data/dataset.h"
#include "data/order.h"

#define LS_READ_MAX_REPLICAS 256 /* of one worker */

/* The question that can end a wait for examples before its limit. */
struct ls_read_interrupt {
    ls_status (*ask)(
        void *context); /* asked several times a second by the waiting thread; NULL if no question ends the wait */
    void *context;
    struct ls_activity *activity; /* is told of such waits */
};
/* Devices that copy from where the rows lie. pin makes memory good for that; unpin waits for the copies first. */
struct ls_read_memory {
    void (*pin)(void *context, void *memory, size_t size); /* NULL: nobody copies from there */
    void (*unpin)(void *context, void *memory);
    void *context;
};
struct ls_read_ahead_config {
    const ls_dataset *dataset; /* borrowed */
    int64_t rows;              /* the most of one step, all local replicas together */
    int local_replicas;
    int threads;      /* 0: none; who asks for a replica's rows reads them */
    int64_t together; /* rows that a thread takes at once; 1 where reading may hang, so that an error names the row */
    int steps;        /* kept at once, the present one included */
    struct ls_read_memory memory;
    double timeout_seconds; /* of the waits for examples; 0: none */
    struct ls_read_interrupt interrupt;
};
struct ls_read_ahead;
ls_status ls_read_ahead_new(const struct ls_read_ahead_config *config, struct ls_read_ahead **ahead);
/* Waits for the examples that are being read, as long as they may take; where that is over already (DEADLINE_EXCEEDED
 * was returned), for LS_READING_TIMEOUT. Threads that read on are left behind: they free what they use when they end,
 * and hold the dataset until then. */
void ls_read_ahead_free(struct ls_read_ahead *ahead);

/* A step's rows, for each local replica first[replica] to first[replica + 1]. */
struct ls_read_step {
    int64_t epoch, step;
    int64_t first[LS_READ_MAX_REPLICAS + 1];
    struct ls_row *rows;
};
/* Goes to a step: what was before it is dropped, and everything is if it was not under way. DEADLINE_EXCEEDED when an
 * example that is dropped cannot be read to its end. */
ls_status ls_read_ahead_seek(struct ls_read_ahead *ahead, int64_t epoch, int64_t step);
/* Room for the step that comes after those under way, to be filled in, or NULL. *last becomes the last step under way,
 * and is untouched without one. */
struct ls_read_step *ls_read_ahead_room(struct ls_read_ahead *ahead, const struct ls_read_step **last);
/* The step that was filled in is under way. */
void ls_read_ahead_start(struct ls_read_ahead *ahead);
/* The destination of examples: floats, or where they lie, which is bytes where ls_read_ahead_table is not NULL. */
struct ls_read_rows {
    void *features;
    struct ls_targets targets; /* of the dataset's kind */
};
/* The values of the bytes that rows lie as; NULL: they are floats, or lie nowhere. */
const struct ls_pixel_table *ls_read_ahead_table(const struct ls_read_ahead *ahead);
/* Examples of a replica in the present step. Any thread, between seeks. Fails as reading failed, at the first row that
 * did; DEADLINE_EXCEEDED naming the example that does not come. */
ls_status ls_read_ahead_take(struct ls_read_ahead *ahead, int local_replica, struct ls_read_rows to);
/* The same without a copy, where the config has a pin: *found becomes where they lie, until a seek drops their step.
 * place 0 is the present step; others are under way behind it. */
ls_status ls_read_ahead_find(struct ls_read_ahead *ahead, int place, int local_replica, struct ls_read_rows *found);
/* The present step. */
const struct ls_read_step *ls_read_ahead_present(const struct ls_read_ahead *ahead);
/* The step behind the present one, or NULL if none is under way. */
const struct ls_read_step *ls_read_ahead_next(const struct ls_read_ahead *ahead);
