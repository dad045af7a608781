/* Which examples each local replica trains on at each step: epochs, shuffle, and the division of global batches. The
 * position (epoch, step) determines everything, so a restart is a seek. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"
#include "data/read_ahead.h"

struct ls_pipeline_config {
    const ls_dataset *dataset;         /* borrowed */
    int num_replicas;                  /* of all workers */
    int first_replica, local_replicas; /* this worker's */
    int worker, num_workers;           /* for LS_DIVIDE_TENSORFLOW */
    double timeout_seconds;            /* that the data threads may take for a step; 0: no limit */
    struct ls_read_interrupt interrupt;
    struct ls_read_memory
        memory; /* of devices that compute behind their threads: they copy ahead from where rows lie */
    /* A batch that is scaled: portions, in which batch_size is divided, and how many of them a step takes. Steps below
     * are counted in portions then. 0: whole batches. */
    int portions, taken;
    /* NULL, or how many examples each worker's dataset has: each then goes through its own in batches of batch_size a
     * replica. Borrowed for the call. */
    const int64_t *own_examples;
    const ls_class_weight *class_weight; /* borrowed; NULL if examples have no weights but the dataset's */
};
struct ls_pipeline;
ls_status ls_pipeline_new(const struct ls_pipeline_config *config, struct ls_pipeline **pipeline);
void ls_pipeline_free(struct ls_pipeline *pipeline);
int64_t ls_pipeline_steps(const struct ls_pipeline *pipeline);    /* in one epoch */
int64_t ls_pipeline_max_rows(const struct ls_pipeline *pipeline); /* the most that one replica gets in a step */
/* Describes the dataset and this worker's part of it, in one line for people. */
void ls_pipeline_describe(const struct ls_pipeline *pipeline, char *text, size_t size);
/* Goes to a step of an epoch (both from 0). One thread. OUT_OF_RANGE past the end of the epoch. */
ls_status ls_pipeline_seek(struct ls_pipeline *pipeline, int64_t epoch, int64_t step);
/* Of the present step. Any thread, between seeks. */
int64_t ls_pipeline_taken(const struct ls_pipeline *pipeline); /* from its number to the next step's */
int64_t ls_pipeline_global_rows(const struct ls_pipeline *pipeline);
int64_t ls_pipeline_rows(const struct ls_pipeline *pipeline, int local_replica);
/* The kind of the examples' targets. */
const struct ls_target_kind *ls_pipeline_targets(const struct ls_pipeline *pipeline);
/* Returns false for a dataset of features alone: its labels are all 0 and say nothing. */
bool ls_pipeline_is_labelled(const struct ls_pipeline *pipeline);
/* From here on it is as one of a dataset of features alone. */
void ls_pipeline_leave_targets(struct ls_pipeline *pipeline);
/* The values of the bytes that rows lie as; NULL: they are floats. */
const struct ls_pixel_table *ls_pipeline_table(const struct ls_pipeline *pipeline);
/* True if a class has a weight. */
bool ls_pipeline_weighs_classes(const struct ls_pipeline *pipeline);
/* Numbers become labels; INVALID_ARGUMENT of the reading that finds one which is no class. */
/* True if some of these classes, of several an example, are -1: they do not count. */
bool ls_pipeline_leaves_out(const struct ls_pipeline *pipeline);
void ls_pipeline_take_classes(struct ls_pipeline *pipeline);
/* Reads the present step's examples of one replica: features (rows, shape...), targets, host memory. Any thread. */
ls_status ls_pipeline_read(const struct ls_pipeline *pipeline, int local_replica, float *features,
                           const struct ls_targets *targets);
struct ls_pipeline_step {
    int64_t epoch, step;
};
struct ls_pipeline_step ls_pipeline_present(const struct ls_pipeline *pipeline);
/* The step that is read already while the pipeline stands before it; false when there is none. Any thread, between
 * seeks, as what follows: its rows, and its examples, of one replica. */
bool ls_pipeline_next(const struct ls_pipeline *pipeline, struct ls_pipeline_step *next);
int64_t ls_pipeline_next_rows(const struct ls_pipeline *pipeline, int local_replica);
/* As ls_pipeline_read, of the present step (place 0) or the next one (1), where the config has a memory's pin:
 * *features becomes where they lie, until a seek drops their step. Targets are copied. */
ls_status ls_pipeline_find(const struct ls_pipeline *pipeline, int place, int local_replica, const void **features,
                           const struct ls_targets *targets);
