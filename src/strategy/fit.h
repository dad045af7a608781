/* A fit from the inside: where it is, and its part with the callbacks. */
#pragma once
#include "observe/progress.h"
#include "strategy/saved.h"

struct ls_fitting {
    ls_model *model;
    ls_dataset *data;
    ls_fit_options options;
    int64_t index; /* of this call */
    struct ls_pipeline *pipeline, *validation;
    int layout; /* the strategy's that they are for */
    struct ls_fit_lines lines;
    char *description;                      /* all lines */
    struct ls_progress *progress;           /* NULL: silent */
    struct ls_backup *backup;               /* NULL: no checkpoints */
    struct ls_callbacks *callbacks;         /* NULL: there are none */
    int64_t steps_per_epoch, last_position; /* in portions where batches are scaled */
    bool begun; /* state is that of the group, but for what a failed transaction has left out */
    enum ls_call_stand stand;
    struct ls_fit_state state;
    int64_t ended;   /* epochs whose end callbacks here were told; -1: none yet */
    int64_t told;    /* epochs whose end this process has told; -1: none has been done here */
    int64_t shown;   /* the epoch that the progress line is about */
    int64_t stepped; /* the position whose step's end callbacks here were told */
    bool repeats;    /* they are told it again */
    bool resumed;    /* fit goes on after a checkpoint, or in another worker's state */
    bool timing;     /* the first step here is done */
    int64_t timed_samples;
    double timed_seconds; /* both without the first step */
};

/* fit_callbacks.c. Tells them the event with the numbers so far, unless the epoch has none yet. */
ls_status ls_fitting_tell(struct ls_fitting *fitting, enum ls_callback_event event);
/* Where they begin, or go on behind a step whose end they were not told. */
ls_status ls_fitting_begin_callbacks(struct ls_fitting *fitting);
/* Before the epoch is done, so that what callbacks change belongs to it. */
ls_status ls_fitting_end_epoch(struct ls_fitting *fitting);
/* Whether a callback of any worker wishes that there are no more epochs. Collective. */
ls_status ls_fitting_agree_to_stop(struct ls_fitting *fitting, bool *stopped);
