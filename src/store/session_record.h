/* The order of asynchronous training, as the first server appends it to a file (LOCKSTEP_RECORD). A ticket's gradients
 * follow from the ticket and from the versions of the variables that it has read. So the same order gives the same
 * bits.
 *
 * A line "session BEGIN TICKETS SERVERS WORKERS STEP" opens a session, or what a generation adds to it behind that
 * step: a server that was lost may have written more than the others have. Then a line "TICKET FACTOR VERSION..." for
 * each decision, in their order, with the version that was read on each server. */
#pragma once
#include "store/session.h"

struct ls_session_record;
/* Appends to the file what comes after the version. NULL path: *record stays NULL, and nothing is written. */
ls_status ls_session_record_open(const char *path, const struct ls_session *session, int servers, int workers,
                                 int64_t version, struct ls_session_record **record);
/* versions: [servers]. record may be NULL. */
ls_status ls_session_record_add(struct ls_session_record *record, int64_t ticket, float factor,
                                const int64_t *versions);
ls_status ls_session_record_close(struct ls_session_record *record); /* frees it */
