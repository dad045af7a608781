/* Strategies beside the mirrored ones: central storage, parameter servers, local SGD. Part of the public API, included by
 * lockstep.h. */
#ifndef LOCKSTEP_STRATEGIES_H
#define LOCKSTEP_STRATEGIES_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CentralStorageStrategy: the devices of this process, as MirroredStrategy has them; TF_CONFIG is not read. A model's parameters
 * and moments are there once, and one update changes them; the bits are MirroredStrategy's, and its checkpoints are these.
 * INVALID_ARGUMENT where parameter_device is not the CPU, or a replica is on a GPU. options and central may be NULL. */
typedef struct ls_central_storage_options {
    size_t size;
    const char *parameter_device; /* "CPU:0", in small letters too; default: that */
} ls_central_storage_options;
#define LS_CENTRAL_STORAGE(...) (&(ls_central_storage_options){.size = sizeof(ls_central_storage_options), __VA_ARGS__})
LS_API ls_status ls_central_storage_strategy_new(const ls_strategy_options *options, const ls_central_storage_options *central,
                                                 ls_strategy **strategy);
/* ParameterServerStrategy: reads TF_CONFIG as MultiWorkerMirroredStrategy does. Its ps tasks keep the variables that
 * models train, and the optimizer's moments, each a part of every variable. A step's gradients go there, are added in
 * the order of the tree, and the new variables come back: the bits are those of MultiWorkerMirroredStrategy, and so are
 * checkpoints. A worker has one copy of the variables, and no moments. INVALID_ARGUMENT: no ps in TF_CONFIG,
 * LOCKSTEP_PS is off, RING or NCCL, a replica on a GPU; a delay without LS_DELAYED, staleness or on_stale without
 * LS_ASYNC. options and servers may be NULL.
 *
 * LS_DELAYED with delay d: a step computes its gradients with the variables before the last d steps. The servers apply
 * them to the newest ones. So pushes and pulls go on while the next steps are computed. The bits follow from d, not
 * from tasks or time. With d 0 the bits are those of LS_SYNC. At some steps the workers wait for all pushes and pulls:
 * at the end of an epoch, after each step that ls_checkpoint_options.every_steps names, and after a request to save or
 * stop. The next d steps begin with the variables of that moment. The workers wait at these steps also where no
 * checkpoint is written. So a training that goes on from a checkpoint has the bits of an undisturbed run with the same
 * every_steps. A request at another step changes the bits. A request is heard d steps later. A loss brings all workers
 * back to the last such moment. Losses and metrics of the last d steps are told when these steps are done. A callback's
 * logs are empty before the first step is done. A callback with functions of a batch waits for all pushes and pulls
 * before each call. UNIMPLEMENTED: a synchronized batch normalization. Adam and large momentum suffer from old
 * gradients (arXiv 1810.03264), and fit warns of them.
 *
 * LS_ASYNC: a batch is one worker's and has that worker's batch_size examples. It updates the variables by itself, as
 * in TensorFlow. The servers hand batches out. Each batch is trained once an epoch, by a worker that is free, also
 * where tasks are lost. A gradient is applied whole or not at all. The other workers go on at once without a lost one
 * (LOCKSTEP_REJOIN_TIMEOUT is 0 then, where it is not set). All workers meet at the end of an epoch and where a
 * checkpoint is due. LOCKSTEP_RECORD and LOCKSTEP_REPLAY give the same bits again; without them the bits are those of
 * one order among many. UNIMPLEMENTED: compression, a synchronized batch normalization, momentum correction, and with
 * two servers or more LAMB and clipping by norms. */
typedef enum ls_consistency { /* which variables a step's gradients are of */
    LS_SYNC,                  /* the newest: those after the step before */
    LS_DELAYED,               /* those before the last delay steps */
    LS_ASYNC                  /* those that a worker has read last */
} ls_consistency;
typedef enum ls_on_stale { /* LS_ASYNC: a gradient whose variables have been updated since they were read */
    LS_STALE_APPLY,        /* as any other */
    LS_STALE_SCALE,        /* its learning rate is divided by the number of updates (arXiv 1511.05950) */
    LS_STALE_DROP          /* it is dropped, and counted, where they are more than max_staleness */
} ls_on_stale;
/* An embedding layer with .sparse = true may have its table on the servers alone: a worker gets the rows of its examples
 * in each step, and sends their gradients. BY_RULE: where that takes fewer bytes than an all-reduce of the table, the
 * ids of a batch being less than 2k(n - 1)/n^2 of its rows, and fewer than these, for n workers and k servers of TF_CONFIG.
 * Optimizers then change the rows of a step alone (lazily): other bits than Keras' but for SGD without momentum and decay. */
