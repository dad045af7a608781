/* The end of a fit that a worker asked for, as after SIGTERM (tf.distribute's PreemptionCheckpointHandler). The wish
 * travels with the sums of a step (LS_EXTRA_STOP), so all workers see it after the same one. */
#pragma once
#include "train/checkpointing.h"

/* Collective, after a committed step of which model->progress.requests.stop is set: the chief saves it, where
 * checkpointing is not NULL, and every worker returns LS_CANCELLED with the same message, which says where the
 * checkpoint is, or why it could not be saved. Another status: a loss in the meeting. */
ls_status ls_preemption_stop(ls_model *model, struct ls_checkpointing *checkpointing, const struct ls_fit_state *state);
/* After a wait that was given up (user_request.h), by each worker alone: the chief saves the last committed step, where
 * checkpointing is not NULL. Returns LS_CANCELLED with this thread's error, the step, and the folder, or why it could
 * not be saved. */
ls_status ls_preemption_give_up(const ls_model *model, struct ls_checkpointing *checkpointing,
                                const struct ls_fit_state *state);
