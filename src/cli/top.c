/* lockstep top: the present work of the workers of a running training. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char about[] =
    "lockstep top: what the workers of a running training are doing\n"
    "\n"
    "usage: lockstep top [--json] [--interval SECONDS] [--once] [--ascii] HOST:PORT\n"
    "\n"
    "Asks any worker, at its address in TF_CONFIG, who belongs to the cluster, asks all of them twice and prints one\n"
    "table: state, step, and of the time between the two answers the share in no collective (compute), in\n"
    "collectives waiting for others (wait) and in collectives as long as the rank that waits least (wire); who the\n"
    "straggler is, for whom the others wait; collectives and their bytes, resident memory, seconds since the start of\n"
    "the process, and how often it was started anew before that, in this training. A bar shows the three shares.\n"
    "A terminal gets the columns that it has room for, and of many workers those that the others wait for; a pipe "
    "gets\n"
    "all. On a terminal it goes on until it is interrupted. Training does not notice. Workers that have a token do "
    "not\n"
    "answer; those with TLS answer who has LOCKSTEP_TLS_* set as they have.\n";
static const char more[] = "examples:\n"
                           "  lockstep top host0:2222\n"
                           "  lockstep top --json 127.0.0.1:2222 | jq .straggler\n"
                           "\n"
                           "exit status: 0 success; 2 a bad address or command line; 138 no worker answers there.\n";

struct request {
    bool json, once, ascii;
    double seconds;
};

/* The size is asked each time: it may change. */
static ls_status show(const char *address, const struct request *request, bool again) {
    char *text = NULL;
    int columns, lines;
    ls_terminal_size(&columns, &lines);
    bool ascii = request->ascii || !ls_terminal_is_utf8();
    ls_status status = ls_tools_top(address, request->seconds, request->json, columns, again ? lines : 0, ascii, &text);
    if (status) return status;
    (void)printf("%s%s", again ? "\033[H\033[J" : "", text);
    (void)fflush(stdout);
    ls_memory_free(text);
    return LS_OK;
}

static const struct ls_option rows[] = {
    {"json", NULL, "print one JSON object in one line, once", LS_OPTION_AT(struct request, json), true},
    {"interval", "SECONDS", "between the two answers (default 1)", LS_OPTION_AT(struct request, seconds), 0.01, 3600},
    {"once", NULL, "once on a terminal, too", LS_OPTION_AT(struct request, once), true},
    {"ascii", NULL, "bars of letters, as where the locale is not UTF-8", LS_OPTION_AT(struct request, ascii), true},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

int top_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep top", argc, argv, about, more, tables, 0};
    struct request request = {.seconds = 1};
    int code = ls_options_read(&line, &request);
    if (code >= 0) return code;
    if (line.next >= argc) return ls_usage_error(&line, "the address of a worker is missing");
    const char *address = argv[line.next++];
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    bool again = isatty(STDOUT_FILENO) && !request.json && !request.once;
    ls_status status;
    do {
        status = show(address, &request, again);
    } while (!status && again && !ferror(stdout));
    return ls_exit(status);
}
