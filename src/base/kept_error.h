/* An error that is raised later, or by another thread: a status with its message. A field of zeros has kept none.
 * Threads that share one lock it. */
#pragma once
#include "base/status.h"

struct ls_kept_error {
    ls_status status; /* LS_OK: none */
    char message[LS_ERROR_SIZE];
};
/* Status with this thread's message, which is there also with LS_OK. */
struct ls_kept_error ls_kept_error_of(ls_status status);
/* Keeps status in the place of what was kept, an error with this thread's message. */
void ls_kept_error_set(struct ls_kept_error *kept, ls_status status);
/* The same where no error is kept yet. */
void ls_kept_error_first(struct ls_kept_error *kept, ls_status status);
/* Returns the status, with its message as this thread's. LS_OK leaves this thread's message alone. */
ls_status ls_kept_error_raise(const struct ls_kept_error *kept);
