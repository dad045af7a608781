/* The hosts of lockstep run: an agent on each, what it is told, and what it says. The launcher's own machine is one,
 * whose agent is a child. Another agent lives as long as the remote shell that started it. One thread; nothing here
 * waits but the reaching and the end. */
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include <lockstep/tools.h>

#include "launch/run_frame.h"
#include "launch/run_worker.h"

/* Seconds; rows of lockstep settings. */
#define LS_RUN_REACH 30.0 /* default */
#define LS_RUN_LEAVE 2.0
#define LS_RUN_RETRY 1.0 /* between two tries to reach a lost host */

/* The options that say where and how. */
struct ls_hosts_options {
    bool alone;                  /* named is this machine: no message says so, and its agent has standard error */
    const char *list, *file;     /* -H, --hostfile; NULL */
    const ls_tools_slots *named; /* [named_count] in place of the two; NULL */
    int named_count;
    const char *shell;          /* --rsh; NULL: ssh */
    const char *identity;       /* --ssh-identity-file; NULL */
    const char *interface;      /* --network-interface; NULL */
    const char *const *exports; /* -x, ends with NULL */
    double limit;               /* --start-timeout */
    int port;                   /* --ssh-port; 0 */
    bool check, verbose;
    int (*serve)(void); /* what lockstep agent does, for this machine */
};
#define LS_HOSTS_POLLS(count) (1 + 3 * (count)) /* entries of so many hosts for poll */
#define LS_HOST_MOVED(rank)   (-2 - (rank))     /* in the place of one that has gone to another host */
/* A lost host is tried again. */
struct ls_host_again {
    int *restarts;  /* [count] the restarts of a rank that waits for it; -1: it does not */
    double at, end; /* the next try, and the end of all tries; end 0: it is not tried */
    bool gone;      /* it was tried in vain */
};
/* One host. */
struct ls_host {
    ls_tools_slots named;
    bool here;                   /* this machine: no remote shell */
    int count;                   /* its ranks */
    int *ranks;                  /* [count]; LS_HOST_MOVED, or -1 of a retired host */
    int *locals;                 /* [count] LOCAL_RANK of each */
    int start;                   /* launch->start of its workers */
    pid_t pid;                   /* of the remote shell, also its process group */
    int in, out, err;            /* what the agent reads, its frames, and what the shell says; -1 at their end */
    enum ls_frame_flow flows[2]; /* of output and errors, as the agent knows them */
    bool greeted, ready, told;   /* told: its loss has been told */
    bool wants;                  /* takes input for rank 0 */
    struct ls_frame_buffer to, from, said;
    char last[512]; /* the last line of err */
    char why[512];  /* why it cannot be had; empty otherwise */
    char machine[256], address[256];
    int processors;
    int *ports;      /* [count] */
    double answered; /* seconds after the start */
    struct ls_host_again again;
    double left_at; /* it is not on the list of hosts any more since then; 0: it is */
    bool joins;     /* it has not answered yet, and comes later than the first hosts */
    bool retired;   /* it has no ranks any more; another host may take its place in the table */
};
struct ls_run_hosts {
    const struct ls_hosts_options *options;
    struct ls_launch *launch;
    struct ls_guard guard;
    struct ls_host *hosts; /* [room], of which count are in use */
    int count, room;
    char **addresses;      /* [launch->count] where each rank is, or was last; NULL: it was never started */
    ls_tools_slots *named; /* [named_count] all that were named, with their slots */
    int named_count;
    char folder[4096]; /* the launcher's */
    char own[256];     /* the address by which another host knows this machine; empty: none has said */
    bool input;        /* the launcher's standard input goes to rank 0 in frames, and has not ended */
};

struct ls_host_event {
    struct ls_host *host;
    struct ls_run_frame frame; /* of its agent, or in its place */
    int number;                /* process; exit status */
    bool by_signal;
};

