/* Asynchronous training in fit: sessions of tickets (store/session.h). All workers meet at the end of a session: of an
 * epoch, where a checkpoint is due, and where somebody has asked to save or to stop. A session is one transaction of a
 * fit; the servers know which of its tickets are done, so that a worker that is lost, or comes back, repeats none. */
#pragma once
#include "train/fit.h"

/* The session after the fit's position. Collective, with the servers. */
ls_status ls_sessions_run(struct ls_fitting *fitting);
