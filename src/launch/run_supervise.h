/* Watches over the workers of lockstep run from their start to the last one's end: output, signals, failures. */
#pragma once
#include "launch/run_elastic.h"
#include "launch/run_hosts.h"
#include "launch/run_worker.h"

/* Seconds; rows of lockstep settings. */
#define LS_RUN_GRACE 5.0  /* default */
#define LS_RUN_STOP  30.0 /* default */
#define LS_RUN_KILL  5.0
#define LS_RUN_START 5.0
#define LS_RUN_CAUSE 1.0
#define LS_RUN_DRAIN 0.5 /* for pipes that something outside the workers' groups keeps open */

struct ls_supervision {
    const struct ls_launch *launch;
    struct ls_run_elastic *elastic; /* NULL: the hosts stay */
    struct ls_run_hosts *hosts;
    const char *folder; /* gets each worker's output as files; NULL */
    bool times;         /* put the time before each line */
    bool prefix;        /* put the rank before each line */
    double grace;       /* seconds in which the other workers end by themselves after the first failure */
    double stop;        /* seconds that the workers have after SIGINT or SIGTERM to the launcher */
    bool any;           /* a worker is started anew with any status */
    int restarts;       /* how often, in all, a worker that was lost or lost another is started anew */
};

/* Returns the exit status: 0, or the first failing worker's own. */
int ls_supervise(const struct ls_supervision *supervision);
