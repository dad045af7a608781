/* Settings: one table of environment variables, read once into a struct that hangs from a handle. */
#pragma once
#include <lockstep/lockstep.h>

/* Between workers of one host. */
enum ls_transport {
    LS_TRANSPORT_AUTO, /* shared memory where all can map each other's, else TCP */
    LS_TRANSPORT_SHM,
    LS_TRANSPORT_TCP,
};

struct ls_settings {
    double join_timeout;       /* seconds */
    double collective_timeout; /* seconds */
    double exit_timeout;       /* seconds */
    double report_interval;    /* seconds between the lines of a wait */
    int64_t first_bucket;      /* bytes */
    int64_t bucket;            /* bytes */
    int64_t segment;           /* bytes */
    ls_log_level log_level;
    enum ls_transport transport;
    char devices[256];
};

/* Reads every variable; INVALID_ARGUMENT naming the variable and the value if one does not parse. */
ls_status ls_settings_read(struct ls_settings *settings);

struct ls_setting_info {
    const char *name, *default_text, *help;
    char value[256]; /* as in force now */
};
/* The index-th row of the table, for people; false past the end. */
bool ls_setting_describe(const struct ls_settings *settings, size_t index, struct ls_setting_info *info);
