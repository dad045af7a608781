/* A group of workers whose control plane is the library's own, in virtual time: each task joins, commits steps,
 * recovers and leaves as a training does, without its bytes. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

#include "base/settings.h"
#include "resolver/cluster_view.h"
#include "simulation/wire.h"

struct fleet_config {
    int size;
    int per_host; /* workers */
    int window;   /* LOCKSTEP_CONTROL_WINDOW; 0: 3 */
    uint64_t seed;
    const char *elastic;   /* LOCKSTEP_ELASTIC; NULL: none */
    double join_timeout;   /* seconds; 0: 60 */
    double rejoin_timeout; /* seconds; 0: 4 where elastic, else 60 */
    double spread;         /* seconds within which the tasks start; 0: 1 */
    int absent;            /* the rank that never starts; -1: none */
};
struct task {
    struct fleet *fleet;
    int rank, lives;
    struct process *process;
    struct wire_traffic traffic;
    struct ls_cluster_view spec;
    struct ls_abort *abort;
    struct ls_cluster *cluster;
    uint64_t generation; /* that it was last in; 0: none */
    int64_t position, starts_at, ended_at;
    bool holds, joined, ended;
    ls_status status;
    char error[1024], said[1024]; /* its end; its last line in the log */
};
struct fleet {
    struct fleet_config config;
    struct ls_settings settings;
    struct ls_cluster_view spec;
    struct task *tasks;
    struct process **processes; /* all that there were */
    int process_count, process_room;
    int ended;
    int64_t last_position; /* at which all leave */
    int64_t disturbed_at;  /* no step of a generation from before that is complete; 0: never */
    bool over;             /* nobody is started any more */
    /* The newest generation. */
    uint64_t generation;
    int members, entered;
    int64_t begun_at, formed_at, position; /* when all had entered; 0: not yet; when the first one had */
    uint64_t tried;                        /* a joiner that was killed in its attempt */
    bool split;                            /* elastic: two generations were whole at one time */
};
void fleet_begin(struct fleet *fleet, const struct fleet_config *config);
void fleet_end(struct fleet *fleet);
/* Runs until the condition holds; false: it does not within so many seconds. */
typedef bool fleet_condition(const struct fleet *fleet);
bool fleet_run(struct fleet *fleet, fleet_condition *condition, double seconds);
/* A generation after the one before runs, of all tasks or, elastic, of those who are there. */
bool fleet_is_formed(const struct fleet *fleet);
bool fleet_is_over(const struct fleet *fleet); /* all have ended */
bool fleet_never(const struct fleet *fleet);
/* The task's process is killed, and started anew after so many seconds; below 0: never. */
void fleet_kill(struct fleet *fleet, int rank, double restart);
/* Its machine loses its power. */
void fleet_crash(struct fleet *fleet, int rank, double restart);
/* It does not run for so many seconds. */
void fleet_freeze(struct fleet *fleet, int rank, double seconds);
void fleet_cut(struct fleet *fleet, const uint8_t *sides, double seconds);
void fleet_mend(struct fleet *fleet); /* nothing is cut off any more */
/* All leave soon. */
void fleet_finish(struct fleet *fleet);
int fleet_coordinator(const struct fleet *fleet);
