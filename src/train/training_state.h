/* The state of a strategy's training as bytes: the calls that are done with their results, where the present fit is,
 * and each model's variables and moments. Recovery copies it; a worker that is started anew takes it up when its
 * program comes to the call that the others are in. */
#pragma once
#include "train/checkpointing.h"
#include "train/model.h"
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

/* From sums over examples to what people see. */

/* Sums as numbers that replicas or workers add up, and back: counts up to 2^53 are exact in float64. */
enum { LS_RESULT_NUMBERS = 6 + LS_MAX_METRICS, LS_FIT_NUMBERS = LS_RESULT_NUMBERS + 3 };
void ls_result_write_sums(const struct ls_loss_sums *sums, double numbers[LS_RESULT_NUMBERS]);
void ls_result_read_sums(const double numbers[LS_RESULT_NUMBERS], struct ls_loss_sums *sums);
/* The mean loss, with the penalty. */
double ls_result_loss(const ls_model *model, const struct ls_loss_sums *sums);
/* Means over the examples, as a result has them. accuracy is NaN where there is none; metrics has LS_MAX_METRICS. */
void ls_result_means(const ls_model *model, const struct ls_loss_sums *sums, double *loss, double *accuracy,
                     double *metrics);
