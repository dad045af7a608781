/* lockstep plot: the curves of CSV logs, or a timeline, as a picture. */
#define _GNU_SOURCE
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char about[] =
    "lockstep plot: draw the curves of CSV logs, or a timeline\n"
    "\n"
    "usage: lockstep plot [--metric NAME,...] [--output CURVES.svg] LOG.csv...\n"
    "       lockstep plot --output PAGE.html TIMELINE.json...\n"
    "\n"
    "LOG.csv is what lockstep train --csv (ls_csv_logger, keras.callbacks.CSVLogger) writes. Without --output the\n"
    "curves are drawn in the terminal, in 80 columns; val_loss stands beside loss.\n"
    "TIMELINE.json is what --trace (LOCKSTEP_TRACE) writes, or a flight record, one file or more of the ranks of one\n"
    "run. The page needs no server and nothing beside it.\n";
static const char more[] =
    "examples:\n"
    "  lockstep train --csv log.csv --trace trace.json\n"
    "  lockstep plot log.csv\n"
    "  lockstep plot --metric loss,val_loss --output curves.svg first.csv second.csv\n"
    "  lockstep plot --output trace.html trace.rank*.json\n"
    "\n"
    "exit status: 0 success; 2 a file that cannot be read or is no log, or a bad command line; 1\n"
    "anything else.\n";

struct request {
    const char *metrics, *output;
    bool ascii;
};

static const struct ls_option rows[] = {
    {"metric", "NAME,...", "columns of the logs to draw, as loss,val_loss (default: all)",
     LS_OPTION_AT(struct request, metrics)},
    {"output", "FILE", "the picture: .svg of curves, .html of a timeline", LS_OPTION_AT(struct request, output)},
    {"ascii", NULL, "letters in the terminal, as where the locale is not UTF-8", LS_OPTION_AT(struct request, ascii),
     true},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

static bool has_ending(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    return dot && !strcasecmp(dot, ending);
}

static bool has_colours(void) {
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(off && *off) && !(terminal && !strcmp(terminal, "dumb"));
}

static int plot_logs(const struct request *request, const char *const *paths, int count) {
    char *text = NULL;
    bool ascii = request->ascii || !ls_terminal_is_utf8();
    ls_status status = ls_tools_plot(paths, count, request->metrics, request->output, ascii, has_colours(), &text);
    return ls_exit_text(status, text);
}

/* False after the error has been printed. */
static bool check_request(const struct ls_command_line *line, const struct request *request, char **paths, int count,
                          bool timeline) {
    const char *ending = timeline ? ".html" : ".svg";
    for (int i = 0; i < count; i++)
        if (has_ending(paths[i], ".json") != timeline)
            return LS_REFUSE(line, "'%s' is a timeline, and '%s' a log: one kind at a time", paths[timeline ? 0 : i],
                             paths[timeline ? i : 0]);
    if (timeline && !request->output) return LS_REFUSE(line, "a timeline needs --output PAGE.html");
    if (timeline && request->metrics) return LS_REFUSE(line, "'--metric' is of logs, and '%s' is a timeline", paths[0]);
    if (request->output && !has_ending(request->output, ending))
        return LS_REFUSE(line, "--output '%s' needs a name that ends with %s", request->output, ending);
    return true;
}

int plot_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep plot", argc, argv, about, more, tables, 0};
    struct request request = {.ascii = false};
    int count, code = ls_options_read_around(&line, &request, &count);
    if (code >= 0) return code;
    if (!count) return ls_usage_error(&line, "no file is given");
    bool timeline = has_ending(argv[0], ".json");
    if (!check_request(&line, &request, argv, count, timeline)) return LS_EXIT_USAGE;
    const char *const *paths = (const char *const *)argv;
    return timeline ? ls_exit(ls_tools_timeline_page(paths, count, request.output)) : plot_logs(&request, paths, count);
}
