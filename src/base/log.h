/* The library's log: one sink on a handle, which every writer borrows. It gets whole lines only. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_log {
    ls_log_fn *sink; /* NULL for stderr */
    void *context;
    ls_log_level level; /* lines above it are dropped */
    bool json;          /* on stderr */
    char name[32];      /* the writer's name ("worker:1"); may be empty */
};

/* A NULL log writes nothing. */
void ls_log_write(const struct ls_log *log, ls_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define ls_log_error(log, ...)   ls_log_write(log, LS_LOG_ERROR, __VA_ARGS__)
#define ls_log_warning(log, ...) ls_log_write(log, LS_LOG_WARNING, __VA_ARGS__)
#define ls_log_info(log, ...)    ls_log_write(log, LS_LOG_INFO, __VA_ARGS__)
#define ls_log_debug(log, ...)   ls_log_write(log, LS_LOG_DEBUG, __VA_ARGS__)
/* A line that all workers have alike: one of them speaks for all, the others log it at debug. */
#define ls_log_shared(log, speaks, level, ...) ls_log_write(log, (speaks) ? (level) : LS_LOG_DEBUG, __VA_ARGS__)
/* Each of so many workers tells of a loss or a wait that all share. Of more only the one that speaks does. */
#define LS_LOG_FEW 8
