/* Settings: one table of environment variables, read once into a struct that hangs from a handle. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stddef.h>

/* Between workers. */
enum ls_transport {
    LS_TRANSPORT_AUTO, /* shared memory in hosts, which are workers that can map each other's, TCP between them */
    LS_TRANSPORT_SHM,
    LS_TRANSPORT_TCP,
};

enum ls_servers_mode { LS_SERVERS_AUTO, LS_SERVERS_OFF, LS_SERVERS_REQUIRED };

#define LS_SETTING_TEXT 256

struct ls_settings {
    double join_timeout;          /* seconds */
    double collective_timeout;    /* seconds */
    double data_timeout;          /* seconds */
    double exit_timeout;          /* seconds */
    double rejoin_timeout;        /* seconds; 0: a lost worker ends the others */
    enum ls_servers_mode servers; /* whether parameter servers take part */
    double servers_wait;          /* seconds that workers wait for them at the start */
    double stop_grace;            /* seconds that one that was asked to stop serves on */
    double report_interval;       /* seconds between the lines of a wait */
    double heartbeat_interval;    /* seconds between a worker's signs of life */
    double heartbeat_limit;       /* seconds of silence after which a peer is lost; above twice the interval */
    int64_t control_window;       /* lowest ranks that each worker keeps control streams with */
    int64_t first_bucket;         /* bytes */
    int64_t bucket;               /* bytes */
    int64_t segment;              /* bytes */
    int64_t memory_limit;         /* bytes that this process may have; 0: its cgroup's, or the machine's */
    int64_t mail_limit;           /* bytes of messages between two ranks that a rank keeps unreceived */
    int64_t direct_limit;         /* workers that may exchange all with all, with AUTO */
    ls_log_level log_level;
    bool log_json;
    enum ls_transport transport;
    char addresses[LS_SETTING_TEXT]; /* a path; empty: where TF_CONFIG says */
    int64_t elastic_start;           /* the lowest ranks that the first generation needs; 0: all */
    char elastic[LS_SETTING_TEXT];   /* MIN:MAX workers, which cluster reads; empty if all are needed */
    char algorithm[LS_SETTING_TEXT]; /* a name that collective reads */
    char devices[LS_SETTING_TEXT];
    char plugin[LS_SETTING_TEXT]; /* a path; empty: where it was installed */
    double device_timeout;        /* seconds */
    bool cuda_sync;
    char http[LS_SETTING_TEXT];                            /* HOST:PORT; empty: nothing is served */
    char metrics_file[LS_SETTING_TEXT];                    /* a path; empty: none */
    char trace[LS_SETTING_TEXT];                           /* a path; empty: none */
    int64_t flight_record;                                 /* collectives */
    char record[LS_SETTING_TEXT], replay[LS_SETTING_TEXT]; /* paths; empty: none */
    char flight_record_folder[LS_SETTING_TEXT];            /* empty: none */
    bool require_cluster;
    char cluster[LS_SETTING_TEXT];     /* a source of the cluster, which resolver reads; empty: found out */
    char rendezvous[LS_SETTING_TEXT];  /* the rendezvous' address, likewise */
    char num_workers[LS_SETTING_TEXT]; /* of an Indexed Job, likewise */
    char subdomain[LS_SETTING_TEXT];   /* likewise */
    int64_t max_classes;
    int64_t columns;              /* of a terminal that is not this process' own; 0: none */
    char run_id[LS_SETTING_TEXT]; /* lockstep run's; empty: it was not started by it */
    int64_t restart_count;
    char token[LS_SETTING_TEXT], token_file[LS_SETTING_TEXT];
    char tls_certificate[LS_SETTING_TEXT], tls_key[LS_SETTING_TEXT], tls_ca[LS_SETTING_TEXT]; /* paths; all or none */
};

/* Reads every variable; INVALID_ARGUMENT naming the variable and the value if one does not parse. */
ls_status ls_settings_read(struct ls_settings *settings);
/* "auto", "off" or "required". */
const char *ls_settings_servers_name(enum ls_servers_mode mode);
/* "auto", "shm" or "tcp". */
const char *ls_settings_transport_name(enum ls_transport transport);

struct ls_setting_info {
    const char *name, *default_text, *help;
    const char *unit; /* "s", "bytes" or "" */
    char value[256];  /* as in force now */
    bool given;       /* by the environment; else it is the default */
};
/* "LOCKSTEP_BUCKET"; NULL past the end of the table. */
const char *ls_settings_name(size_t index);
/* The index-th row of the table, for people; false past the end. */
bool ls_settings_describe(const struct ls_settings *settings, size_t index, struct ls_setting_info *info);

/* Variables of the environment that look like settings and are none, such as LOCKSTEP_LGO. */

#define LS_UNKNOWN_NAME 96

struct ls_unknown {
    char name[LS_UNKNOWN_NAME];
    const char *nearest; /* a setting whose name is like it, or NULL */
};
/* The next such variable; *at begins with 0. Returns false at the end. Variables that Kubernetes sets for a service of
 * this name, and those of this project's tests, are not counted. */
bool ls_unknown_next(size_t *at, struct ls_unknown *unknown);
