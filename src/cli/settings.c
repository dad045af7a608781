/* lockstep settings: every setting and every deadline in force here. It answers the question "what does it wait for,
 * how long, and what then". */
#include <lockstep/tools.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "launch/run_supervise.h"

static const char about[] =
    "lockstep settings: print every setting and every deadline, as in force\n"
    "\n"
    "usage: lockstep settings [--json]\n"
    "\n"
    "The settings are environment variables: name, value in force, unit, where it is from (the environment or the\n"
    "default), meaning and default. The deadlines are all waits that have a limit: how many seconds, by which\n"
    "setting or option, for what is waited, and what happens when the limit has passed.\n";
static const char more[] = "environment:\n"
                           "  LOCKSTEP_*  the settings; an empty variable is as good as none\n"
                           "\n"
                           "examples:\n"
                           "  lockstep settings\n"
                           "  lockstep settings --json | jq '.deadlines[] | select(.name == \"silence\").seconds'\n"
                           "\n"
                           "exit status: 0 success; 2 a setting that does not parse, or a bad command line.\n";

/* The deadlines of the commands run and check. */
static const ls_tools_deadline launcher[] = {
    {"run: cause", NULL, LS_RUN_CAUSE, "the worker that failed, after one ended with 138", "that one is named"},
    {"run: grace", "--grace", LS_RUN_GRACE, "the others to end by themselves after a failure", "they get SIGTERM"},
    {"run: start", NULL, LS_RUN_START, "a worker's process to become its command, whose file system may not answer",
     "a warning; it is waited for as one that runs"},
    {"run: kill", NULL, LS_RUN_KILL, "them to end after SIGTERM", "they get SIGKILL"},
    {"run: stop", "--stop-grace", LS_RUN_STOP, "the workers to end after SIGINT or SIGTERM to the launcher",
     "they get SIGKILL"},
    {"run: output", NULL, LS_RUN_DRAIN, "what strangers keep open to be closed after the last worker's end",
     "it is not read any more"},
    {"run: reach", "--start-timeout", LS_RUN_REACH,
     "the agents of all hosts to answer, and that of a lost host to come back", "exit status 1, which names them"},
    {"run: slots", "--elastic-timeout", LS_RUN_SLOTS, "slots for --min-np workers",
     "the run ends, and says how many are missing"},
    {"run: leave", NULL, LS_RUN_LEAVE, "the agents to end after their last worker", "their remote shells get SIGKILL"},
    {"check: answers", "--timeout", LS_CHECK_SECONDS, "every task to answer lockstep check --connect",
     "the table says so; exit status 1"},
};
#define LAUNCHER_COUNT (sizeof(launcher) / sizeof(launcher[0]))

static ls_status print_text(void) {
    char *settings = NULL, *deadlines = NULL;
    ls_status status = ls_tools_settings(&settings);
    if (!status) status = ls_tools_deadlines(launcher, LAUNCHER_COUNT, &deadlines);
    if (!status) (void)printf("settings (environment variables):\n%s\ndeadlines (all waits):\n%s", settings, deadlines);
    ls_memory_free(settings);
    ls_memory_free(deadlines);
    return status;
}

static ls_status print_json(void) {
    char *json = NULL;
    ls_status status = ls_tools_settings_json(launcher, LAUNCHER_COUNT, &json);
    if (!status) (void)puts(json);
    ls_memory_free(json);
    return status;
}

static const struct ls_option rows[] = {
    {"json", NULL,
     "print one JSON object in one line: settings [{name, value, unit, from, default, help}] and deadlines [{name, "
     "setting, seconds, waits, then}], where setting is null for a fixed limit",
     0, LS_OPTION_BOOL, true},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

int settings_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep settings", argc, argv, about, more, tables, 0};
    bool json = false;
    int code = ls_options_read(&line, &json);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    return ls_exit(json ? print_json() : print_text());
}
