/* The batches of a fit's next step. */
#pragma once
#include "train/fit.h"

/* Takes the user's request, which the step's report carries to the other workers. */
void ls_fit_batches_ask(const struct ls_fitting *fitting);
/* Trains with the batches behind the fit's position: as many as the optimizer takes, and no more than the epoch still
 * has. *taken is how far they go. */
ls_status ls_fit_batches_run(struct ls_fitting *fitting, int64_t *taken, struct ls_loss_sums *sums);
