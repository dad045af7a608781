/* The pull of a step that goes on while the next one begins (ParameterServerStrategy in step): a forward pass waits,
 * layer by layer, for the variables that it reads. New variables arrive where the gradients were. The communicator's
 * thread exchanges each range of them with the old variables. If a pull fails, all old variables are still there, and
 * ls_early_detach puts them back to their place. No gradient is written before the whole pull is there. */
#pragma once
#include "train/model.h"

/* Parts of ls_sync_servers. A step waits for its pull with one bucket, regularisers, statistics that replicas exchange,
 * and sparse tables: model->bound.early stays NULL then. The gradients are placed. */
ls_status ls_early_attach(ls_model *model, struct ls_reducer_config *config);
/* The variables are whole then, and model->progress.whole is their step. */
void ls_early_detach(ls_model *model);
void ls_early_begin(ls_model *model);
/* Waits for the step's sums, and leaves the extras in model->bound.extras. */
ls_status ls_early_given(ls_model *model);
/* Waits for the whole pull of the last step. */
ls_status ls_early_settle(const ls_model *model);
