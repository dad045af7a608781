/* The state of a strategy's training as bytes: the calls that are done with their results, where the present fit is,
 * and the model's variables and moments. Recovery copies it; a worker that is started anew takes it up when its program
 * comes to the call that the others are in. */
#pragma once
#include "strategy/backup.h"
#include "strategy/kept.h"

/* A call of fit, evaluate or predict on this process. */
struct ls_call {
    ls_model *model;
    ls_dataset *data;
    struct ls_pipeline *pipeline;
    int64_t index;                  /* counts the calls of this process */
    const char *lines;              /* a fit's description; NULL: an evaluation or a prediction */
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
/* Before the end of a call of predict: outputs (rows, width), copied for those who come back when the others have gone
 * on. Nothing where nobody can. */
ls_status ls_training_keep(ls_strategy *strategy, int64_t rows, int64_t width, const float *outputs);
/* Of a call that is done. Borrowed. FAILED_PRECONDITION where they are not kept. */
ls_status ls_training_outputs(const ls_strategy *strategy, int64_t index, const struct ls_kept **outputs);
/* The model is about to be freed; its state stays for those who lack it. */
void ls_training_part(ls_model *model);
