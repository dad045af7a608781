/* The pull of a step that goes on while the next one begins (ParameterServerStrategy in step): a forward pass waits,
 * layer by layer, for the variables that it reads. New variables arrive where the gradients were. The communicator's
 * thread exchanges each range of them with the old variables. If a pull fails, all old variables are still there, and
 * ls_early_free puts them back to their place. No gradient is written before the whole pull is there. */
#pragma once
#include "train/model.h"

struct ls_early;
/* *early is NULL where a step waits for its pull: one bucket, regularisers, statistics that replicas exchange, delayed
 * steps, and where servers keep nothing. The gradients are placed. */
ls_status ls_early_new(ls_model *model, struct ls_early **early);
/* The reducer is freed. The variables are whole then, and model->progress.whole is their step. NULL is nothing. */
void ls_early_free(struct ls_early *early);
/* Adds its part to what the reducer is made of. */
void ls_early_configure(struct ls_early *early, struct ls_reducer_config *config);
/* The model's present step begins, whose numbers are known. */
void ls_early_begin(struct ls_early *early);
/* All replicas have given the step: waits for its sums, and leaves the extras in model->bound.extras. */
ls_status ls_early_end(struct ls_early *early);
/* As of ls_plan_await_fn: waits for variables of the last step that ended. */
ls_status ls_early_await(void *early, size_t end);
/* Waits for its whole pull. NULL is nothing. */
ls_status ls_early_settle(struct ls_early *early);
