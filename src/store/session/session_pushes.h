/* The pushes that a server has got in sessions of asynchronous training, and its decisions on them. They stay from one
 * generation of the group to the next, so that all servers can bring to an end what one of them has begun. One thread.
 */
#pragma once
#include "base/log.h"
#include "shard/holding.h"
#include "store/session/session.h"

/* The variables that a session changes. */
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
/* A push that is here and not decided. */
struct ls_staged {
    int64_t ticket, version; /* LS_NO_TICKET: none; of the first server's variables that it was computed with */
    int64_t generation;      /* in which it came: in another one the ticket may be computed anew */
    float rate;
    bool closes;
    unsigned char *bytes; /* owned: a head, what the server holds of the gradients, statistics, numbers */
};
/* A decision. */
struct ls_decided {
    int64_t version, ticket, generation;
    float factor;
};
struct ls_session_pushes {
    struct ls_session session;
    bool open;
    struct ls_session_state state;
    struct ls_staged *staged;   /* [workers] of the generation */
    struct ls_decided *history; /* [workers] by version: others may be behind by no more */
    int64_t last; /* the generation of the newest decision on the variables, or in which workers gave them; 0: none */
    int64_t joined, done; /* the newest generation that it was in, and the newest whose division it has */
    int workers;
};
ls_status ls_session_pushes_new(struct ls_session_pushes **server);
void ls_session_pushes_free(struct ls_session_pushes *server);
/* Workers have given the variables in this generation: a session that has made them is over. */
void ls_session_pushes_forget(struct ls_session_pushes *server, int64_t generation);
/* The variables are divided as in this generation: what was staged for another division is of no use. */
void ls_session_pushes_divide(struct ls_session_pushes *server, int64_t generation);
/* Ends the session, and drops what is staged. */
void ls_session_pushes_close(struct ls_session_pushes *server);
/* Makes places for so many workers; drops what is staged. */
ls_status ls_session_pushes_prepare(struct ls_session_pushes *server, int workers);
/* Floats of the model that a push brings to the server. */
size_t ls_session_pushes_floats(const struct ls_session_target *target);
/* Makes the decision on what is staged, and frees it. factor 0: it is dropped. */
ls_status ls_session_pushes_decide(struct ls_session_pushes *server, const struct ls_session_target *target,
                                   struct ls_staged *staged, float factor);

/* A parameter server in a session of asynchronous training, as rank 0 has told of it. One thread. */

/* Serves it to its end. */
ls_status ls_session_server_run(struct ls_session_pushes *server, struct ls_group *group,
                                const struct ls_session *session, const struct ls_session_target *target);

/* The agreement of servers when a generation begins. Servers that have applied less than others go forward to them.
 * They keep what they have got until all have what they need: a loss on the way begins this anew. Then the next session
 * drops it, and gives its tickets anew. A server that comes gets the session here, before the handover gives it the
 * variables. */

/* By all ranks, before a handover; a worker has no server. target is that of the generation before, its holding may be
 * NULL. */
ls_status ls_session_settle_run(struct ls_session_pushes *server, struct ls_group *group,
                                const struct ls_session_target *target);
