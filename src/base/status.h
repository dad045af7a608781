/* Errors: a status code and this thread's message. The function that decides the error calls ls_fail. A layer that
 * knows more calls ls_fail_context once. All others only return the status. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_ERROR_SIZE 1024 /* bytes of a message, the terminating zero included; longer ones are cut */

/* Writes this thread's message and returns status. */
ls_status ls_fail(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before this thread's message and returns status. */
ls_status ls_fail_context(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes message this thread's; it may not be part of the one before. */
void ls_error_keep(const char *message);
/* The task of this thread, "worker:1": ls_exit names it where the log is JSON. */
void ls_status_speaks(const char *task);
/* Called before a function of the user's. A status that it returns without a message gets one afterwards from
 * ls_fail_from_user. */
void ls_error_forget(void);
ls_status ls_fail_from_user(ls_status status, const char *function);
/* RESOURCE_EXHAUSTED with a message that names the missing memory. */
ls_status ls_fail_memory(const char *what, size_t bytes);
/* The status of a failed system call, for messages that name path and cause. */
ls_status ls_errno_status(int error);
/* Right after a call has failed: "cannot DOING 'PATH': ..." with that status. */
ls_status ls_fail_errno(const char *doing, const char *path);
