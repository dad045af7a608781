/* The log line of a session's first server that tells who holds up others. One thread. */
#pragma once
#include "base/log.h"
#include "store/session/tickets.h"

struct ls_session_waits;
/* interval: seconds between lines, and how long a worker waits before there is one; 0 logs none. */
ls_status ls_session_waits_new(int workers, double interval, struct ls_session_waits **waits);
void ls_session_waits_free(struct ls_session_waits *waits);
/* The worker has got its ticket, or asks for one. */
void ls_session_waits_note(struct ls_session_waits *waits, int worker);
/* The next line is not due before then. */
int64_t ls_session_waits_until(const struct ls_session_waits *waits);
/* Logs the worker that has had its ticket longest, where another one has waited for the interval. staged: [workers]
 * how many of the servers have its push. */
void ls_session_waits_tell(struct ls_session_waits *waits, const struct ls_tickets *tickets, const int *staged,
                           int servers, const struct ls_log *log);
