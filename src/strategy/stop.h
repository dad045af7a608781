/* The end of a fit that a worker asked for, as after SIGTERM (tf.distribute's PreemptionCheckpointHandler). The wish
 * travels with the sums of a step (LS_EXTRA_STOP), so all workers see it after the same one. */
#pragma once
#include "strategy/backup.h"

/* Collective, after a committed step of which model->requests.stop is set: the chief saves it, where backup is not
 * NULL, and every worker returns the same status and message: LS_CANCELLED, or why it could not be saved. */
ls_status ls_fit_stop(ls_model *model, struct ls_backup *backup, const struct ls_fit_state *state);
