/* Errors: a status code and this thread's message. The function that decides which error it is calls ls_fail; a layer
 * that knows more calls ls_fail_context once; everyone else only returns the status. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_ERROR_SIZE 1024 /* bytes of a message, the terminating zero included; longer ones are cut */

/* Writes this thread's message and returns status. */
ls_status ls_fail(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before this thread's message and returns status. */
ls_status ls_fail_context(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* RESOURCE_EXHAUSTED, naming what could not be allocated. */
ls_status ls_fail_memory(const char *what, size_t bytes);
/* The status of a failed system call, for messages that name path and cause. */
ls_status ls_errno_status(int error);
