/* Formats a line, puts who speaks before it, and hands it to the sink in one piece. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const level_words[] = {"error: ", "warning: ", "", "debug: "};

static void write_stderr(const char *line) {
    (void)fprintf(stderr, "lockstep: %s\n", line); /* one call: stderr is unbuffered but locked */
}

void ls_log_write(const struct ls_log *log, ls_log_level level, const char *format, ...) {
    if (!log || level > log->level) return;
    char text[1024], line[1152];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)snprintf(line, sizeof(line), "%s%s%s%s", log->name, log->name[0] ? ": " : "", level_words[level], text);
    if (log->sink)
        log->sink(log->context, level, line);
    else
        write_stderr(line);
}
