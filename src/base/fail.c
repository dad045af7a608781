/* The words of errors. status.c keeps them, or a plugin's own status.c. */
#include "base/status.h"

#include "base/plain.h"

ls_status ls_fail(ls_status status, const char *format, ...) {
    char message[LS_ERROR_SIZE]; /* the arguments may contain ls_error() itself */
    (void)LS_PLAIN_ARGUMENTS(message, sizeof(message), format);
    ls_error_keep(message);
    return status;
}

ls_status ls_fail_context(ls_status status, const char *format, ...) {
    char context[LS_ERROR_SIZE / 2];
    (void)LS_PLAIN_ARGUMENTS(context, sizeof(context), format);
    return ls_fail(status, "%s: %s", context, ls_error());
}

ls_status ls_fail_memory(const char *what, size_t bytes) {
    return ls_fail(LS_RESOURCE_EXHAUSTED, "no memory for %s (%zu bytes)", what, bytes);
}
