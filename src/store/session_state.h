/* The knowledge of servers of a session: which tickets are done, sums, and statistics. It is alike on all after the
 * same version. A server that comes into a session later gets it from one that was there. */
#pragma once
#include "store/session.h"

struct ls_session_state {
    int64_t version;   /* steps that are in the variables */
    int64_t closing;   /* 1: somebody has asked that the session ends early */
    uint64_t *done;    /* a bit for each ticket */
    float *statistics; /* [statistics] */
    struct ls_session_totals totals;
};
/* At the session's begin. */
ls_status ls_session_state_new(const struct ls_session *session, struct ls_session_state *state);
void ls_session_state_free(struct ls_session_state *state);
/* By all ranks of the group: a rank without (has is false) gets the state of the first server that has it, or else rank
 * 0's. Only servers, and a rank 0 that gives, are to look at it then. */
ls_status ls_session_state_share(struct ls_group *group, const struct ls_session *session, bool has,
                                 struct ls_session_state *state);
