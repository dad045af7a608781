/* Command lines: getopt_long with errors that read alike in every command. Long options may be written with one dash
 * (-np 4), may be shortened while unambiguous, and take their value as --name VALUE or --name=VALUE. */
#pragma once
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#define LS_EXIT_USAGE 2

/* What next_option returns beside the option's own value. */
enum { LS_OPTION_END = -1, LS_OPTION_BAD = -2 };

struct ls_command_line {
    const char *command; /* as in messages: "lockstep run" */
    int argc;
    char **argv;
    const char *shorts;           /* short options as for getopt; stops at the first argument that is no option */
    const struct option *options; /* ends with a zero row */
};

/* The next option's value; END before the first argument (argv[optind]); BAD after the error has been printed. */
int ls_next_option(const struct ls_command_line *line);
/* Prints "command: message; see 'command --help'" and returns LS_EXIT_USAGE. */
int ls_usage_error(const struct ls_command_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Refuses what is left behind the options, for commands without arguments; true if nothing is left. */
bool ls_no_arguments(const struct ls_command_line *line);
/* Reads text as the value of an option; prints the error and returns false if it is no number in [low, high]. */
bool ls_option_integer(const struct ls_command_line *line, const char *option, const char *text, int64_t low,
                       int64_t high, int64_t *value);
/* One word out of a list that ends with NULL; *value is its place there. */
bool ls_option_word(const struct ls_command_line *line, const char *option, const char *text, const char *const *words,
                    int *value);
bool ls_option_number(const struct ls_command_line *line, const char *option, const char *text, double low, double high,
                      double *value);