typedef enum ls_sparse_tables { LS_SPARSE_BY_RULE = 0, LS_SPARSE_ALWAYS, LS_SPARSE_NEVER } ls_sparse_tables;
typedef struct ls_parameter_server_options {
    size_t size;
    int replicas; /* servers that keep each element: with 2 the loss of any one loses nothing; default 1 */
    ls_consistency consistency;
    int delay;            /* LS_DELAYED: d steps; 0: the bits of LS_SYNC */
    int staleness;        /* LS_ASYNC: batches that a worker may be ahead of the slowest one; default: any number */
    ls_on_stale on_stale; /* LS_ASYNC */
    int max_staleness;    /* LS_STALE_DROP: updates since the variables were read that a gradient may be older */
    ls_sparse_tables sparse; /* LS_SYNC */
    bool hybrid; /* LS_SYNC: servers keep sparse tables alone. Dense variables and moments are mirrored on the workers, and their
                  * gradients all-reduced, with the servers' help (Parallax, Kim et al. 2019) */
} ls_parameter_server_options;
#define LS_PARAMETER_SERVER(...) (&(ls_parameter_server_options){.size = sizeof(ls_parameter_server_options), __VA_ARGS__})
LS_API ls_status ls_parameter_server_strategy_new(const ls_strategy_options *options, const ls_parameter_server_options *servers,
                                                  ls_strategy **strategy);
/* LocalSGDStrategy: reads TF_CONFIG as MultiWorkerMirroredStrategy does. In fit a worker trains alone, on its part of each batch,
 * for sync_every steps; then the workers meet, and go on from the mean of their variables (local SGD, Stich 2018; torchft's LocalSGD).
 * With outer_learning_rate the mean change since they last met is the gradient of SGD with Nesterov momentum (DiLoCo,
 * Douillard et al. 2023; torchft's DiLoCo). They meet at the end of each epoch too. Moving statistics are means; moments are, unless
 * local_moments leaves each worker its own, as torchft does: a worker that comes back, or goes on from a checkpoint, has another's
 * then. With fragments the model meets part by part, and with fragment_delay beside training (Streaming DiLoCo, Douillard et
 * al. 2025; torchft's DiLoCo); the whole of it meets at the end of each epoch. Evaluations and custom loops are those of
 * MultiWorkerMirroredStrategy. INVALID_ARGUMENT: sync_every below 1, an outer momentum without its learning rate or not in [0, 1),
 * fragments that do not divide sync_every, a fragment_delay that is not below sync_every / fragments, compression without an
 * outer learning rate, NCCL. local is needed. */
typedef struct ls_local_sgd_options {
    size_t size;
    int sync_every;            /* steps of a worker between two meetings */
    float outer_learning_rate; /* DiLoCo: 0.7 is usual; 0: the mean of the variables */
    float outer_momentum;      /* 0.9 is usual; 0: none */
    bool local_moments;
    int fragments;        /* parts of the model, one of which meets each sync_every / fragments steps; default 1 */
    int fragment_delay;   /* steps from the beginning of a fragment's exchange, beside training, to its use; default 0 */
    float fragment_alpha; /* of a worker's own values in that use, 0 to 1; the rest are those of all; default 0 */
} ls_local_sgd_options;
#define LS_LOCAL_SGD(...) (&(ls_local_sgd_options){.size = sizeof(ls_local_sgd_options), __VA_ARGS__})
LS_API ls_status ls_local_sgd_strategy_new(const ls_strategy_options *options, const ls_local_sgd_options *local,
                                           ls_strategy **strategy);

#ifdef __cplusplus
}
#include <lockstep/lockstep.hpp>
#endif

#endif
