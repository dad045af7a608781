/* lockstep serve: a parameter server without a model. lockstep train does the same in a ps task. */
#include "cli/commands.h"

#include <lockstep/lockstep.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/signals.h"

static const char about[] =
    "lockstep serve: be a parameter server of a training\n"
    "\n"
    "usage: lockstep serve\n"
    "\n"
    "TF_CONFIG has this task as ps. The server adds gradients for the workers until they have finished, and then ends\n"
    "with 0. It may be started before them or after, and again after it was lost. It needs no data and no model.\n";
static const char more[] =
    "signals:\n"
    "  SIGTERM, SIGINT (Ctrl-C)  it serves until its workers have left, LOCKSTEP_STOP_GRACE at most, and ends with "
    "143\n"
    "                            or 130. A second one ends the process at once\n"
    "\n"
    "environment:\n"
    "  TF_CONFIG         the same cluster as the workers', and the task of type ps\n"
    "  LOCKSTEP_PS       off: there is nothing to do\n"
    "  LOCKSTEP_*        lockstep settings lists the others; token and TLS as the workers have them\n"
    "\n"
    "examples:\n"
    "  TF_CONFIG='{\"cluster\": {\"worker\": [\"a:2222\", \"b:2222\"], \"ps\": [\"c:2222\"]}, \"task\": {\"type\": "
    "\"ps\", \"index\": 0}}' \\\n"
    "    lockstep serve\n"
    "  lockstep run -np 2 --ps 1 -- lockstep train --model mlp --dataset digits\n"
    "\n"
    "exit status: 0 the workers have finished; 143 they have stopped on request, or this server has; 2 a bad command "
    "line\n"
    "or configuration; 138 they were lost, or did not come; 1 anything else.\n";

bool ls_serve_is_due(void) {
    return ls_check_says("\"task_type\": \"ps\"");
}

int ls_serve_run(void) {
    const ls_strategy_options options = {.size = sizeof(options), .request = ls_signals_request};
    ls_server *server = NULL;
    ls_signals_install(true); /* workers save after SIGUSR1, which the launcher sends to all */
    ls_status status = ls_server_new(NULL, NULL, -1, &options, &server);
    if (!status) status = ls_server_join(server);
    int code = ls_signals_exit(status);
    ls_server_free(server);
    return code;
}

int serve_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep serve", argc, argv, about, more, NULL, 0};
    int code = ls_options_read(&line, NULL);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    if (ls_serve_is_due()) return ls_serve_run();
    return ls_usage_error(&line, "TF_CONFIG does not make this process a ps task: lockstep check says what it is");
}
