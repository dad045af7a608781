/* A rank tells the others of its host, beside the meetings, which call it makes over links, that it has failed, and
 * that it has gone. They look while they wait for it in memory, so they need no link with it. */
#pragma once
#include "collective/run/executor.h"
#include "collective/shm/shared.h"

/* Before a call over links. */
void ls_notice_call(const struct ls_shared *shared, const struct ls_frame *frame);
/* Once: no call comes any more, for that cause; LS_OK: the rank frees its group. */
void ls_notice_end(const struct ls_shared *shared, ls_status status, const char *cause);
/* Looks at a rank of the host, by its place there, that has not come to the call of the executor. Returns an error
 * where it makes another call; notes trouble with the executor where no call comes from it. */
ls_status ls_notice_look(const struct ls_shared *shared, struct ls_executor *executor, int place);
