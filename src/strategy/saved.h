/* The state of a strategy's training as bytes: the calls that are done with their results, where the present fit is,
 * and the model's variables and moments. Recovery copies it; a worker that is started anew takes it up when its program
 * comes to the call that the others are in. */
#pragma once
#include "strategy/backup.h"

/* A call of fit or evaluate on this process. */
struct ls_call {
    ls_model *model;
    ls_dataset *data;
    struct ls_pipeline *pipeline;
    int64_t index;                  /* counts the calls of this process */
    const char *lines;              /* a fit's description; NULL: an evaluation */
    struct ls_callbacks *callbacks; /* of a fit that has some */
};
enum ls_call_stand {
    LS_CALL_NEW,    /* all workers begin it */
    LS_CALL_INSIDE, /* the others are in this fit: *state is where */
    LS_CALL_DONE    /* the others have done it: state->result is its result */
};
/* The call's number, and what recovery copies from now on. */
int64_t ls_training_begin(ls_strategy *strategy, ls_model *model);
/* The model's iteration when its next call begins: of a process that comes back, that at the end of the call before,
 * though the model is further already. */
int64_t ls_training_iteration(const ls_model *model);
/* Takes up what was inherited, as far as the call can. */
ls_status ls_training_resume(const struct ls_call *call, struct ls_fit_state *state, enum ls_call_stand *stand);
/* The fit of this call has its state, and commits steps from now on. Borrows state, and the call's lines and callbacks.
 */
void ls_training_start(const struct ls_call *call, struct ls_fit_state *state);
/* The present call is done, with this result. */
ls_status ls_training_end(ls_strategy *strategy, const ls_result *result);
/* The model is about to be freed; its state stays for those who lack it. */
void ls_training_part(ls_model *model);
