/* A strategy from the inside: its replicas with one thread each, the runtime that joins workers, and reductions over
 * all replicas of all workers. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>

#include "base/gate.h"
#include "base/kept_error.h"
#include "device/device.h"
#include "observe/trace.h"
#include "runtime/runtime.h"
#include "strategy/participant.h"

struct ls_replica {
    ls_strategy *strategy;
    struct ls_device *device;      /* owns */
    struct ls_track *track;        /* of the timeline; NULL without one */
    struct ls_track *device_track; /* of a device that computes behind the replica's thread; NULL: it has none */
    int id, local_id;
    pthread_t thread; /* none for the first: it runs in the caller's thread */
    bool started;
    uint32_t seen;               /* the start gate's value when the thread was started */
    struct ls_kept_error result; /* of the present run */
};

/* A replica's part in a meeting. All replicas must bring the same. */
struct ls_meeting_call {
    int kind;         /* enum meeting_kind in replica.c */
    const void *what; /* MEET_CALL: what it is about, such as the variable */
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count;
    void *data;
};
struct ls_meeting {
    _Atomic int arrived;
    _Atomic int64_t next_report; /* when a waiting thread logs that it waits */
    struct ls_gate phase;
    struct ls_meeting_call *calls; /* [local replicas] */
    struct ls_kept_error result;   /* of the last phase; written by its last arriver */
};

/* The state of a custom loop as it was at its last commit. */
struct ls_registered;
struct ls_elastic_state {
    struct ls_participant participant;
    struct ls_registered *registered; /* beside the variables; by name */
    bool changed;                     /* since bytes were laid out */
    char *bytes;                      /* as a state of the runtime; NULL before the first commit */
    size_t size, variables;           /* of bytes; of the variables in them */
};

/* The tasks of a training that is planned in one process (tools/plan.h), and the rows of its steps. */
struct ls_planned {
    int workers, servers;
    int64_t batch;
};

/* The way from gradients to new variables (train/sync_ops.h). */
enum ls_way {
    LS_WAY_MIRRORED,
    LS_WAY_SERVERS,
    LS_WAY_DELAYED,
    LS_WAY_LOCAL,
    LS_WAY_ASYNC,
    LS_WAY_SHARDED,
    LS_WAY_STAGES
};

/* Workers that have each moment, where the options do not say it. */
enum { LS_SHARD_COPIES = 2 };

struct ls_training;
struct ls_strategy_kind; /* the table in strategy.c */
struct ls_strategy {
    const struct ls_strategy_kind *kind;
    enum ls_way way;
    ls_strategy_options options;
    struct ls_runtime *runtime;
    struct ls_replica *replicas;   /* [local_count] */
    int local_count, device_count; /* replicas here; devices of this worker */
    int total_count, base_count;   /* of all workers: now, and at the start (num_replicas_in_sync) */
    int *first;                    /* [workers + 1]: worker w holds replica ids [first[w], first[w + 1]) */
    int *task_devices;             /* [tasks] of TF_CONFIG; 0: not known yet */
    int dealt;                     /* total_count of the present layout */
    int layout;                    /* counts how often this worker's replicas, or their number, have become others */
    int copies_on_servers;         /* of each element that servers keep; 0: they keep none */
    ls_parameter_server_options servers; /* LS_ASYNC: its bounds; LS_SYNC: hybrid */
    int delay;                  /* steps from which a worker's variables lack the newest ones' changes; 0: none */
    ls_sparse_tables sparse;    /* with copies_on_servers, or planned */
    struct ls_planned planned;  /* zero: it is no plan */
    ls_local_sgd_options local; /* sync_every 0: workers meet in every step */
    struct ls_ranks crew;       /* the workers of this one's stage; no group: it has none yet */
    int *crew_members;          /* owns: theirs */
    int pipeline;               /* enum ls_pipeline_kind (sync/pipeline_order.h); tests choose another one than 0 */
    int spins;                  /* before a thread sleeps */
    int node_replicas;          /* so many replicas of a worker at most are added in the node; 1: none */
    bool nccl;                  /* can add the gradients of all workers, as far as they have told */
    /* the present run: written before start opens, read after */
    struct ls_gate start;
    ls_replica_fn *fn;
    void *context;
    bool running, started, stopping;
    struct ls_meeting meeting;
    struct ls_trace *trace;              /* the timeline; NULL without one */
    struct ls_track *communicator_track; /* the communicator threads' */
    /* variables, newest first; pending ones wait for their broadcast */
    ls_variable *variables;
    bool pending;
    struct ls_participant *participants; /* the newest first */
    struct ls_training *training;        /* of train: NULL before the first model; closed as a participant */
    struct ls_elastic_state committed;
};

