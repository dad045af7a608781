/* Errors of the command's own. */
#include <lockstep/tools.h>

#include "base/need.h"
#include "base/status.h"

ls_status ls_tools_fail(ls_status status, const char *text) {
    LS_NEED(text);
    return ls_fail(status, "%s", *text ? text : ls_status_name(status));
}