/* Starts an agent on each host, gives it its ranks, and learns its addresses: launch->cluster. Returns 0, or the exit
 * status after the errors, one line a host, have been printed; hosts is to be closed in any case. With check it prints
 * a table of the hosts. */
int ls_hosts_open(const struct ls_hosts_options *options, struct ls_launch *launch, struct ls_run_hosts *hosts);
void ls_hosts_close(struct ls_run_hosts *hosts);
struct ls_host *ls_hosts_of(const struct ls_run_hosts *hosts, int rank);
/* Starts a rank. A lost host is tried again for --start-timeout, and starts it then; false where that was in vain. */
bool ls_hosts_start(struct ls_run_hosts *hosts, int rank, int restarts);
void ls_hosts_signal(struct ls_run_hosts *hosts, int rank, int signal, enum ls_signal_way way);
/* The time of the next thing that ls_hosts_move does by itself; -1 if there is none. */
double ls_hosts_next_at(const struct ls_run_hosts *hosts);
/* Gives up the hosts that still have not ended: they are lost. */
void ls_hosts_abandon(struct ls_run_hosts *hosts);
/* Fills entries for poll, and tells the agents how output and errors flow from now on; flows NULL: as before. */
void ls_hosts_fill(struct ls_run_hosts *hosts, struct pollfd *polled, const enum ls_frame_flow *flows);
/* Reads and writes what can be without waiting. */
void ls_hosts_move(struct ls_run_hosts *hosts, const struct pollfd *polled);
/* Takes the next thing that a host has said; false if there is none. */
bool ls_hosts_next(struct ls_run_hosts *hosts, struct ls_host_event *event);
/* Makes room for count ranks; false without memory. */
bool ls_hosts_room(struct ls_host *host, int count);
/* True where the name means this machine, and no remote shell was asked for. */
bool ls_hosts_is_here(const struct ls_hosts_options *options, const ls_tools_slots *host);
/* Frees what a host holds, and forgets it. */
void ls_hosts_empty(struct ls_host *host);
/* Ends the agent of a host whose workers have all ended. */
void ls_hosts_retire(struct ls_host *host);

/* Reaches the hosts: starts the agents, most through a remote shell, and waits until each has said who it is. */

/* All at once. False after a line on standard error for each host that cannot be had. */
bool ls_reach(struct ls_run_hosts *hosts);
/* Starts the agent of one host, which asks for the ports that the host had. */
void ls_reach_start(struct ls_run_hosts *hosts, struct ls_host *host);
/* Takes what has come from it: the host is ready then, or has a why. */
void ls_reach_answer(struct ls_run_hosts *hosts, struct ls_host *host);
/* Takes a whole line, without its end, that the shell or the agent has written for people; NULL if there is none. It
 * lives until the next call. */
char *ls_reach_line(struct ls_host *host);

/* The places of lockstep run's workers: TF_CONFIG's cluster, the file of LOCKSTEP_ADDRESSES, and hosts that come later
 * or take ranks over. */

/* A name by which only this machine finds itself. */
bool ls_moves_is_loopback(const char *name);
/* Gives each host that has answered an address, and notes where its ranks are. */
void ls_moves_address(struct ls_run_hosts *hosts);
/* Writes launch->cluster; false without memory. */
bool ls_moves_cluster(struct ls_run_hosts *hosts);
/* Tells all agents where all ranks are. */
void ls_moves_tell(struct ls_run_hosts *hosts);
/* The number of processes that may start on a named host: its slots without those of processes that run. */
int ls_moves_free(const struct ls_run_hosts *hosts, const ls_tools_slots *named, const struct ls_worker *workers);
/* Starts an agent on a host for count ranks that have ended, or were never started; ls_hosts_start then makes a rank
 * wait for it. NULL without memory or room. */
struct ls_host *ls_moves_place(struct ls_run_hosts *hosts, const ls_tools_slots *named, const int *ranks, int count,
                               const struct ls_worker *workers);
