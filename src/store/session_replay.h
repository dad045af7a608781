/* The order of a record (session_record.h), which the first server keeps again (LOCKSTEP_REPLAY). */
#pragma once
#include "store/session.h"

struct ls_session_replay;
/* Reads all of the session. NULL path: *replay stays NULL. FAILED_PRECONDITION: the record is of other servers, of more
 * workers or of another session. */
ls_status ls_session_replay_open(const char *path, const struct ls_session *session, int servers, int workers,
                                 struct ls_session_replay **replay);
void ls_session_replay_free(struct ls_session_replay *replay);
/* The next ticket that reads the first server's variables at this version; LS_NO_TICKET: none does any more. versions:
 * [servers] what it reads on each. */
int64_t ls_session_replay_next(const struct ls_session_replay *replay, int64_t version, int64_t *versions);
/* That ticket has read on the server; on the first one when it is given. Returns false if it was not to. */
bool ls_session_replay_read(struct ls_session_replay *replay, int64_t ticket, int server, int64_t version);
/* Returns true if all workers that read at this version have read, and the ticket is the one to be decided then. */
bool ls_session_replay_may(const struct ls_session_replay *replay, int64_t version, int64_t *ticket, float *factor);