/* All local replicas meet; the last to arrive runs act(strategy, context), then all go on with its status. Every
 * replica passes the same act and context. Returns FAILED_PRECONDITION when another replica ended its function or does
 * something else. */
typedef ls_status ls_meeting_fn(ls_strategy *strategy, void *context);

/* cross_device.c: the same within one worker, done by all its replica threads, which call it alike. */
struct ls_cross_device_call {
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count;
    void *const *arrays; /* [participants], in place */
    int participants;
};
typedef void ls_cross_device_share_fn(const struct ls_cross_device_call *call, int participant);
struct ls_cross_device {
    const char *name;
    ls_cross_device_share_fn *share; /* participant's part of the work; the parts together are the whole */
};

/* Tells all workers about this one, after each beginning of a generation. Collective. */
ls_status ls_strategy_introduce(ls_strategy *strategy);
/* True if the replicas of a worker read one copy of a model's variables, which its first replica updates. */
bool ls_strategy_is_central(const ls_strategy *strategy);
/* The local replica that has the variables of this one, which may be itself: the first of its device;
 * CentralStorageStrategy has one for all. */
int ls_strategy_holder(const ls_strategy *strategy, int local);
/* The first local replica of the same device. */
int ls_strategy_first_of_device(const ls_strategy *strategy, int local);
/* True if servers keep all that a model trains, and not sparse tables alone. */
static inline bool ls_strategy_stores(const ls_strategy *strategy) {
    return strategy->copies_on_servers > 0 && !strategy->servers.hybrid;
}

/* True if a step is one worker's alone, with its own batch: asynchronous training. */
static inline bool ls_strategy_is_async(const ls_strategy *strategy) {
    return strategy->way == LS_WAY_ASYNC;
}
/* "replica 3", "replicas 2 to 3". */
void ls_strategy_replicas_text(int first, int count, char *text, size_t size);

/* A registered part of a custom loop's state (elastic_state.c). */
struct ls_registration {
    const char *name;
    const char *lines; /* lines that must be equal on all workers, or NULL. Both the lines and the name are copied */
    void *data;        /* borrowed */
    size_t size;
    bool begins; /* restore makes it zero if the commit does not have it */
};
/* Size of a name as "iterator 2": the first number of that kind that is not registered. So an iterator that is made
 * anew has its name again. */
#define LS_REGISTERED_NAME 64

/* dataset as this worker's replicas see it */
struct ls_pipeline;

/* Replicas. */

/* Threads, runs, meetings */
ls_status ls_replicas_start(ls_strategy *strategy);
void ls_replicas_stop(ls_strategy *strategy);
ls_status ls_replicas_meet(struct ls_replica *replica, ls_meeting_fn *act, void *context);

/* Strategy.reduce. */

/* Reduces over all replicas of all workers. inputs and outputs have one array of count elements a local replica. */
ls_status ls_reduce_all_replicas(ls_strategy *strategy, const ls_all_reduce_options *what);

/* Cross-device ops within one worker (tf.distribute.CrossDeviceOps). */

const struct ls_cross_device *ls_cross_device_find(ls_cross_device_ops ops); /* NULL if there is no such kind */
/* All replica threads of the only worker call it. They meet, add their shares, and meet again. */
ls_status ls_cross_device_all_reduce(struct ls_replica *replica, const struct ls_cross_device_call *call);
