/* A fit whose steps pull the variables while the next one begins (early.h). A step is done when its pull is: until then
 * the fit keeps what it was before the step, and goes back there if the pull fails. */
#pragma once
#include "train/fit.h"

/* Before a step: keeps what the fit is. */
ls_status ls_early_steps_begin(struct ls_fitting *fitting);
/* After a step, whose gradients are of the whole variables of the one before: that is done now. Waits for this one's
 * pull where its variables are needed. *met: it is done too. */
ls_status ls_early_steps_end(struct ls_fitting *fitting, bool *met);
/* After a failure: the fit stands behind the last step whose pull was whole. Returns the failure, with its message. */
ls_status ls_early_steps_give_up(struct ls_fitting *fitting, ls_status status);
void ls_early_steps_free(struct ls_early_steps *steps);
