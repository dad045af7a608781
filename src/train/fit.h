/* A fit from the inside: where it is, and its part with the callbacks. */
#pragma once
#include "observe/progress.h"
#include "train/training_state.h"

struct ls_fitting {
    ls_model *model;
    ls_dataset *data;
    ls_fit_options options;
    int64_t index; /* of this call */
    struct ls_pipeline *pipeline, *validation;
    int layout; /* the strategy's that they are for */
    struct ls_fit_lines lines;
    char *description;                      /* all lines */
    struct ls_progress *progress;           /* NULL if verbose is 0, or on other ranks */
    struct ls_checkpointing *checkpointing; /* NULL without checkpoints */
    struct ls_callback_list *callbacks;     /* NULL without callbacks */
    struct ls_early_steps *early;           /* NULL before the first step whose pull goes on behind it */
    struct ls_delayed_steps *delayed;       /* NULL where steps are not delayed */
    struct ls_local_steps *local;           /* NULL where workers meet in every step */
    int64_t steps_per_epoch, last_position; /* in portions where batches are scaled */
    bool begun; /* state is that of the group, but for what a failed transaction has left out */
    enum ls_call_stand stand;
    struct ls_fit_state state;
    int64_t ended;       /* epochs whose end callbacks here were told; -1: none yet */
    int64_t told;        /* epochs whose end this process has told; -1: none has been done here */
    int64_t shown;       /* the epoch that the progress line is about */
    int64_t stepped;     /* the position whose step's end callbacks here were told */
    bool repeats;        /* they are told it again */
    bool resumed;        /* fit goes on after a checkpoint, or in another worker's state */
    bool warned;         /* that a loss is no number */
    bool ended_by_user;  /* on_epoch has said so */
    bool timing;         /* the first step here, or the steps before the first meeting, are done */
    int64_t began;       /* when the step, or the first one since a meeting, did; 0: none has */
    int64_t rows_before; /* of the epoch until then, of all workers */
    int64_t timed_samples;
    double timed_seconds; /* both without the first step */
};
