/* Where the library's words go: one sink on a handle, borrowed by whoever speaks. Lines, never partial ones. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_log {
    ls_log_fn *sink; /* NULL: stderr */
    void *context;
    ls_log_level level; /* lines above it are dropped */
    char name[32];      /* who speaks ("worker:1"); may be empty */
};

/* log may be NULL: then nothing is said. */
void ls_log_write(const struct ls_log *log, ls_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define ls_log_error(log, ...)   ls_log_write(log, LS_LOG_ERROR, __VA_ARGS__)
#define ls_log_warning(log, ...) ls_log_write(log, LS_LOG_WARNING, __VA_ARGS__)
#define ls_log_info(log, ...)    ls_log_write(log, LS_LOG_INFO, __VA_ARGS__)
#define ls_log_debug(log, ...)   ls_log_write(log, LS_LOG_DEBUG, __VA_ARGS__)
