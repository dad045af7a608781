/* Options from a file (--config FILE): YAML, of which JSON is a part. A mapping of options' names, without dashes, to
 * values: true or false for a flag, a list where the option takes several. They count as if they stood before the
 * command line's own. */
#pragma once
#include <stdio.h>

#include "cli/options.h"

struct ls_config_word {
    char *text; /* "--epochs=5"; owns */
    int line;   /* of the file */
};
struct ls_config {
    struct ls_config_word *words; /* [count] */
    int count;
};
/* The table of a command that takes such a file. */
extern const struct ls_option ls_config_options[];
/* Puts the options of --config's file before those of the command line, which may have none. False after the error has
 * been printed. They live until the process exits. */
bool ls_config_take(struct ls_command_line *line);
/* Reads text[size] as the file line->file. False after the error has been printed; config is to be freed anyway. */
bool ls_config_parse(const struct ls_command_line *line, const char *text, size_t size, struct ls_config *config);
void ls_config_free(struct ls_config *config);
/* Writes the options that are given, as such a file. Returns the exit status. */
int ls_config_print(const struct ls_command_line *line, FILE *out);
