/* Waiting. */
#pragma once
#include "collective/run/executor.h"

/* Lengthens the wait of this rank a little: its peers wait for others in turn, and give up first, so it hears the cause
 * from them. */
void ls_wait_be_patient(struct ls_executor *executor);
/* Notes the first trouble, a failed link (LS_OK) or a refused frame; from then on a short grace is left for its cause
 * to be heard of. */
void ls_wait_trouble(struct ls_executor *executor, const struct ls_executor_peer *peer, ls_status status);
/* After nothing moved and a verdict of LS_OK: comes back at once a few times, then blocks until a link moves, the
 * abort flag is raised, or it is time to report or to give up. */
void ls_wait_for_links(struct ls_executor *executor);
/* Between two calls: peeks again for a moment at the frame that opens the rank's next one, where that was worth it
 * before. As of ls_executor_peek. */
ls_status ls_wait_look(struct ls_executor *executor, int rank, struct ls_frame *frame, bool *whole);
/* Something moved: the wait, if there was one, is over. */
void ls_wait_moved(struct ls_executor *executor);
/* LS_OK to go on. */
ls_status ls_wait_verdict(struct ls_executor *executor);
