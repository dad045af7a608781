/* Status names, the message of each thread's last error, and the exit status of a process. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static _Thread_local char last_error[LS_ERROR_SIZE], speaker[32];

static const char *const status_names[] = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};

const char *ls_version(void) {
    return LS_VERSION;
}

const char *ls_status_name(ls_status status) {
    size_t count = sizeof(status_names) / sizeof(status_names[0]);
    return (size_t)status < count ? status_names[status] : "UNKNOWN";
}

const char *ls_error(void) {
    return last_error;
}

void ls_error_keep(const char *message) {
    (void)snprintf(last_error, sizeof(last_error), "%s", message);
}

void ls_status_speaks(const char *task) {
    (void)snprintf(speaker, sizeof(speaker), "%s", task);
}

void ls_error_forget(void) {
    last_error[0] = '\0';
}

ls_status ls_fail_from_user(ls_status status, const char *function) {
    return last_error[0] ? status : ls_fail(status, "%s returned %s", function, ls_status_name(status));
}

/* Of other errors 1. */
static const int exit_statuses[] = {
    [LS_CANCELLED] = 143,                              /* as a shell reports SIGTERM */
    [LS_INVALID_ARGUMENT] = 2, [LS_UNIMPLEMENTED] = 2, /* what was asked for is not there */
    [LS_UNAUTHENTICATED] = 2,                          /* another token or certificate: a restart would not help */
    [LS_UNAVAILABLE] = 138,    [LS_ABORTED] = 138,     [LS_DEADLINE_EXCEEDED] = 138,
};

int ls_exit(ls_status status) {
    const char *format = getenv("LOCKSTEP_LOG_FORMAT");
    struct ls_log log = {.level = LS_LOG_INFO, .json = format && !strcmp(format, "json")};
    ls_log_level level = status == LS_CANCELLED ? LS_LOG_INFO : LS_LOG_ERROR;
    if (status == LS_OK) return 0;
    if (log.json) memcpy(log.name, speaker, sizeof(speaker)); /* for people the launcher's prefix says it */
    ls_log_write(&log, level, "%s: %s", ls_status_name(status), last_error);
    bool listed = (size_t)status < sizeof(exit_statuses) / sizeof(exit_statuses[0]);
    return listed && exit_statuses[status] ? exit_statuses[status] : 1;
}

static const struct {
    int error;
    ls_status status;
} errors[] = {
    {ENOENT, LS_NOT_FOUND},
    {ENOTDIR, LS_NOT_FOUND},
    {EACCES, LS_PERMISSION_DENIED},
    {EPERM, LS_PERMISSION_DENIED},
    {EROFS, LS_PERMISSION_DENIED},
    {ENOSPC, LS_RESOURCE_EXHAUSTED},
    {EDQUOT, LS_RESOURCE_EXHAUSTED},
    {EFBIG, LS_RESOURCE_EXHAUSTED},
    {ENOMEM, LS_RESOURCE_EXHAUSTED},
    {EMFILE, LS_RESOURCE_EXHAUSTED},
    {ENFILE, LS_RESOURCE_EXHAUSTED},
    {EISDIR, LS_FAILED_PRECONDITION},
    {EBUSY, LS_FAILED_PRECONDITION},
    {ENOTEMPTY, LS_FAILED_PRECONDITION},
    {ENAMETOOLONG, LS_FAILED_PRECONDITION},
    {ELOOP, LS_FAILED_PRECONDITION},
};

ls_status ls_errno_status(int error) {
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == error) return errors[i].status;
    return LS_UNKNOWN;
}

ls_status ls_fail_errno(const char *doing, const char *path) {
    int error = errno;
    return ls_fail(ls_errno_status(error), "cannot %s '%s': %s", doing, path, strerror(error));
}
