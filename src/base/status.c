/* Status names, the message of each thread's last error, and the exit status of a process. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static _Thread_local char last_error[LS_ERROR_SIZE];

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

void ls_error_forget(void) {
    last_error[0] = '\0';
}

ls_status ls_fail_from_user(ls_status status, const char *function) {
    return last_error[0] ? status : ls_fail(status, "%s returned %s", function, ls_status_name(status));
}

static int exit_status(ls_status status) {
    switch (status) {
    case LS_OK:
        return 0;
    case LS_CANCELLED: /* as a shell reports SIGTERM */
        return 143;
    case LS_INVALID_ARGUMENT:
    case LS_UNIMPLEMENTED:   /* what was asked for is not there */
    case LS_UNAUTHENTICATED: /* another token or certificate: a restart would not help */
        return 2;
    case LS_UNAVAILABLE:
    case LS_ABORTED:
    case LS_DEADLINE_EXCEEDED:
        return 138;
    default:
        return 1;
    }
}

int ls_exit(ls_status status) {
    const char *format = getenv("LOCKSTEP_LOG_FORMAT");
    const struct ls_log log = {.level = LS_LOG_INFO, .json = format && !strcmp(format, "json")};
    ls_log_level level = status == LS_CANCELLED ? LS_LOG_INFO : LS_LOG_ERROR;
    if (status != LS_OK) ls_log_write(&log, level, "%s: %s", ls_status_name(status), last_error);
    return exit_status(status);
}

ls_status ls_errno_status(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return LS_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return LS_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return LS_RESOURCE_EXHAUSTED;
    case EISDIR:
    case EBUSY:
    case ENOTEMPTY:
    case ENAMETOOLONG:
    case ELOOP:
        return LS_FAILED_PRECONDITION;
    default:
        return LS_UNKNOWN;
    }
}

ls_status ls_fail_errno(const char *doing, const char *path) {
    int error = errno;
    return ls_fail(ls_errno_status(error), "cannot %s '%s': %s", doing, path, strerror(error));
}
