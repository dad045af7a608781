/* Formats a line, puts who speaks before it, and hands it to the sink in one piece. */
#include "base/log.h"

#include <stdio.h>
#include <time.h>

#include "base/json.h"
#include "base/plain.h"

#define LS_LOG_TEXT 1152 /* bytes of one line's text: an error with its status fits */

static const char *const level_words[] = {"error: ", "warning: ", "", "debug: "};

/* {"time": "2026-11-23T10:00:00.123Z", "level": "info", "task": "worker:1", "message": "..."} */
static void write_json(const struct ls_log *log, ls_log_level level, const char *text) {
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    char line[6 * LS_LOG_TEXT + 256], when[32] = "";
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc)) (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
    FILE *stream = fmemopen(line, sizeof(line), "w");
    if (!stream) return;
    ls_json_print(stream, "{'time': '%-s.%03dZ', 'level': %s, 'task': %s, 'message': %s}\n", when,
                  (int)(now.tv_nsec / 1000000), levels[level], log->name, text);
    if (!fclose(stream)) (void)fputs(line, stderr);
}

void ls_log_write(const struct ls_log *log, ls_log_level level, const char *format, ...) {
    if (!log || level > log->level) return;
    char text[LS_LOG_TEXT], line[LS_LOG_TEXT + 64];
    (void)LS_PLAIN_ARGUMENTS(text, sizeof(text), format);
    if (log->json && !log->sink) {
        write_json(log, level, text);
        return;
    }
    (void)snprintf(line, sizeof(line), "%s%s%s%s", log->name, log->name[0] ? ": " : "", level_words[level], text);
    if (log->sink)
        log->sink(log->context, level, line);
    else
        (void)fprintf(stderr, "lockstep: %s\n", line); /* one call: stderr is unbuffered but locked */
}
