/* One worker of lockstep run: a process in a group of its own, with its TF_CONFIG and two pipes for its output. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launch/run_guard.h"

/* With this value SIGTERM (sigqueue) ends a worker alone, at once: its host is taken away. */
#define LS_LAUNCH_LEAVE 0x1eaf

/* The settings that all workers of a run share. */
struct ls_launch {
    char **argv;         /* the command, ends with NULL */
    const char *devices; /* LOCKSTEP_DEVICES; NULL if the variable stays as it is */
    int count;           /* of all */
    int here;            /* how many ranks are on this host */
    int local_size;      /* LOCAL_WORLD_SIZE: the workers there, without parameter servers */
    int input;           /* what rank 0 reads as its standard input; -1: nothing */
    int servers;         /* of them, the last: parameter servers */
    bool restarts;       /* a lost worker is started anew, and the other workers wait for it */
    int elastic;         /* the least number of workers that go on; 0 if all are needed */
    int start;           /* elastic: the first workers, so many, begin without the others; 0: all begin together */
    bool moves;          /* workers may start later, or on another host than before: all are told where they are */
    char *cluster;       /* the "cluster" object of TF_CONFIG */
    char id[32];         /* LOCKSTEP_RUN_ID */
    int columns;         /* of the terminal that shows the output, without the prefix; 0 without a terminal */
    /* the process's own state from before it changed it, given back to what it starts */
    sigset_t mask;
    struct sigaction pipe_action, child_action;
    struct rlimit files;
};

struct ls_worker {
    int rank;
    int local;        /* LOCAL_RANK */
    int server;       /* its index among the parameter servers; -1: it is a worker */
    int restarts;     /* how often it was started anew */
    pid_t pid;        /* also its process group; on its host; 0: none has told the launcher yet */
    const char *host; /* NULL: no host was named */
    int out, err;     /* of an agent's; -1: they have ended */
    bool ended;
    bool by_signal;
    bool with_host;  /* it was lost with its host */
    bool leaves;     /* it is to end: its host is not wanted any more */
    double came;     /* elastic: when it was started into a run that had begun; 0: with the first */
    bool absent;     /* elastic: it runs nowhere, and may be started */
    int exit_status; /* as a shell has it: 128 + n for a signal */
};

/* Seconds on a clock that only goes forward. */
double ls_launch_now(void);
/* Makes room for two pipes and three sockets a worker of this host; the workers get the old limit back. */
void ls_launch_raise_files(struct ls_launch *launch);
/* Sets the launcher's own signal state; the workers start with the state before it. */
void ls_launch_set_signals(struct ls_launch *launch);
/* Gives a child of fork the signal state and the limits of before. */
void ls_launch_give_back(const struct ls_launch *launch);
/* Adopts processes that the workers leave behind, unless this process has children of before (a program that becomes
 * the launcher through exec): they are not the launcher's to end. */
bool ls_launch_adopt(void);
/* Kills every child that is left: adopted processes that had moved to groups of their own. */
void ls_launch_sweep(void);
/* Starts worker->rank, restarts times anew before; the guard knows its group before its command runs. 0, or the exit
 * status that the launcher ends with after the error has been printed: 127 command not found, 126 it cannot be
 * executed, 1 no resources. */
int ls_worker_start(const struct ls_launch *launch, const struct ls_guard *guard, struct ls_worker *worker);
/* To whom a signal goes. A worker that is to leave ends alone: the others go on. */
enum ls_signal_way { LS_SIGNAL_ONE, LS_SIGNAL_GROUP, LS_SIGNAL_LEAVE };
/* Nothing happens after it has ended. */
void ls_worker_signal(const struct ls_worker *worker, int signal, enum ls_signal_way way);
/* Reaps a worker that waitid has reported, and kills the processes that it left in its group. */
void ls_worker_reap(struct ls_worker *worker);
/* "worker:1", "ps:0" */
void ls_worker_name(const struct ls_worker *worker, char *text, size_t size);
/* "worker:1 (rank 1, pid 123) ended with exit status 3". */
void ls_worker_describe(const struct ls_worker *worker, char *text, size_t size);
