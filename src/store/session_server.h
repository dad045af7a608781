/* A parameter server in a session of asynchronous training. What it has been given and has not applied stays from one
 * generation of the group to the next, so that all servers can bring to an end what one of them has begun. One thread.
 */
#pragma once
#include "base/log.h"
#include "store/holding.h"
#include "store/session.h"

struct ls_session_server;
/* What a session changes. */
struct ls_session_target {
    const struct ls_terms_model *terms;
    struct ls_holding *holding;
    /* Applies the optimizer to all that the server holds, with holding's gradients. */
    ls_status (*apply)(void *context, const struct ls_optimizer_step *step);
    void *context;
    const struct ls_log *log;
    int64_t generation;
    const char *record, *replay; /* files of the order; NULL or empty: none */
};
ls_status ls_session_server_new(struct ls_session_server **server);
void ls_session_server_free(struct ls_session_server *server);
/* Workers have given the variables in this generation: a session that has made them is over. */
void ls_session_server_forget(struct ls_session_server *server, int64_t generation);
/* By all ranks, before a handover: servers that have applied less than others go forward to them, and what is not
 * decided is dropped. A worker has no server. target is that of the generation before, its holding may be NULL. */
ls_status ls_session_server_settle(struct ls_session_server *server, struct ls_group *group,
                                   const struct ls_session_target *target);
/* Serves a session to its end, as rank 0 has told of it. */
ls_status ls_session_server_run(struct ls_session_server *server, struct ls_group *group,
                                const struct ls_session *session, const struct ls_session_target *target);
