/* The agreement of servers when a generation begins. Servers that have applied less than others go forward to them.
 * They keep what they have got until all have what they need: a loss on the way begins this anew. Then the next session
 * drops it, and gives its tickets anew. A server that comes gets the session here, before the handover gives it the
 * variables. */
#pragma once
#include "store/session_pushes.h"

/* By all ranks, before a handover; a worker has no server. target is that of the generation before, its holding may be
 * NULL. */
ls_status ls_session_settle_run(struct ls_session_pushes *server, struct ls_group *group,
                                const struct ls_session_target *target);
