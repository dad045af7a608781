/* The log line of a session's first server that tells who holds up others. One thread. */
#pragma once
#include "base/log.h"
#include "store/session/tickets.h"

struct ls_session_waits {
    int workers;
    double interval; /* seconds between lines, and how long a worker waits before there is one; 0 logs none */
    int64_t due;     /* of the next line */
    int64_t *since;  /* [workers] owns: the time at which each got its ticket, or asked for one */
};
/* Logs the worker that has had its ticket longest, where another one has waited for the interval. staged: [workers]
 * how many of the servers have its push. */
void ls_session_waits_tell(struct ls_session_waits *waits, const struct ls_tickets *tickets, const int *staged,
                           int servers, const struct ls_log *log);
