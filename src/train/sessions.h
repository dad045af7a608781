/* Asynchronous training in fit: sessions of tickets (store/session.h). All workers meet at the end of a session: of an
 * epoch, where a checkpoint is due, and where somebody has asked to save or to stop. A session is one transaction of a
 * fit; the servers know which of its tickets are done, so that a worker that is lost, or comes back, repeats none. */
#pragma once
#include "train/fit.h"

struct ls_sessions;
/* The session after the fit's position. Collective, with the servers. */
ls_status ls_sessions_begin(struct ls_fitting *fitting, struct ls_sessions **sessions);
/* Waits for a ticket of this worker's. *position: of its batch. *over: the session has ended, and all workers have the
 * same variables. */
ls_status ls_sessions_take(struct ls_sessions *sessions, int64_t *position, bool *over);
/* After ls_step_train with that batch: its sums. */
ls_status ls_sessions_give(struct ls_sessions *sessions, const struct ls_loss_sums *sums);
/* After the end: the fit and the model stand behind all that the session has trained. Collective. */
ls_status ls_sessions_end(struct ls_sessions *sessions);
/* Brings the model back to where it stood when the session began, but for the variables, unless it has ended. */
void ls_sessions_free(struct ls_sessions *sessions);
