/* A strategy from the inside: its replicas with one thread each, the membership that joins workers, and reductions over
 * all replicas of all workers. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>

#include "base/gate.h"
#include "base/status.h"
#include "device/device.h"
#include "observe/trace.h"
#include "strategy/membership.h"

struct ls_replica {
    ls_strategy *strategy;
    struct ls_device *device; /* owns */
    struct ls_track *track;   /* of the timeline; NULL without one */
    int id, local_id;
    pthread_t thread; /* none for the first: it runs in the caller's thread */
    bool started;
    uint32_t seen;             /* the start gate's value when the thread was started */
    ls_status status;          /* of the present run */
    char error[LS_ERROR_SIZE]; /* its message */
};

/* What a replica brings to a meeting; all must bring the same. */
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
    struct ls_gate phase;
    struct ls_meeting_call *calls; /* [local replicas] */
    ls_status status;              /* of the last phase; written by its last arriver */
    char error[LS_ERROR_SIZE];
};

/* The calls of fit, evaluate and predict, which a worker that is started anew does not repeat; and whose state recovery
 * copies. Written by the caller's thread alone. */
struct ls_fit_state;
struct ls_callbacks;
struct ls_kept;
struct ls_training {
    ls_model *model;                /* of the last call; borrowed, NULL: none, or it has been freed */
    struct ls_fit_state *fit;       /* of the fit that has begun its steps; NULL: none has */
    struct ls_callbacks *callbacks; /* that fit's; NULL: it has none */
    const char *lines;              /* that fit's description */
    ls_result *results;             /* [done] */
    struct ls_kept *outputs;        /* owns: of the calls of predict that are done; NULL: none are kept */
    int64_t done, made;             /* calls that are done; calls that this process has come to */
    bool parted;                    /* the model is gone, and what the membership keeps is its state */
    bool several;                   /* models: then nothing is recovered */
};

/* The state of a custom loop as it was at its last commit. */
struct ls_registered;
struct ls_committed {
    struct ls_registered *registered; /* beside the variables; newest first */
    char *bytes;                      /* as a state of the membership; NULL: no commit yet */
    size_t size;
};

struct ls_strategy_kind; /* the table in strategy.c */
struct ls_strategy {
    const struct ls_strategy_kind *kind;
    ls_strategy_options options;
    struct ls_membership *membership;
    struct ls_replica *replicas;   /* [local_count] */
    int local_count, device_count; /* replicas here; devices of this worker */
    int total_count, base_count;   /* num_replicas_in_sync, now and at the start */
    int *first;                    /* [workers + 1]: worker w holds replica ids [first[w], first[w + 1]) */
    int *task_devices;             /* [tasks] of TF_CONFIG; 0: not known yet */
    int dealt;                     /* total_count of the present layout */
    int layout;                    /* counts how often this worker's replicas, or their number, have become others */
    int spins;                     /* before a thread sleeps */
    int node_replicas;             /* so many replicas of a worker at most are added in the node; 1: none */
    bool nccl;                     /* can add the gradients of all workers, as far as they have told */
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
    struct ls_training training;
    struct ls_committed committed;
};

/* replica.c: threads, runs, meetings */
ls_status ls_replicas_start(ls_strategy *strategy);
void ls_replicas_stop(ls_strategy *strategy);
/* All local replicas meet; the last to arrive runs act(strategy, context), then all go on with its status. Every
 * replica passes the same act and context. Returns FAILED_PRECONDITION when another replica ended its function or does
 * something else. */
typedef ls_status ls_meeting_fn(ls_strategy *strategy, void *context);
ls_status ls_replicas_meet(struct ls_replica *replica, ls_meeting_fn *act, void *context);

/* reduce.c: what arrays in host memory are added by: NCCL is for gradients on GPUs. */
ls_communication ls_strategy_communication(const ls_strategy *strategy);
/* Over all replicas of all workers; inputs and outputs have one array a local replica. */
ls_status ls_strategy_all_reduce(ls_strategy *strategy, const char *name, ls_reduce_op op, ls_dtype dtype,
                                 const void *const *inputs, void *const *outputs, size_t count);
/* SUM of float32 in place, with compression between workers. first: how many arrays each worker has, as ls_leaves. */
ls_status ls_strategy_add_gradients(ls_strategy *strategy, ls_compression compression, const int *first,
                                    void *const *arrays, size_t count);

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
const struct ls_cross_device *ls_cross_device_find(ls_cross_device_ops ops); /* NULL: no such */
/* From all replica threads, one worker only: meets, shares, meets. */
ls_status ls_cross_device_all_reduce(struct ls_replica *replica, const struct ls_cross_device_call *call);

/* layout.c: opens the devices; with all workers, finds which replicas are here. */
ls_status ls_layout_open(ls_strategy *strategy);
ls_status ls_layout_number(ls_strategy *strategy);
/* Each replica's track in the timeline, by its id. One that has no room there trains without. */
void ls_layout_name_tracks(ls_strategy *strategy);

/* strategy.c: after each beginning of a generation, what all workers tell each other of themselves. Collective. */
ls_status ls_strategy_introduce(ls_strategy *strategy);

/* committed.c: a custom loop's state. lines: what must be equal on all workers, freed by the caller; NULL: nothing. */
ls_status ls_committed_add(ls_strategy *strategy, const char *name, const char *lines, void *data, size_t size);
void ls_committed_remove(ls_strategy *strategy, const void *data);
void ls_committed_free(ls_strategy *strategy);

/* variable.c */
ls_status ls_variables_flush(ls_strategy *strategy); /* one flat broadcast of those that are pending */
void ls_variables_free(ls_strategy *strategy);
/* Copies for the replicas from that index on, equal to the first one's; frees those. */
ls_status ls_variables_add_replicas(ls_strategy *strategy, int from);
void ls_variables_drop_replicas(ls_strategy *strategy, int from);
/* "variable w=float32 (3, 2) ...\n" for each; freed with ls_free. */
ls_status ls_variables_describe(const ls_strategy *strategy, char **lines);
/* FAILED_PRECONDITION naming a variable of which each replica has a value of its own. */
ls_status ls_variables_check_mirrored(const ls_strategy *strategy);
/* The values of all, side by side in so many bytes; to all local replicas. */
size_t ls_variables_size(const ls_strategy *strategy);
void ls_variables_pack(const ls_strategy *strategy, char *place);
void ls_variables_unpack(ls_strategy *strategy, const char *place);

/* iterator.c: in how many portions a batch is divided, in which positions are counted: 1, or where batches are scaled
 * the replicas at the start. */
int ls_strategy_portions(const ls_strategy *strategy);
/* dataset as this worker's replicas see it */
struct ls_pipeline;
ls_status ls_strategy_open_pipeline(const ls_strategy *strategy, const ls_dataset *dataset,
                                    struct ls_pipeline **pipeline);
