/* The state of a strategy's training as bytes: the calls that are done with their results, where the present fit is,
 * and each model's variables and moments. Recovery copies it; a worker that is started anew takes it up when its
 * program comes to the call that the others are in. */
#pragma once
#include "train/checkpointing.h"
#include "train/predict_cache.h"
#include "train/training.h"

/* The training's part of the state; the context is a struct ls_training. */
ls_status ls_training_state_encode(void *context, struct ls_bytes *bytes, void **made);
/* Calls ls_training_begin. Recovery copies the training's state from now on. */
int64_t ls_training_state_begin(ls_model *model);

enum ls_call_stand {
    LS_CALL_NEW,    /* all workers begin it */
    LS_CALL_INSIDE, /* the others are in this fit: *state is where */
    LS_CALL_DONE    /* the others have done it: state->result is its result */
};
/* Takes up what was inherited, as far as the call can. A fit that has started is inside, with the state that it has. */
ls_status ls_training_state_resume(const struct ls_training_call *call, struct ls_fit_state *state,
                                   enum ls_call_stand *stand);
