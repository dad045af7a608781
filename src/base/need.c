/* The message names the argument as the header does. */
#include "base/need.h"

#include <string.h>

#include "base/status.h"

bool ls_need(const char *function, const char *names, const bool *there) {
    while (*there) {
        names = strchr(names, ',');
        if (!names) return true;
        names += strspn(names, ", ");
        there++;
    }
    (void)ls_fail(LS_INVALID_ARGUMENT, "%s: %.*s is NULL", function, (int)strcspn(names, ","), names);
    return false;
}
