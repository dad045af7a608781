/* A worker in a session of asynchronous training. One thread. */
#pragma once
#include "store/session/session.h"

struct ls_session_worker;
struct ls_session_worker_config {
    struct ls_group *group; /* of workers and servers; borrowed, as the rest */
    const struct ls_terms_model *terms;
    const struct ls_session *session;
    float *variables; /* [terms.count] and statistics behind them: those of the session's begin; each ticket reads into
                         them */
};
/* Collective, with the servers. */
ls_status ls_session_worker_new(const struct ls_session_worker_config *config, struct ls_session_worker **worker);
void ls_session_worker_free(struct ls_session_worker *worker);
/* Takes a ticket and reads the variables for it. *ticket is LS_NO_TICKET at the session's end: then the variables are
 * the last ones, alike on all workers. */
ls_status ls_session_worker_take(struct ls_session_worker *worker, int64_t *ticket);
/* Gives what the ticket has: gradients as variables lie, changes of statistics behind them; numbers: [session.numbers].
 * closes: this worker asks that the session ends. They are copied. */
ls_status ls_session_worker_give(struct ls_session_worker *worker, float rate, const float *gradients,
                                 const double *numbers, bool closes);
/* Of the whole session, after its end; ended: tickets that are done, the first so many. */
const struct ls_session_totals *ls_session_worker_totals(const struct ls_session_worker *worker, int64_t *ended);
