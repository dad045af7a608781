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
/* ParameterServerStrategy, in step: reads TF_CONFIG as MultiWorkerMirroredStrategy does. Its ps tasks keep the variables that
 * models train, and the optimizer's moments, each a part of every variable. A step's gradients go there, are added in the order
 * of the tree, and the new variables come back: the bits are those of MultiWorkerMirroredStrategy, and so are checkpoints.
 * A worker has one copy of the variables, and no moments. INVALID_ARGUMENT: no ps in TF_CONFIG, LOCKSTEP_PS is off, RING
 * or NCCL, a replica on a GPU. options and servers may be NULL. */
typedef struct ls_parameter_server_options {
    size_t size;
    int replicas; /* servers that keep each element: with 2 the loss of any one loses nothing; default 1 */
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
