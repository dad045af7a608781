/* lockstep data: what a data source holds, and what a training would stumble over. */
#include <lockstep/tools.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/common_options.h"

static const char about[] =
    "lockstep data: say what a data source holds, and what a training would stumble over\n"
    "\n"
    "usage: lockstep data [OPTIONS] SOURCE\n"
    "\n"
    "SOURCE is what lockstep train --dataset takes. Prints examples by split and class, their shape, type and range,\n"
    "and hints: pixels that want scaling, channels first, labels that begin with 1, very unequal classes, ...\n"
    "Classes are counted over all examples, values are looked at in some (--samples). One example at a time is in\n"
    "memory, and what the source itself keeps there.\n";
static const char more[] =
    "examples:\n"
    "  lockstep data digits\n"
    "  lockstep data houses.csv --target price\n"
    "  lockstep data /data/pictures --validation-split 0.2 --json\n"
    "\n"
    "exit status: 0 success; 2 a bad command line, or a source that is refused; 1 one that cannot\n"
    "be read.\n";

enum { SAMPLES = 1000, BATCH = 64 };

struct request {
    ls_dataset_options data;
    int64_t samples;
    bool json;
};

static const struct ls_option rows[] = {
    {"samples", "N", "look at the values of N examples a split, spread evenly (default 1000)",
     LS_OPTION_AT(struct request, samples), 1, INT64_C(1) << 40},
    {"json", NULL, "print one JSON object", LS_OPTION_AT(struct request, json), true},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0},
                                                {NULL, ls_data_options, offsetof(struct request, data)},
                                                {NULL, ls_batch_option, offsetof(struct request, data)},
                                                {0}};

int data_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep data", argc, argv, about, more, tables, 0};
    struct request request = {.data = {.size = sizeof(ls_dataset_options), .batch_size = BATCH}, .samples = SAMPLES};
    int count, code = ls_options_read_around(&line, &request, &count);
    if (code >= 0) return code;
    if (!count) return ls_usage_error(&line, "no source is given");
    if (count > 1) return ls_usage_error(&line, "'%s' and '%s' are given: one source", argv[0], argv[1]);
    char *text = NULL;
    ls_status status = ls_tools_data(argv[0], &request.data, request.samples, request.json, &text);
    return ls_exit_text(status, text);
}
