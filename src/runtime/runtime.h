/* The runtime of a process, which strategies and bare communicators use: settings, log, TF_CONFIG, the cluster and its
 * group. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "base/log.h"
#include "base/settings.h"
#include "cluster/cluster.h"
#include "collective/group.h"
#include "collective/tuner.h"

/* The parts of a process's state, in the order in which recovery copies them. Each has one source. */
enum ls_state_part {
    LS_STATE_LOOP,     /* of custom loops */
    LS_STATE_TRAINING, /* of the calls of fit, evaluate and predict */
    LS_STATE_PARTS
};
/* Sets the bytes of a part, in whole words of 8; size 0: there is no state yet. They are borrowed until the copy is
 * done, or allocated: then *made is set too, for ls_free. */
typedef ls_status ls_state_encode_fn(void *context, struct ls_bytes *bytes, void **made);
struct ls_state_source {
    ls_state_encode_fn *encode; /* NULL before there is one */
    void *context;
};
enum ls_runtime_use {
    LS_RUNTIME_TRAINS,
    LS_RUNTIME_STORES,  /* parameter servers keep what it trains */
    LS_RUNTIME_HYBRID,  /* they keep sparse tables, and help to add */
    LS_RUNTIME_GOES_ON, /* the same, and a loss of a worker holds nobody up: elastic, where the user says nothing else
                         */
    LS_RUNTIME_BARE     /* collectives alone: a ps task has nothing to do in it */
};
/* Some or all ranks of a generation, with a group of their own: a process set's, or the runtime's. */
struct ls_ranks {
    int rank, size;
    struct ls_group *group; /* NULL between two generations */
    const int *members;     /* [size] of a process set: ranks of the runtime's; NULL: these are those */
    struct ls_runtime *runtime;
};
struct ls_runtime {
    struct ls_settings settings;
    ls_communication communication; /* of arrays in host memory: NCCL adds gradients on GPUs only, and is AUTO here */
    struct ls_log log;
    struct ls_cluster_view *config; /* NULL when TF_CONFIG was not read */
    struct ls_abort *abort;
    struct ls_abort *server_abort;    /* of the server's thread; NULL in a worker */
    struct ls_rendezvous *rendezvous; /* of rank 0, which hands out addresses; NULL: none */
    struct ls_cluster *cluster;       /* NULL without other workers; then no port is open */
    struct ls_tuner_choice choice;    /* AUTO's, of the group's topology */
    struct ls_serving *server;        /* of a parameter server that serves: then cluster is NULL; else NULL */
    enum ls_runtime_use use;
    bool lost;   /* state that nobody else has: it does not recover */
    bool anew;   /* such state, and every process begins anew, from the newest checkpoint */
    bool awaits; /* the next generation waits for all listed servers, for one of them may have that state */
    bool serves; /* this is a ps task, also where LOCKSTEP_PS is off */
    union {      /* both begin alike */
        struct ls_ranks ranks;
        struct {
            int rank, size;
            struct ls_group *group;
        };
    };
    struct ls_call_record calls;      /* the group's; stays from one to the next, for the cluster's threads read it */
    bool records;                     /* it was initialised */
    struct ls_service_notify *notify; /* NULL where no service manager listens */
    struct ls_http_server *http;      /* NULL without LOCKSTEP_HTTP and LOCKSTEP_METRICS_FILE */
    struct ls_activity activity;      /* the group's calls and fit write it, the cluster's listener reads it */
    struct ls_user_request *user_request; /* NULL before it is made */
    bool dumped;                          /* the flight record */
    bool hinted;                          /* that it has no folder */
    _Atomic bool stopped; /* all workers stopped after one step, as one asked: LS_CANCELLED is in order */
    int task, tasks; /* this worker's place among the tasks of TF_CONFIG, which stays, and how many they are; 0 of 1 */
    int local_rank, local_size;
    int helpers;                 /* parameter servers that the log has told of */
    uint64_t generation;         /* of the group; 1 when alone */
    int64_t first_generation;    /* that this process has been in; 0: none yet */
    struct ls_restart *restarts; /* [tasks] of all tasks' processes; NULL when alone */
    /* this process' state, which recovery copies (docs/protocol.md) */
    bool holds;
    int64_t position; /* transactions that it has committed */
    struct {
        int64_t position; /* where the last recovery began ... */
        uint64_t crew;    /* ... and a number of who was there */
        int count;        /* recoveries in a row with both alike */
    } repeated;
    struct ls_state_source sources[LS_STATE_PARTS]; /* of the parts that are not inherited */
    struct ls_bytes inherited[LS_STATE_PARTS];      /* copied, and not taken up yet; data is NULL without it */
};
/* Logs what all workers would say alike: the first one at info, the others at debug. */
#define ls_runtime_tell(runtime, ...) ls_log_shared(&(runtime)->log, !(runtime)->rank, LS_LOG_INFO, __VA_ARGS__)
/* Returns true if this worker tells how a recovery went. Each one of a few workers does. Of more workers the convener
 * of the generation does: the first worker may be new. */
