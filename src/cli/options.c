/* getopt_long_only with our own words: every error names the option, says what is wrong and where to read on. */
#define _GNU_SOURCE
#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls_usage_error(const struct ls_command_line *line, const char *format, ...) {
    va_list arguments;
    (void)fprintf(stderr, "%s: ", line->command);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "; see '%s --help'\n", line->command);
    return LS_EXIT_USAGE;
}

/* The argument that getopt has just refused, without what follows '='. */
static void refused_name(const struct ls_command_line *line, char *name, size_t size) {
    const char *argument = optind > 0 && optind <= line->argc ? line->argv[optind - 1] : "";
    (void)snprintf(name, size, "%.*s", (int)strcspn(argument, "="), argument);
}

static bool known_value(const struct ls_command_line *line, int value) {
    for (const struct option *option = line->options; option->name; option++)
        if (option->val == value) return true;
    return false;
}

/* How many options begin like the refused one: several make it ambiguous. */
static int count_matches(const struct ls_command_line *line, const char *name) {
    int matches = 0;
    name += strspn(name, "-");
    for (const struct option *option = line->options; option->name; option++)
        matches += !strncmp(option->name, name, strlen(name));
    return matches;
}

static void refuse(const struct ls_command_line *line, int kind) {
    char name[128];
    refused_name(line, name, sizeof(name));
    if (kind == ':')
        (void)ls_usage_error(line, "option '%s' needs a value", name);
    else if (optopt && known_value(line, optopt))
        (void)ls_usage_error(line, "option '%s' takes no value", name);
    else if (optopt)
        (void)ls_usage_error(line, "unknown option '-%c'", optopt);
    else if (count_matches(line, name) > 1)
        (void)ls_usage_error(line, "option '%s' is ambiguous; write it out", name);
    else
        (void)ls_usage_error(line, "unknown option '%s'", name);
}

int ls_next_option(const struct ls_command_line *line) {
    char shorts[64];
    opterr = 0;
    (void)snprintf(shorts, sizeof(shorts), "+:%s", line->shorts);
    int value = getopt_long_only(line->argc, line->argv, shorts, line->options, NULL);
    if (value == -1) return LS_OPTION_END;
    if (value != '?' && value != ':') return value;
    refuse(line, value);
    return LS_OPTION_BAD;
}

bool ls_no_arguments(const struct ls_command_line *line) {
    if (optind >= line->argc) return true;
    (void)ls_usage_error(line, "unexpected argument '%s'", line->argv[optind]);
    return false;
}

bool ls_option_integer(const struct ls_command_line *line, const char *option, const char *text, int64_t low,
                       int64_t high, int64_t *value) {
    char *end;
    errno = 0;
    long long read = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && read >= low && read <= high) {
        *value = (int64_t)read;
        return true;
    }
    (void)ls_usage_error(line, "option '%s' needs a whole number from %" PRId64 " to %" PRId64 ", not '%s'", option,
                         low, high, text);
    return false;
}

bool ls_option_number(const struct ls_command_line *line, const char *option, const char *text, double low, double high,
                      double *value) {
    char *end;
    errno = 0;
    double read = strtod(text, &end);
    if (end != text && !*end && !errno && read >= low && read <= high) {
        *value = read;
        return true;
    }
    (void)ls_usage_error(line, "option '%s' needs a number from %g to %g, not '%s'", option, low, high, text);
    return false;
}

bool ls_option_word(const struct ls_command_line *line, const char *option, const char *text, const char *const *words,
                    int *value) {
    char list[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) {
            *value = i;
            return true;
        }
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", words[i]);
    }
    (void)ls_usage_error(line, "%s '%s' is none of %s", option, text, list);
    return false;
}
