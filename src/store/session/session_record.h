/* The order of asynchronous training, as the first server appends it to a file (LOCKSTEP_RECORD). A ticket's gradients
 * follow from the ticket and from the versions of the variables that it has read. So the same order gives the same
 * bits.
 *
 * A line "session BEGIN TICKETS SERVERS WORKERS STEP" opens a session, or what a generation adds to it behind that
 * step: a server that was lost may have written more than the others have. Then a line "TICKET FACTOR VERSION..." for
 * each decision, in their order, with the version that was read on each server. */
#pragma once
#include <stdio.h>

#include "store/session/session.h"

struct ls_session_record {
    FILE *file; /* NULL: nothing is recorded */
    int servers;
    const char *path; /* borrowed */
};
/* Appends to the file what comes after the version. NULL or empty path: nothing happens. In any case it is closed. */
ls_status ls_session_record_open(const char *path, const struct ls_session *session, int servers, int workers,
                                 int64_t version, struct ls_session_record *record);
/* versions: [servers]. */
ls_status ls_session_record_add(const struct ls_session_record *record, int64_t ticket, float factor,
                                const int64_t *versions);
ls_status ls_session_record_close(struct ls_session_record *record);

/* The order of a record, which the first server keeps again (LOCKSTEP_REPLAY). */
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
