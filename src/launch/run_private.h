/* The state of a run, for run_supervise.c and run_remote.c, which attends to its hosts. */
#pragma once
#include "launch/run_elastic.h"
#include "launch/run_output.h"
#include "launch/run_supervise.h"

struct run {
    const struct ls_supervision *how;
    struct ls_run_hosts *hosts;
    struct ls_run_elastic *elastic; /* NULL: the hosts stay */
    struct ls_worker *workers;
    struct ls_worker *before;  /* [count] of a worker that was started anew: how it had ended */
    struct ls_stream *streams; /* two a worker */
    struct pollfd *polled;
    int count, alive, restarted, gone; /* gone: lost for good, and done without */
    int told;                          /* of those restarted, the user knows so many */
    struct ls_output output;
    int signals;
    struct ls_worker *culprit; /* the worker that failed first */
    double failed_at, ended_at;
    double killed_at;                  /* we have sent SIGKILL */
    double asked_at;                   /* the time of the user's first SIGINT or SIGTERM; 0 if there was none */
    bool announced, signalled, killed; /* signalled: by us after a failure, or by the user */
    int unstarted;                     /* the exit status where a worker could not be started */
    double succeeded_at;               /* the first time */
    bool over;                         /* all workers have ended well, at failed_at: servers may still run */
    bool succeeded;                    /* a worker has succeeded: a worker that ends now has no peers left to meet */
};

/* run_supervise.c */
void ls_supervise_signal(const struct run *run, const struct ls_worker *worker, int signal, enum ls_signal_way way);
/* Asks its host to start a rank, which has no process; false where the host was tried in vain. */
bool ls_supervise_start(struct run *run, int rank, int restarts);
/* Says that a worker was started anew, and how or where. */
void ls_supervise_tell(struct run *run, int rank, const char *how);
/* Ends the run with the status of a worker that has ended. */
void ls_supervise_blame(struct run *run, struct ls_worker *worker);
/* A worker has ended, and its status is known. */
void ls_supervise_end(struct run *run, struct ls_worker *worker);
/* Goes on without a worker that has ended, or ends the run with its status. */
void ls_supervise_give_up(struct run *run, struct ls_worker *worker);
/* A signal killed it, or it has lost another. */
bool ls_supervise_was_lost(const struct ls_worker *worker);

/* run_remote.c */
/* Takes what the hosts have said, after poll. */
void ls_remote_hear(struct run *run, const struct pollfd *polled);
/* Gives a rank that was lost with its host a free slot of another one; false if there is none. */
bool ls_remote_move(struct run *run, const struct ls_worker *worker);
/* Elastic: the others go on without a worker that has ended. */
bool ls_remote_spare(struct run *run, struct ls_worker *worker);
/* Elastic: follows the list of hosts. */
void ls_remote_follow(struct run *run);
/* Elastic: workers may start, though nobody runs. */
bool ls_remote_awaits(const struct run *run);
/* Elastic: the time of the next thing that ls_remote_follow does by itself. */
double ls_remote_next_at(const struct run *run);
