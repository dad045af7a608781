/* A fit whose steps are delayed (delayed.h). The steps are one transaction from one moment at which none is under way
 * to the next: the pipeline drains at the end of an epoch, after a step at which a checkpoint may be due, and where
 * somebody asks for a checkpoint or to stop. The fit keeps the state in which the pipeline was empty: where the
 * transaction fails, each worker goes back to it, and so do the servers. Host memory: the model's variables once. */
#pragma once
#include "train/fit.h"

struct ls_delayed_steps;
/* *steps is NULL where steps are not delayed. UNIMPLEMENTED for a model that needs workers to meet in a step. */
ls_status ls_delayed_steps_new(const ls_model *model, struct ls_delayed_steps **steps);
void ls_delayed_steps_free(struct ls_delayed_steps *steps);
/* Before a step: the first one of a transaction keeps the state. */
ls_status ls_delayed_steps_begin(struct ls_fitting *fitting);
/* After a step: drains where it is time to. *met: all workers have the same state, the newest. */
ls_status ls_delayed_steps_end(struct ls_fitting *fitting, bool *met);
/* After a failure: the state is that before the transaction. Returns the failure, with its message. */
ls_status ls_delayed_steps_give_up(struct ls_fitting *fitting, ls_status status);
