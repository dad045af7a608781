/* The training of a strategy: its models and the calls of fit, evaluate and predict on them. A worker that is started
 * anew does not repeat the calls that are done: it takes their results. */
#pragma once
#include "strategy/participant.h"
#include "train/model.h"

struct ls_fit_state;
struct ls_callback_list;
struct ls_predict_cache;
/* Written by the caller's thread alone. */
struct ls_training {
    struct ls_participant participant;
    ls_strategy *strategy;              /* borrowed */
    ls_model *models;                   /* borrowed: all that are not freed yet, linked by next, the oldest first */
    int64_t numbered;                   /* models that have had a call */
    ls_model *model;                    /* of the last call; NULL before the first one, or if it is freed */
    struct ls_fit_state *fit;           /* of the fit whose steps have begun; NULL if none has */
    struct ls_callback_list *callbacks; /* that fit's; NULL without callbacks */
    const char *lines;                  /* that fit's description */
    ls_result *results;                 /* [room], of which done are filled */
    struct ls_predict_cache *outputs;   /* owns: of the calls of predict that are done; NULL if none are kept */
    int64_t room, done, made;           /* calls that are done; calls that this process has come to */
    struct ls_bytes kept;               /* owns: the state as it was when model was freed; data is NULL otherwise */
};

/* A call of fit, evaluate or predict on this process. */
struct ls_training_call {
    ls_model *model;
    ls_dataset *data;
    struct ls_pipeline *pipeline;
    int64_t index;                      /* counts the calls of this process */
    const char *lines;                  /* a fit's description; NULL for an evaluation or a prediction */
    struct ls_callback_list *callbacks; /* of a fit that has some */
};
/* The model becomes one of the strategy's training, which is made for the first one. */
ls_status ls_training_add(ls_model *model);
/* The model is about to be freed; its state stays for those who lack it. */
void ls_training_remove(ls_model *model);
/* The call's number. The model's first call gives it its number, by which a
 * worker that is started anew finds its state. */
int64_t ls_training_begin(ls_model *model);
/* The model's iteration when its next call begins: of a process that comes back, that at the end of the call before,
 * though the model is further already. */
int64_t ls_training_iteration(const ls_model *model);
/* The fit of this call has its state, and commits steps from now on. Borrows state, and the call's lines and callbacks.
 */
void ls_training_start(const struct ls_training_call *call, struct ls_fit_state *state);
/* The number of the present fit (ls_fit_state.run); 0 where none is in its steps. */
uint64_t ls_training_run(const ls_model *model);
/* The fit has ended, or has failed. */
void ls_training_leave_fit(ls_strategy *strategy);
/* The present call is done, with this result. */
ls_status ls_training_end(ls_strategy *strategy, const ls_result *result);
/* Before the end of a call of predict: outputs (rows, width), copied for those who come back when the others have gone
 * on. Nothing where nobody can. */
ls_status ls_training_keep(ls_strategy *strategy, int64_t rows, int64_t width, const float *outputs);
/* Of a call that is done. Borrowed. FAILED_PRECONDITION where they are not kept. */
ls_status ls_training_outputs(const ls_strategy *strategy, int64_t index, const struct ls_predict_cache **outputs);
