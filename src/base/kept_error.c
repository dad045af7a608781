/* Copies of a thread's message. */
#include "base/kept_error.h"

#include <string.h>

struct ls_kept_error ls_kept_error_of(ls_status status) {
    struct ls_kept_error kept = {.status = status};
    memcpy(kept.message, ls_error(), strlen(ls_error()) + 1);
    return kept;
}

void ls_kept_error_set(struct ls_kept_error *kept, ls_status status) {
    kept->status = status;
    if (status) memcpy(kept->message, ls_error(), strlen(ls_error()) + 1);
}

void ls_kept_error_first(struct ls_kept_error *kept, ls_status status) {
    if (!kept->status) ls_kept_error_set(kept, status);
}

ls_status ls_kept_error_raise(const struct ls_kept_error *kept) {
    return kept->status ? ls_fail(kept->status, "%s", kept->message) : LS_OK;
}
