/* A fit from the inside: where it is, and its part with the callbacks. */
#pragma once
#include "observe/progress.h"
#include "train/checkpointing.h"
#include "train/model.h"
#include "train/training_state.h"

/* A moment is where a fit stood between two steps, but for the variables. A step that fails goes back to it. */
struct ls_fit_moment {
    struct ls_training_progress progress; /* and its fit's */
    void *callbacks;                      /* their states; NULL: none is kept, or there are none */
};
/* A stretch is several steps that are one transaction: from one moment at which all workers have one state to the next.
 */
struct ls_fitting;
struct ls_fit_stretch {
    const char *where;                        /* it begins: "the workers' last meeting" */
    void (*stop)(struct ls_fitting *fitting); /* before the state is put back: ends what still uses the group */
    float *state;                             /* at its begin, of LS_PARTS_HERE */
    struct ls_fit_moment moment;              /* likewise */
    struct ls_fit_moment next;                /* before the step after it, which begins while it is open */
    bool open;                                /* a step has begun since then */
};

struct ls_fitting {
    ls_model *model;
    ls_dataset *data;
    ls_fit_options options;
    int64_t index;                     /* of this call */
    struct ls_training_progress first; /* the model's, at the call */
    struct ls_pipeline *pipeline, *validation;
    int layout; /* the strategy's that they are for */
    struct ls_fit_lines lines;
    struct ls_progress *progress;           /* NULL if verbose is 0, or on other ranks */
    struct ls_checkpointing *checkpointing; /* NULL without checkpoints */
    struct ls_callback_list *callbacks;     /* NULL without callbacks */
    struct ls_fit_stretch stretch;
    void *kept;                             /* by the way from gradients to variables; NULL: nothing */
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
    double timed_seconds; /* both without the first step; of asynchronous training with it */
};

/* The position at which the present epoch ends. */
int64_t ls_fit_epoch_end(const struct ls_fitting *fitting);

/* fit_anew.c. A result without numbers. */
ls_result ls_fit_anew_result(const ls_model *model);
/* At the call's begin: notes whether the fit could begin anew, in model->progress.returns. */
void ls_fit_anew_prepare(struct ls_fitting *fitting);
/* At its end: what is lost behind it is lost. */
void ls_fit_anew_end(ls_model *model);
/* After a failure: nobody has some of the state any more, and all go back to a checkpoint. */
bool ls_fit_anew_is_due(const struct ls_fitting *fitting, ls_status status);
/* Before that recovery. */
void ls_fit_anew_forget(struct ls_fitting *fitting);

/* The numbers of a fit: the sums of examples, and the workers' requests. */

/* The result becomes the means of the epoch so far. */
void ls_fit_numbers_show(struct ls_fitting *fitting);
/* A worker that trains apart tells these numbers. Those of all workers are added up. */
void ls_fit_numbers_write(const struct ls_loss_sums *sums, const struct ls_requests *requests,
                          double numbers[LS_FIT_NUMBERS]);
/* Adds what all have told to the epoch's sums. Requests in it become the model's. */
void ls_fit_numbers_take(struct ls_fitting *fitting, const double numbers[LS_FIT_NUMBERS]);

/* The batches of a fit's next step. */

/* Takes the user's request, which the step's report carries to the other workers. */
void ls_fit_batches_ask(const struct ls_fitting *fitting);
/* Trains with the batches behind the fit's position: as many as the optimizer takes, and no more than the epoch still
 * has. *taken is how far they go. */
ls_status ls_fit_batches_run(struct ls_fitting *fitting, int64_t *taken, struct ls_loss_sums *sums);

/* The callbacks' part of a fit. */

