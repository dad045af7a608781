/* gRPC logs a line for every mistake of a stranger, with the stranger's bytes as they are, and without a limit.
 * Lockstep reports refusals itself (refusals.h), so these lines do not reach stderr. If the user asks for gRPC's log
 * (GRPC_VERBOSITY), each line is cut and printed in ASCII. The line with which gRPC aborts the process is always
 * printed. */
#include "cluster/rpc/rpc_private.h"

#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(gpr_log_func_args *line) {
    char text[512];
    bool last = strncmp(line->message, "assertion failed", 16) == 0;
    if (!last && !getenv("GRPC_VERBOSITY")) return;
    (void)snprintf(text, sizeof(text), "%s", line->message);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7E) *at = '?';
    (void)fprintf(stderr, "lockstep: gRPC: %s:%d: %s\n", line->file, line->line, text);
}

void ls_rpc_log_take(void) {
    gpr_set_log_function(say);
}
