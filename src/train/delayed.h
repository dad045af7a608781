/* Steps that go on while the next ones are computed (ParameterServerStrategy, LS_DELAYED): a step's gradients are of
 * the variables before the last delay steps. The reducer copies the gradients of a step into a lane, from
 * where the communicator's thread pushes them; the new variables come back into it. A worker puts the versions in place
 * one after the other, each behind the same step on all workers: the bits do not depend on time. Host memory: delay + 1
 * lanes of 4 (blob + extras) bytes for each replica.
 *
 * The first step after the lanes were empty is told to the servers as one before which they keep what is there: all go
 * back to that version after a loss (delayed_steps.h). */
#pragma once
#include "train/model.h"

struct ls_delayed;
/* *delayed is NULL where steps are not delayed. The store is open. */
ls_status ls_delayed_new(ls_model *model, struct ls_delayed **delayed);
/* The reducer is freed. NULL is nothing. */
void ls_delayed_free(struct ls_delayed *delayed);
/* Adds its part to what the reducer is made of. */
void ls_delayed_configure(struct ls_delayed *delayed, struct ls_reducer_config *config);
/* The model's present step begins, whose numbers are known. */
void ls_delayed_begin(struct ls_delayed *delayed);
/* The step that began last is given by all replicas. If more than delay steps are under way it takes
 * the oldest one; else sums become zero. */
ls_status ls_delayed_end(struct ls_delayed *delayed, struct ls_loss_sums *sums);
/* Waits for the oldest step under way, puts its variables in place, and gives its sums. Requests of it become the
 * model's. Once for each step: false in *any where none is under way. */
ls_status ls_delayed_take(struct ls_delayed *delayed, struct ls_loss_sums *sums, bool *any);
/* Waits until nothing is on the wire. */
ls_status ls_delayed_settle(struct ls_delayed *delayed);