bool ls_runtime_speaks(const struct ls_runtime *runtime);
/* Reads TF_CONFIG if read_tf_config is set, joins, and makes the group. bare: a ps task is refused. */
ls_status ls_runtime_new(const ls_strategy_options *options, bool read_tf_config, enum ls_runtime_use use,
                         struct ls_runtime **runtime);
/* Of a parameter server: waits until the workers have finished. Returns LS_OK then, or the error that ended them. */
ls_status ls_runtime_serve(struct ls_runtime *runtime);
/* Makes the group of these ranks of this generation. Its links have the channels 2 number and 2 number + 1; the number
 * of the runtime's own is 0. */
ls_status ls_runtime_make_group(struct ls_ranks *ranks, uint32_t number);
/* Makes a group of config, and of what the settings say of every group. Its links have the channel, its messages the
 * next one. cluster NULL: it has none. */
ls_status ls_channels_open(struct ls_runtime *runtime, struct ls_cluster *cluster, uint32_t channel,
                           struct ls_group_config config, struct ls_group **group);
/* Enters the next generation after a loss, on the remaining workers as on a restarted one. Waits until all are there,
 * makes a new group, and copies the furthest state to workers without it, as inherited. Nobody may use the group, or
 * its memory. */
ls_status ls_runtime_enter(struct ls_runtime *runtime);
/* Ends the calls of all workers, waits included, with ABORTED and the reason. Any thread. */
void ls_runtime_abort(struct ls_runtime *runtime, const char *reason);
/* True if this thread's error comes from a loss that ls_runtime_enter can mend. Keeps the error. */
bool ls_runtime_may_recover(struct ls_runtime *runtime, ls_status status);
/* True if a wait returned this status because a worker was asked to stop. */
bool ls_runtime_is_cancelled(struct ls_runtime *runtime, ls_status status);
/* As ls_runtime_may_recover for a program's error, before the group is let go. Logs the loss and the time limit of the
 * wait. Returns false, and says so in the error, after many recoveries in a row that began at one position though
 * nobody was lost. */
bool ls_runtime_begin_recovery(struct ls_runtime *runtime, ls_status status);
/* Raises the abort flag after a failure of this worker, since the others wait for it. */
void ls_runtime_give_up(const struct ls_runtime *runtime, ls_status status, const char *error);
/* The task of TF_CONFIG that has the rank, in rank order. */
int ls_runtime_task(const struct ls_runtime *runtime, int rank);
/* Returns true if parameter servers keep what it trains, or a part. */
static inline bool ls_runtime_stores(const struct ls_runtime *runtime) {
    return runtime->use != LS_RUNTIME_TRAINS && runtime->use != LS_RUNTIME_BARE;
}
bool ls_runtime_is_elastic(const struct ls_runtime *runtime);
bool ls_runtime_is_scaled(const struct ls_runtime *runtime);
/* Leaves the cluster and frees the runtime. It leaves in order with LS_OK, or with LS_CANCELLED when all have stopped.
 * Otherwise it tells the cause. Returns status or the error of leaving. */
ls_status ls_runtime_close(struct ls_runtime *runtime, ls_status status);
/* Exchanges a row of own.size bytes a worker into rows, [size] of them. In a cluster. */
ls_status ls_runtime_exchange_rows(struct ls_runtime *runtime, const char *name, struct ls_bytes own, void *rows);
/* Exchanges one int64 a worker into values[size]. A worker alone gets its own. */
ls_status ls_runtime_exchange(struct ls_runtime *runtime, const char *name, int64_t value, int64_t *values);
/* Collective: a random number of rank 0's, the same on all workers. */
ls_status ls_runtime_draw(struct ls_runtime *runtime, const char *name, uint64_t *number);
/* Collective: INVALID_ARGUMENT where workers bring different lines. A worker alone agrees. */
ls_status ls_runtime_agree(struct ls_runtime *runtime, const char *name, const char *lines);

/* The timeline of a runtime. */

/* Opens the timeline, of LOCKSTEP_TRACE where path is NULL. *trace stays NULL without path and setting. */
struct ls_trace;
ls_status ls_runtime_trace_open(const struct ls_runtime *runtime, const char *path, struct ls_trace **trace);
/* Writes the timeline. Returns status, whose message stays, or the error of writing. */
ls_status ls_runtime_trace_close(struct ls_trace *trace, ls_status status);

/* Writes the record of a group's last collectives. */

/* After a failure, with its message in ls_error, which stays: writes the flight record into the folder of the setting,
 * or says how to get one. The first time only; from the thread that makes the calls, or when there are no more. */
void ls_flight_dump(struct ls_runtime *runtime);

/* The source of the cluster that this process is in. */

/* Reads tf_config, or the environment where it is NULL, into runtime->config. Tells the source where it is not
 * TF_CONFIG, and warns of what is probably not meant. INVALID_ARGUMENT: the resolver's, or LOCKSTEP_REQUIRE_CLUSTER's.
 */
ls_status ls_cluster_source_read(struct ls_runtime *runtime, const char *tf_config);
/* Warns of variables that look like settings and are none. first: of all workers, this one speaks. */
void ls_cluster_source_warn(const struct ls_runtime *runtime, bool first);
