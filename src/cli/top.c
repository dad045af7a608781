/* lockstep top: what the workers of a running training are doing. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char help[] =
    "lockstep top: what the workers of a running training are doing\n"
    "\n"
    "usage: lockstep top [--json] [--interval SECONDS] [--once] HOST:PORT\n"
    "\n"
    "Asks any worker, at its address in TF_CONFIG, who belongs to the cluster, asks all of them twice and prints one\n"
    "table: state, step, and of the time between the two answers the share in no collective (compute), in\n"
    "collectives waiting for others (wait) and in collectives as long as the rank that waits least (wire); who the\n"
    "straggler is, for whom the others wait; collectives and their bytes, resident memory, seconds since the start of\n"
    "the process, and how often it was started anew before that, in this training.\n"
    "On a terminal it goes on until it is interrupted. Training does not notice. Workers that have a token or TLS do\n"
    "not answer.\n"
    "\n"
    "options:\n"
    "  --json              print one JSON object in one line, once\n"
    "  --interval SECONDS  between the two answers (default 1)\n"
    "  --once              once on a terminal, too\n"
    "  --help              print this text\n"
    "\n"
    "examples:\n"
    "  lockstep top host0:2222\n"
    "  lockstep top --json 127.0.0.1:2222 | jq .straggler\n"
    "\n"
    "exit status: 0 success; 2 a bad address or command line; 138 no worker answers there.\n";

static ls_status show(const char *address, double seconds, bool json, bool again) {
    char *text = NULL;
    ls_status status = ls_tools_top(address, seconds, json, &text);
    if (status) return status;
    (void)printf("%s%s", again ? "\033[H\033[J" : "", text);
    (void)fflush(stdout);
    ls_memory_free(text);
    return LS_OK;
}

int top_main(int argc, char **argv) {
    enum { JSON = 256, INTERVAL, ONCE };
    static const struct option options[] = {{"json", no_argument, NULL, JSON},
                                            {"interval", required_argument, NULL, INTERVAL},
                                            {"once", no_argument, NULL, ONCE},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const struct ls_command_line line = {"lockstep top", argc, argv, "h", options};
    bool json = false, again = isatty(STDOUT_FILENO);
    double seconds = 1;
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == LS_OPTION_BAD) return LS_EXIT_USAGE;
        if (option == INTERVAL && !ls_option_number(&line, "--interval", optarg, 0.01, 3600, &seconds))
            return LS_EXIT_USAGE;
        if (option == JSON) json = true;
        if (option == JSON || option == ONCE) again = false;
        if (option == 'h') return fputs(help, stdout) < 0;
    }
    if (optind >= argc) return ls_usage_error(&line, "the address of a worker is missing");
    const char *address = argv[optind++];
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    ls_status status;
    do {
        status = show(address, seconds, json, again);
    } while (!status && again && !ferror(stdout));
    return ls_exit(status);
}
