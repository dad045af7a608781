/* What a server has been given in a session, and how it becomes variables. Between session_server.c and
 * session_apply.c. */
#pragma once
#include "store/session_server.h"
#include "store/session_state.h"

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
struct ls_session_server {
    struct ls_session session;
    bool open;
    struct ls_session_state state;
    struct ls_staged *staged;   /* [workers] of the generation */
    struct ls_decided *history; /* [workers] by version: others may be behind by no more */
    int64_t last; /* the generation of the newest decision on the variables, or in which workers gave them; 0: none */
    int workers;
};
/* Ends the session, and drops what is staged. */
void ls_session_apply_close(struct ls_session_server *server);
/* Makes places for so many workers; drops what is staged. */
ls_status ls_session_apply_prepare(struct ls_session_server *server, int workers);
/* Floats of the model that a push brings to the server. */
size_t ls_session_apply_floats(const struct ls_session_target *target);
/* Makes the decision on what is staged, and frees it. factor 0: it is dropped. */
ls_status ls_session_apply(struct ls_session_server *server, const struct ls_session_target *target,
                           struct ls_staged *staged, float factor);
void ls_session_apply_drop(struct ls_staged *staged);