/* fit_callbacks.c. Tells them the event with the numbers so far, unless the epoch has none yet. */
ls_status ls_fit_callbacks_tell(struct ls_fitting *fitting, enum ls_callback_event event);
/* Tells the callbacks that fit begins, or resumes behind a step whose end they were not told. */
ls_status ls_fit_callbacks_begin(struct ls_fitting *fitting);
/* Before the epoch is done, so that what callbacks change belongs to it. */
ls_status ls_fit_callbacks_end_epoch(struct ls_fitting *fitting);
/* *stopped: a callback of any worker wishes to end fit after this epoch. Collective. */
ls_status ls_fit_callbacks_agree_to_stop(struct ls_fitting *fitting, bool *stopped);

/* Of now. A failure keeps nothing. */
ls_status ls_fit_moment_keep(struct ls_fit_moment *moment, const struct ls_fitting *fitting);
void ls_fit_moment_go_back(const struct ls_fit_moment *moment, struct ls_fitting *fitting);
void ls_fit_moment_forget(struct ls_fit_moment *moment);

/* Before a step: the first one of a stretch keeps the state. */
ls_status ls_fit_stretch_begin(struct ls_fitting *fitting);
int64_t ls_fit_stretch_steps(const struct ls_fitting *fitting); /* since its begin */
/* After a failure: the state is that before the stretch. Returns the failure, with its message. */
ls_status ls_fit_stretch_go_back(struct ls_fitting *fitting, ls_status status);
/* The stretch is over. */
void ls_fit_stretch_forget(struct ls_fit_stretch *stretch);

/* Advice on options that are valid and probably not intended. The first worker logs it once before training begins. */

void ls_advice_give(const ls_model *model, const ls_dataset *data);

/* The end of a fit that a worker asked for, as after SIGTERM (tf.distribute's PreemptionCheckpointHandler). The wish
 * travels with the sums of a step (LS_EXTRA_STOP), so all workers see it after the same one. */

/* Collective, after a committed step of which model->progress.requests.stop is set: the chief saves it, where
 * checkpointing is not NULL, and every worker returns LS_CANCELLED with the same message, which says where the
 * checkpoint is, or why it could not be saved. Another status: a loss in the meeting. */
ls_status ls_preemption_stop(ls_model *model, struct ls_checkpointing *checkpointing, const struct ls_fit_state *state);
/* After a wait that was given up (user_request.h), by each worker alone: the chief saves the last committed step, where
 * checkpointing is not NULL. Returns LS_CANCELLED with this thread's error, the step, and the folder, or why it could
 * not be saved. */
ls_status ls_preemption_give_up(const ls_model *model, struct ls_checkpointing *checkpointing,
                                const struct ls_fit_state *state);

/* The promise of equal copies, checked. */

/* DATA_LOSS naming the replicas when copies of the variables differ anywhere. */
ls_status ls_replica_check(ls_model *model);

/* Evaluation of a built model (tf.keras.Model.evaluate): a call of its own, and a fit's validation. */

/* Over the pipeline's whole data: *sums are those of all replicas. Collective. */
ls_status ls_evaluate_run(ls_model *model, struct ls_pipeline *pipeline, struct ls_loss_sums *sums);
/* The call of fit or evaluate on a parameter server, until the workers end: the numbers are theirs, and *result is
 * empty.
 */
ls_status ls_evaluate_serve(ls_strategy *strategy, const ls_result *empty, ls_result *result);

/* Device memory of training. */

/* RESOURCE_EXHAUSTED where this worker may not have the host memory of a model whose network is made. */
ls_status ls_memory_report_check(const ls_model *model);
/* Fills what result tells of it; and a line for people, where the device has told. */
void ls_memory_report_fill(const ls_model *model, ls_result *result);
void ls_memory_report_log(const ls_model *model, const ls_result *result);

/* A model that begins with weights from a file, by Keras' names. */

/* Copies the file's weights over the initial values in a blob, and in copies of sparse tables. Does nothing without a
 * file. */
ls_status ls_initial_weights_take(const ls_model *model, float *blob);
void ls_initial_weights_free(struct ls_initial_weights *initial);
