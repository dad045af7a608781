/* A fit in which workers train alone between meetings (LocalSGDStrategy): local SGD (Stich 2018) and DiLoCo (Douillard
 * et al. 2023). The steps from one meeting to the next are one transaction of the fit. It keeps the state in which the
 * workers left the last meeting: where the transaction fails, each worker goes back to it. Host memory: two states of
 * the model, one of them during a meeting. Bytes on the links in sync_every steps: those of one all-reduce of the
 * variables, and of one of each moment unless these are local. */
#pragma once
#include "train/fit.h"

struct ls_local_steps;
/* *local is NULL where workers meet in every step. UNIMPLEMENTED for a model that needs them to. */
ls_status ls_local_steps_new(const ls_model *model, struct ls_local_steps **local);
void ls_local_steps_free(struct ls_local_steps *local);
/* Before a step: the first one after a meeting keeps the state. Fails where another worker is lost. */
ls_status ls_local_steps_begin(struct ls_fitting *fitting);
/* Takes the sums of the step's examples on this worker, which the fit's sums have too. */
void ls_local_steps_add(struct ls_local_steps *local, const struct ls_loss_sums *sums);
/* After a step: the workers meet where it is time to. *met: all have the same state. */
ls_status ls_local_steps_end(struct ls_fitting *fitting, bool *met);
/* After a failure: the state is that of the last meeting. Returns the failure, with its message. */
ls_status ls_local_steps_give_up(struct ls_fitting *fitting, ls_status status);
