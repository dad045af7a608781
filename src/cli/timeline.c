/* lockstep timeline: lays the timelines and flight records of all ranks beside each other. */
#include <lockstep/tools.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char about[] =
    "lockstep timeline: lay the timelines and flight records of all ranks beside each other\n"
    "\n"
    "usage: lockstep timeline [--output MERGED] [--json] FILE...\n"
    "\n"
    "Reads what the ranks of one run wrote: timelines (LOCKSTEP_TRACE) and flight records\n"
    "(LOCKSTEP_FLIGHT_RECORD_FOLDER), one or both of each rank. Prints for each rank how often it came last to a\n"
    "collective and by how much, and its time in none of them (compute), waiting in them for the last to come\n"
    "(wait), and from then on (wire); the first place where ranks made different calls; and who never came to the\n"
    "last collective, which is whom the others waited for.\n"
    "\n"
    "Clocks of ranks on different hosts are aligned by the ends of the collectives that they have in common. The\n"
    "clock column is what was added to a rank's times, and how sure that is.\n";
static const char more[] = "examples:\n"
                           "  LOCKSTEP_FLIGHT_RECORD_FOLDER=/shared/flight lockstep train ...\n"
                           "  lockstep timeline /shared/flight/*.json\n"
                           "  lockstep timeline t.rank*.json --output merged.json\n"
                           "\n"
                           "exit status: 0 success; 2 a file that cannot be read or written, or a bad command line.\n";

struct request {
    const char *output;
    bool json;
};

static const struct ls_option rows[] = {
    {"output", "MERGED", "write one Chrome trace of all ranks, for https://ui.perfetto.dev",
     LS_OPTION_AT(struct request, output)},
    {"json", NULL, "print the summary as one JSON object in one line", LS_OPTION_AT(struct request, json), true},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

int timeline_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep timeline", argc, argv, about, more, tables, 0};
    struct request request = {NULL, false};
    int count, code = ls_options_read_around(&line, &request, &count);
    if (code >= 0) return code;
    if (!count) return ls_usage_error(&line, "no file is given");
    char *text = NULL;
    ls_status status = ls_tools_timeline((const char *const *)argv, count, request.output, request.json, &text);
    return ls_exit_text(status, text);
}
