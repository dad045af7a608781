/* Telling why. */
#pragma once
#include "collective/run/executor.h"

/* Sends the cause to every peer whose link stands between two collectives. It makes one attempt, which never blocks; a
 * peer that cannot be reached will see the link close. */
void ls_failure_frame_send(struct ls_executor *executor, uint64_t generation, ls_status status, const char *cause);
/* True if the frame reports a failure in this rank's generation; the length of the text that follows is noted then. */
bool ls_failure_frame_is_sent(const struct ls_executor *executor, struct ls_executor_peer *peer,
                              const struct ls_frame *frame);
/* The frame and its text are there: the failure is this rank's too. */
void ls_failure_frame_receive(struct ls_executor *executor, struct ls_executor_peer *peer);
