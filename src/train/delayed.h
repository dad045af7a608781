/* Steps that go on while the next ones are computed (ParameterServerStrategy, LS_DELAYED): a step's gradients are of
 * the variables before the last delay steps. The reducer copies the gradients of a step into a lane, from
 * where the communicator's thread pushes them; the new variables come back into it. A worker puts the versions in place
 * one after the other, each behind the same step on all workers: the bits do not depend on time. Host memory: delay + 1
 * lanes of 4 (blob + extras) bytes for each replica.
 *
 * The first step after the lanes were empty is told to the servers as one before which they keep what is there: all go
 * back to that version after a loss (sync_delayed.c). */
#pragma once
#include "train/model.h"

/* Parts of ls_sync_delayed. The store is open. */
ls_status ls_delayed_attach(ls_model *model, struct ls_reducer_config *config);
void ls_delayed_detach(ls_model *model);
void ls_delayed_begin(ls_model *model);
/* If more than delay steps are under way it takes the oldest one; else sums become zero. */
ls_status ls_delayed_commit(ls_model *model, struct ls_loss_sums *sums);
ls_status ls_delayed_settle(const ls_model *model);
/* Waits for the oldest step under way, puts its variables in place, and gives its sums. Requests of it become the
 * model's. Once for each step: false in *any where none is under way. */
ls_status ls_delayed_take(ls_model *model, struct ls_loss_sums *sums, bool *any);
