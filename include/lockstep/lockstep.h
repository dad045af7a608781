/* Lockstep: train one model on many machines at once, in lockstep. This header, and callbacks.h, cluster_spec.h,
 * collectives.h, data.h, layers.h, saving.h, strategies.h, tokenizer.h and training.h, which it includes, are the whole public
 * API.
 *
 *     #include <lockstep/lockstep.h>
 *
 *     int main(void) {
 *         ls_strategy *strategy = NULL;  ls_dataset *digits = NULL;  ls_model *model = NULL;
 *         ls_status st;
 *         if ((st = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.communication = LS_AUTO), &strategy))) return ls_exit(st);
 *         if ((st = ls_dataset_digits(LS_DATASET(.batch_size = 64 * ls_num_replicas_in_sync(strategy)), &digits))) return ls_exit(st);
 *         if ((st = ls_model_new(strategy, LS_LAYERS(ls_dense(128, LS_RELU), ls_dense(64, LS_RELU), ls_dense(10)), &model))) return ls_exit(st);
 *         if ((st = ls_model_compile(model, ls_sgd(0.1f), LS_SPARSE_CATEGORICAL_CROSSENTROPY))) return ls_exit(st);
 *         st = ls_model_fit(model, digits, LS_FIT(.epochs = 5), NULL);
 *         ls_model_free(model); ls_dataset_free(digits);
 *         return ls_exit(ls_strategy_close(strategy, st));
 *     }
 *
 * The same binary is started once per task with its own TF_CONFIG; without TF_CONFIG it trains alone.
 *
 * Conventions. Every function that can fail returns ls_status and writes its outputs (last) only on success. Option
 * structs are filled by the macro beside them: a field left out is zero, and zero means the default. A handle from
 * ls_x_new belongs to the caller and is given back with ls_x_free, which accepts NULL. "Borrows" means that the argument
 * must outlive the handle. A NULL where no comment allows one is INVALID_ARGUMENT that names it; a function that returns no
 * status returns 0, false or NULL then. One handle is used by one thread at a time unless its comment says otherwise. */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/layers.h>
#ifdef __cplusplus
extern "C" {
#endif

#define LS_VERSION "0.1.0"
#define LS_API __attribute__((visibility("default")))

/* ---- Status ----------------------------------------------------------------------------------------------------- */

/* gRPC's canonical codes. */
typedef enum ls_status {
    LS_OK = 0, LS_CANCELLED = 1, LS_UNKNOWN = 2, LS_INVALID_ARGUMENT = 3, LS_DEADLINE_EXCEEDED = 4, LS_NOT_FOUND = 5,
    LS_ALREADY_EXISTS = 6, LS_PERMISSION_DENIED = 7, LS_RESOURCE_EXHAUSTED = 8, LS_FAILED_PRECONDITION = 9,
    LS_ABORTED = 10, LS_OUT_OF_RANGE = 11, LS_UNIMPLEMENTED = 12, LS_INTERNAL = 13, LS_UNAVAILABLE = 14,
    LS_DATA_LOSS = 15, LS_UNAUTHENTICATED = 16
} ls_status;

/* The version of the library in use ("0.1.0"). */
LS_API const char *ls_version(void);
/* The code's name, such as "UNAVAILABLE". */
LS_API const char *ls_status_name(ls_status status);
/* The message of this thread's last failed call; "" before the first. Valid until the next failing call. */
LS_API const char *ls_error(void);
/* Prints the last error to stderr unless status is LS_OK and returns the process exit status: 0 success; 2 bad
 * configuration (INVALID_ARGUMENT, UNAUTHENTICATED, UNIMPLEMENTED); 138 a peer was lost or a deadline passed, restart me (UNAVAILABLE, ABORTED,
 * DEADLINE_EXCEEDED); 143 stopped on request, as after SIGTERM (CANCELLED); 1 anything else. 138 and 143 are retryable for
 * Kubeflow's ExitCode policy. */
LS_API int ls_exit(ls_status status);

/* ---- Types ------------------------------------------------------------------------------------------------------ */

/* LS_BOOL is one byte, 0 or 1: SUM and MAX are or, MIN and PRODUCT are and; a byte that is neither counts as 1. */
typedef enum ls_dtype {
    LS_FLOAT32 = 0, LS_FLOAT64, LS_FLOAT16, LS_BFLOAT16, LS_INT32, LS_INT64, LS_UINT8, LS_INT8, LS_BOOL
} ls_dtype;
LS_API size_t ls_dtype_size(ls_dtype dtype);      /* bytes an element; 0 for an unknown type */
LS_API const char *ls_dtype_name(ls_dtype dtype); /* "float32"; "unknown" for an unknown type */

/* tf.distribute.ReduceOp, and Horovod's MIN, MAX and PRODUCT. Sums and products of integers wrap around. MEAN of integers
 * divides that sum, and truncates toward zero; MEAN of LS_BOOL is INVALID_ARGUMENT. ADASUM is Horovod's: of gradients that
 * point apart the sum, of gradients that are alike the mean. It is for all-reduces of floats on a communicator of a power of
 * two of ranks; of several arrays each is combined by itself. */
typedef enum ls_reduce_op { LS_SUM = 0, LS_MEAN, LS_MIN, LS_MAX, LS_PRODUCT, LS_ADASUM } ls_reduce_op;

#define LS_MAX_RANK 8
/* The extent of a tensor, row-major; rank 0 is a scalar. */
typedef struct ls_shape {
    int rank;
    int64_t dims[LS_MAX_RANK];
} ls_shape;
/* LS_SHAPE(28, 28): 1 to 8 extents. */
#define LS_SHAPE(...) ((ls_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

typedef struct ls_dataset ls_dataset; /* data.h */

/* ---- Strategy: tf.distribute.Strategy --------------------------------------------------------------------------- */

/* CommunicationImplementation: RING and NCCL mean exactly that. NCCL adds gradients between the GPUs of all workers, and is
 * an error, naming worker and device, where a replica is on none. AUTO takes NCCL for gradients where all replicas are on
 * GPUs and it works on all workers; else it folds the fixed tree over replica ids in host memory, so that its bits do not
 * depend on how the replicas are laid out on workers. Arrays in host memory (ls_reduce and the like) are never NCCL's. */
typedef enum ls_communication { LS_AUTO = 0, LS_RING, LS_NCCL } ls_communication;
/* tf.distribute.CrossDeviceOps within one worker; all but NCCL give the same bits. */
typedef enum ls_cross_device_ops {
    LS_CROSS_DEVICE_AUTO = 0,   /* NCCL where all devices are GPUs and the plugin has it, else hierarchical copy */
    LS_REDUCTION_TO_ONE_DEVICE, /* one thread, or the first GPU, adds everything and hands it out */
    LS_HIERARCHICAL_COPY,       /* every device's thread, or GPU, adds its share of the range and hands it out; any number */
    LS_NCCL_ALL_REDUCE          /* NcclAllReduce: an error where not all devices are GPUs; bits are NCCL's */
} ls_cross_device_ops;
/* The type to which gradients are rounded where they cross a link between workers (Horovod's Compression.fp16, torch's
 * fp16 and bf16 hooks): float32 SUM and MEAN only, added in float32. All workers get the same bits and two runs are
 * alike, but the bits depend on how replicas are laid out on workers. Nothing is rounded where workers share memory. */
typedef enum ls_compression { LS_COMPRESS_NONE = 0, LS_COMPRESS_FP16, LS_COMPRESS_BF16 } ls_compression;
typedef enum ls_log_level { LS_LOG_ERROR = 0, LS_LOG_WARNING, LS_LOG_INFO, LS_LOG_DEBUG } ls_log_level;
/* Receives one line without newline; may be called from any thread of the library. */
typedef void ls_log_fn(void *context, ls_log_level level, const char *line);

/* One worker's wish to all workers. The greatest wish counts.
 *
 * LS_SAVE: fit writes a checkpoint after its present step, where checkpoints are kept. A wish that is heard in a wait
 * is fulfilled after the next step.
 *
 * LS_STOP: all workers end fit after the same step, with LS_CANCELLED and one message. If checkpoints are kept, that
 * step is saved first, and the next fit goes on after it.
 *
 * In an epoch's last step both wait for the epoch's validation and on_epoch. After the last epoch there is nothing left
 * to stop.
 *
 * LS_STOP also ends a wait for other workers (the join, a lost worker, a collective, the exit) or for data, if the wait
 * does not end by itself within 2 s. The call then returns LS_CANCELLED. Before that, fit saves the last committed step
 * where this worker keeps the checkpoints. The other workers hear that this worker leaves, and do the same. */
typedef enum ls_request { LS_GO_ON = 0, LS_SAVE, LS_STOP } ls_request;
/* A user's request, such as one that a signal handler has noted. Called by fit, evaluate and predict before each step.
 * A thread of the library also calls it, many times a second, while the caller waits for other workers, and in a parameter
 * server all the time. Two threads never call it at once. A request that it returns once counts. */
typedef ls_request ls_request_fn(void *context);

/* What MultiWorkerMirroredStrategy divides over the workers (ZeRO stages 1 and 2; torch's ZeroRedundancyOptimizer, DeepSpeed's
 * stage 2): OPTIMIZER: its moments; GRADIENTS: these, and gradients. Bits and checkpoints are those of LS_SHARDING_NONE. */
typedef enum ls_sharding { LS_SHARDING_NONE = 0, LS_SHARDING_OPTIMIZER, LS_SHARDING_GRADIENTS } ls_sharding;
typedef struct ls_strategy ls_strategy;
typedef struct ls_strategy_options {
    size_t size;
    const char *devices;             /* "gpu:0,gpu:1", "gpu": all GPUs, or a number of CPU devices; default: setting LOCKSTEP_DEVICES, then
                                        all GPUs, or one CPU where there are none */
    ls_cross_device_ops cross_device_ops;
    ls_communication communication;  /* between workers */
    size_t bytes_per_pack;           /* gradients per bucket in bytes; 0: 1 MiB first, then 25 MiB or a sixteenth of all */
    double timeout_seconds;          /* of one collective; 0: setting LOCKSTEP_COLLECTIVE_TIMEOUT */
    double join_timeout_seconds;     /* of the start; 0: setting LOCKSTEP_JOIN_TIMEOUT */
    const char *tf_config;           /* JSON text instead of the environment variable */
    int threads_per_replica;         /* 0: one; part of what fixes the bits */
    const char *elastic;             /* "MIN:MAX" workers may go on after a loss; default: setting LOCKSTEP_ELASTIC, then all */
    ls_log_fn *log;                  /* default: stderr */
    void *log_context;
    ls_compression compression;      /* of the gradients that ls_model_fit exchanges between workers */
    ls_request_fn *request;          /* stop, or save: asked from the join on, and by fits that have none of their own */
    void *request_context;
    int replicas;                    /* of all workers, dealt over their devices, with the same bits on any number; 0: one a device */
    ls_sharding shard;
    int shard_copies;                /* workers that have each moment: with 2 the loss of one costs nothing; 0: 2 */
    int stages;                      /* of the layers, a pipeline: one a worker; batches that are accumulated go through them; 0: 1 */
} ls_strategy_options;
#define LS_STRATEGY(...) (&(ls_strategy_options){.size = sizeof(ls_strategy_options), __VA_ARGS__})

/* MultiWorkerMirroredStrategy: reads TF_CONFIG, serves on this task's port and waits, naming who is missing, until all
 * tasks have joined. Without TF_CONFIG: local mode, one worker. INVALID_ARGUMENT for a bad TF_CONFIG, DEADLINE_EXCEEDED
 * when somebody is missing at the end. options may be NULL. */
LS_API ls_status ls_multi_worker_mirrored_strategy_new(const ls_strategy_options *options, ls_strategy **strategy);
/* MirroredStrategy: the devices of this process only; TF_CONFIG is not read. */
LS_API ls_status ls_mirrored_strategy_new(const ls_strategy_options *options, ls_strategy **strategy);
/* OneDeviceStrategy: one replica on one device ("cpu:0"). */
LS_API ls_status ls_one_device_strategy_new(const char *device, ls_strategy **strategy);
/* Ends the run in order: with status LS_OK waits (with a limit) until every worker is done; with an error tells the
 * others the cause at once. LS_CANCELLED of a fit that was asked to stop is the same on all workers and counts as in
 * order. Frees the strategy and returns status, or what went wrong at the exit. */
LS_API ls_status ls_strategy_close(ls_strategy *strategy, ls_status status);
/* By any thread, also while another one is in a call: all workers' calls, those that wait too, end at once with ABORTED (CANCELLED
 * while the group forms) and the reason, which names this worker; nothing recovers from it. The program can only close then. */
LS_API ls_status ls_strategy_abort(ls_strategy *strategy, const char *reason);
/* ls_strategy_close with LS_OK, its result ignored. */
LS_API void ls_strategy_free(ls_strategy *strategy);

/* Replicas of all workers at the training's first start: what a global batch is a multiple of. A worker that comes back
 * gets the same number, whoever is there. tf.distribute.Strategy.num_replicas_in_sync. */
LS_API int ls_num_replicas_in_sync(const ls_strategy *strategy);
/* Those that there are now: fewer only where LOCKSTEP_ELASTIC says scaled and workers are missing. */
LS_API int ls_num_replicas_present(const ls_strategy *strategy);
/* Workers of the present generation, and replicas (threads) of this process. A recovery may change both, and the rank.
 */
LS_API int ls_num_workers(const ls_strategy *strategy);
LS_API int ls_num_local_replicas(const ls_strategy *strategy);
LS_API int ls_worker_rank(const ls_strategy *strategy); /* id_in_cluster: chief, then workers by number */
LS_API bool ls_is_chief(const ls_strategy *strategy);
/* True in a ps task of TF_CONFIG (tf.distribute.Server there). It counts as no worker and has no replica in sync. Its
 * calls of fit, evaluate, predict and ls_strategy_run serve the workers until those have finished, and return LS_OK, or
 * the error that ended the workers. */
LS_API bool ls_is_parameter_server(const ls_strategy *strategy);
/* Serves without a model (tf.distribute.Server.join, which never returns). LS_OK: the workers have finished.
 * FAILED_PRECONDITION: this is no ps task. */
LS_API ls_status ls_strategy_serve(ls_strategy *strategy);

/* ---- Model: tf.keras.Sequential, compile, fit, evaluate --------------------------------------------------------- */

typedef struct ls_model ls_model;
#define LS_MAX_METRICS 8
/* The outcome of fit and evaluate, equal on every worker. NaN where there was no validation data; an accuracy also where the loss
 * has none (MEAN_SQUARED_ERROR), and a loss that is none. */
typedef struct ls_result {
    int64_t steps; /* optimizer steps since compile */
    double loss, accuracy, val_loss, val_accuracy;
    double samples_per_second; /* of the training steps, all workers together, without the first step but of LS_ASYNC */
    double metrics[LS_MAX_METRICS], val_metrics[LS_MAX_METRICS]; /* of compile's list, in its order; the others are 0 */
    double loss_scale;     /* LS_MIXED_FLOAT16: of the next step; else 0 */
    int64_t skipped_steps; /* of steps, those whose gradients were not finite, which changed nothing but the scale */
    /* Of fit, on this worker's first device: what the plans of its layers take, that and all variables, gradients, moments and
     * inputs, and the most that this process had of the device's memory at once; 0 where the device does not tell. */
    int64_t arena_bytes, planned_bytes, peak_bytes;
    /* LS_ASYNC: gradients, and how many updates lay between the reading of their variables and them; else 0. */
    int64_t pushes_applied, pushes_dropped, staleness_max;
    double staleness_mean;
} ls_result;
/* Called on every worker after each epoch with the numbers so far; any status but LS_OK ends the training with it. */
typedef ls_status ls_epoch_fn(void *context, int epoch, const ls_result *result);
/* BackupAndRestore. The chief alone uses the folder, and locks it; it holds one training. A fit that finds a checkpoint there goes on
 * after it on all workers, to the bits of an undisturbed run; a damaged one is a warning, and the one before it is taken. */
typedef struct ls_checkpoint_options {
    size_t size;
    const char *folder;   /* made if its parent is there */
    int64_t every_steps;  /* default: after each epoch */
    int keep;             /* the newest so many; default 2, so that there is one before a damaged one */
    bool keep_on_success; /* default: all are removed when fit succeeds. Else the end's state is the newest */
    bool warn_only;       /* what cannot be written or read is a warning, and training goes on; default: an error */
    /* "learning_rate,momentum": numbers of the optimizer that may differ from the checkpoint's, and then are what they are here;
     * also beta_1, beta_2, epsilon, rho, weight_decay, clipvalue, clipnorm, global_clipnorm, schedule. Alike on all workers.
     * A learning rate that a callback has set is given up only where the compiled one differs. Default: none may */
    const char *overrides;
} ls_checkpoint_options;
#define LS_CHECKPOINT(...) (&(ls_checkpoint_options){.size = sizeof(ls_checkpoint_options), __VA_ARGS__})
typedef struct ls_callback ls_callback; /* callbacks.h */
typedef struct ls_class_weight ls_class_weight; /* training.h */
typedef struct ls_fit_options {
    size_t size;
    int epochs;                  /* default 1 */
    int64_t steps_per_epoch;     /* default: until the data ends; the data starts again where it must */
    ls_dataset *validation_data; /* borrowed */
    int verbose;                 /* Keras' 1: progress bar, 2: a line an epoch, -1: nothing; 0: 1 on a terminal, else 2 */
    ls_epoch_fn *on_epoch;
    void *context; /* of on_epoch and request */
    const ls_checkpoint_options *checkpoint; /* default: none. LS_CHECKPOINT(.folder = "/data/checkpoints") */
    ls_request_fn *request; /* PreemptionCheckpointHandler's watcher: save, or stop; default: the strategy's */
    ls_callback *const *callbacks; /* LS_CALLBACKS(a, b); borrowed */
    const ls_class_weight *class_weight; /* in training, not in validation; 1 for who is not in it. Not with sample weights */
} ls_fit_options;
#define LS_FIT(...) (&(ls_fit_options){.size = sizeof(ls_fit_options), __VA_ARGS__})

/* Borrows strategy. The input shape is taken from the first dataset. INVALID_ARGUMENT naming layer and field for what is wrong
 * whatever the shape is; what shapes are needed for comes with the first fit or evaluate. */
LS_API ls_status ls_model_new(ls_strategy *strategy, const ls_layer *layers, size_t count, ls_model **model);
/* Sets the seed of the initial weights (default 0); before the first fit or evaluate. */
LS_API ls_status ls_model_seed(ls_model *model, uint64_t seed);
/* Keras' layer.trainable = !frozen, for all layers with variables whose names match: names and shell patterns with commas, such as
 * "block_*,Conv1". Before the first fit or evaluate. INVALID_ARGUMENT names one that no such layer has. */
LS_API ls_status ls_model_set_frozen(ls_model *model, const char *names, bool frozen);
/* Model.load_weights: variables by Keras' names from .safetensors (checkpoints too), .npz, or Keras' .h5, .weights.h5
 * and .keras. Every worker calls it alike, between fits too: INVALID_ARGUMENT in the next fit or evaluate where some
 * have not. The chief alone reads the file. The weights take their places in the next fit, evaluate or predict; the
 * optimizer's moments stay. INVALID_ARGUMENT, in this call or in that one, names a variable that the file lacks, has in
 * excess, or has in another shape. DATA_LOSS where the file is damaged. options may be NULL. */
typedef struct ls_load_options {
    size_t size;
    bool skip_mismatch; /* such variables keep the values that they have, and are logged */
} ls_load_options;
#define LS_LOAD(...) (&(ls_load_options){.size = sizeof(ls_load_options), __VA_ARGS__})
LS_API ls_status ls_model_load_weights(ls_model *model, const char *path, const ls_load_options *options);
/* Model.save_weights: this worker's copy, which all have, as .safetensors or .npz under Keras' names; path is there whole or as it
 * was. The model must be built. ls_model_save of saving.h makes a model of it. */
LS_API ls_status ls_model_save_weights(const ls_model *model, const char *path);
/* A text of the program's own, copied, that the model's weights and checkpoints carry beside what they say of input, outputs, loss and
 * classes; "": none. ls_tools_about_weights reads it. */
LS_API ls_status ls_model_note(ls_model *model, const char *note);
/* Trains. Collective: every worker calls it alike; what differs is one error that names the field. result may be NULL.
 * Each step is a transaction: a failed one leaves the variables of the step before. */
LS_API ls_status ls_model_fit(ls_model *model, ls_dataset *data, const ls_fit_options *options, ls_result *result);
/* Collective, as fit. Fills loss and accuracy over the whole of data. result may be NULL. */
LS_API ls_status ls_model_evaluate(ls_model *model, ls_dataset *data, ls_result *result);
/* Model.predict. Collective: the model's outputs for all of data, (examples, outputs), in their order: of a dataset that is not
 * shuffled and is divided LAYOUT_INVARIANT. *outputs is freed with ls_memory_free. */
LS_API ls_status ls_model_predict(ls_model *model, ls_dataset *data, float **outputs, ls_shape *shape);
/* Digest over all variables' names, shapes and float32 bytes, as 64 hex digits. The model must be built. */
LS_API ls_status ls_model_weights_sha256(const ls_model *model, char hex[65]);
/* Variables in order ("dense/kernel", ...). *data is replica 0's copy, borrowed, valid until the next call with model. */
LS_API int ls_model_num_variables(const ls_model *model); /* 0 before the model is built */
LS_API ls_status ls_model_variable(const ls_model *model, int index, const char **name, ls_shape *shape, const float **data);
/* Model.summary, for examples of this shape: a line a layer, and the counts of parameters. *text is freed with ls_memory_free. */
LS_API ls_status ls_model_summary(const ls_model *model, ls_shape input, char **text);
LS_API void ls_model_free(ls_model *model);

/* ---- Custom loops: strategy.run, mirrored variables, reduce, gather --------------------------------------------- */

/* One replica, as seen by the function that ls_strategy_run calls in that replica's thread. */
typedef struct ls_replica ls_replica;
LS_API int ls_replica_id(const ls_replica *replica);       /* replica_id_in_sync_group */
LS_API int ls_replica_local_id(const ls_replica *replica); /* 0 .. ls_num_local_replicas - 1 */
typedef ls_status ls_replica_fn(ls_replica *replica, void *context);
/* Runs fn once on each local replica, in parallel, and waits. The first failing replica's status is returned. */
LS_API ls_status ls_strategy_run(ls_strategy *strategy, ls_replica_fn *fn, void *context);
/* ReplicaContext.all_reduce, inside run: all replicas of all workers call it alike; in place, count elements. */
LS_API ls_status ls_replica_all_reduce(ls_replica *replica, ls_reduce_op op, ls_dtype dtype, void *data, size_t count);

/* Strategy.reduce, outside run: values[i] is local replica i's array of count elements; output receives the result. */
LS_API ls_status ls_reduce(ls_strategy *strategy, ls_reduce_op op, ls_dtype dtype, const void *const *values, size_t count,
                           void *output);
/* Strategy.reduce with an axis: values[i] has shapes[i]; also reduced over the axis. MEAN is the global sum over the
 * global count, right for uneven replicas too. float32 and float64. output has shapes[0] without the axis. */
LS_API ls_status ls_reduce_axis(ls_strategy *strategy, ls_reduce_op op, ls_dtype dtype, const void *const *values,
                                const ls_shape *shapes, int axis, void *output);
/* Strategy.gather: concatenation in replica order along axis; extents may differ on that axis only. *output is
 * allocated, the caller frees it with ls_memory_free. */
LS_API ls_status ls_gather(ls_strategy *strategy, ls_dtype dtype, const void *const *values, const ls_shape *shapes, int axis,
                           void **output, ls_shape *shape);
LS_API void ls_memory_free(void *memory);

/* VariableSynchronization: ON_WRITE is a mirrored variable; ON_READ keeps one value a replica, combined when read. */
typedef enum ls_synchronization { LS_ON_WRITE = 0, LS_ON_READ } ls_synchronization;
typedef enum ls_aggregation { LS_AGGREGATE_NONE = 0, LS_AGGREGATE_SUM, LS_AGGREGATE_MEAN, LS_AGGREGATE_ONLY_FIRST_REPLICA } ls_aggregation;
typedef struct ls_variable ls_variable;
typedef struct ls_variable_options {
    size_t size;
    ls_dtype dtype;
    ls_shape shape;
    const void *initial; /* copied; default zeros. The chief's counts: it is broadcast before the first use */
    ls_synchronization synchronization;
    ls_aggregation aggregation;
} ls_variable_options;
#define LS_VARIABLE(...) (&(ls_variable_options){.size = sizeof(ls_variable_options), __VA_ARGS__})
/* Creates a variable with a copy on each local replica. Owned by the strategy, freed with it. Names are unique. All
 * variables made before a use are broadcast in one flat broadcast. */
LS_API ls_status ls_variable_new(ls_strategy *strategy, const char *name, const ls_variable_options *options,
                                 ls_variable **variable);
/* Inside run. ON_WRITE: all replicas call it alike and the values are aggregated (NONE is refused); ON_READ: local. */
LS_API ls_status ls_variable_assign(ls_variable *variable, ls_replica *replica, const void *value);
LS_API ls_status ls_variable_assign_add(ls_variable *variable, ls_replica *replica, const void *value);
LS_API ls_status ls_variable_assign_sub(ls_variable *variable, ls_replica *replica, const void *value);
/* This replica's copy: read it anywhere in run; write it only if every replica writes the same bits. It is host memory,
 * which a GPU that holds the replica reaches too. */
LS_API void *ls_variable_data(ls_variable *variable, ls_replica *replica);
/* Outside run: every copy becomes value (ON_READ with SUM: value / N). Collective only in that all must do it alike. */
LS_API ls_status ls_variable_set(ls_variable *variable, const void *value);
/* Outside run: the value; ON_READ is combined over all replicas (a collective). */
LS_API ls_status ls_variable_read(ls_variable *variable, void *output);

/* experimental_distribute_dataset: a distributed iterator over dataset, borrowed as strategy is. */
typedef struct ls_iterator ls_iterator;
typedef struct ls_batch {
    int64_t rows;          /* examples of this replica; may be 0 in a short batch */
    int64_t global_rows;   /* examples of all replicas in this step: scale the loss by 1 / global_rows */
    const float *features; /* (rows, shape...), host memory; integers (ls_arrays.ids) are int32_t there */
    const int32_t *labels; /* (rows); NULL if the dataset has targets */
    const float *targets;  /* (rows, target_shape...); NULL if it has labels */
    const float *weights;  /* (rows), sample weights; NULL if all are 1 */
} ls_batch;
/* Not collective: workers compare the dataset at the first ls_strategy_restore, or at the first ls_iterator_next. */
LS_API ls_status ls_iterator_new(ls_strategy *strategy, ls_dataset *dataset, ls_iterator **iterator);
/* Outside run: goes to the next step; *end becomes true after the last step of an epoch, and the next call starts anew. */
LS_API ls_status ls_iterator_next(ls_iterator *iterator, bool *end);
/* Inside run: this replica's part of the step, valid until its next call. */
LS_API ls_status ls_iterator_batch(ls_iterator *iterator, ls_replica *replica, ls_batch *batch);
LS_API void ls_iterator_free(ls_iterator *iterator);

/* ---- Recovery: a lost worker is started anew, the others keep their processes and wait for it -------------------- */

/* fit, evaluate and predict recover by themselves, before they return. A custom loop (Horovod's elastic state) is written so:
 *     do {
 *         status = ls_strategy_restore(strategy);
 *         while (!status && step < last)
 *             if (!(status = ls_strategy_run(strategy, train, NULL))) { step++; status = ls_strategy_commit(strategy); }
 *     } while (status && ls_strategy_recover(strategy, &status)); */
/* Registered memory: commits keep it beside the mirrored variables and the iterators' positions. Borrowed; before restore.
 * Found by name, as variables are; iterators by their number, the lowest that is free when they are made. */
LS_API ls_status ls_strategy_register(ls_strategy *strategy, const char *name, void *data, size_t size);
/* Everything becomes as at the group's last commit, on a worker that was started anew too; the first is made here. When
 * variables, iterators and registrations are made. FAILED_PRECONDITION for an ON_READ variable: one replica alone has it. */
LS_API ls_status ls_strategy_restore(ls_strategy *strategy);
/* After a step, when all that it changes is changed on all local replicas. Not collective. */
LS_API ls_status ls_strategy_commit(ls_strategy *strategy);
/* Returns true if *status came from a lost worker, and all workers are there again. Otherwise *status says why the
 * group cannot go on. */
LS_API bool ls_strategy_recover(ls_strategy *strategy, ls_status *status);

#ifdef __cplusplus
}
#endif

#include <lockstep/callbacks.h>
#include <lockstep/cluster_spec.h>
#include <lockstep/collectives.h>
#include <lockstep/data.h>
#include <lockstep/saving.h>
#include <lockstep/strategies.h>
#include <lockstep/tokenizer.h>
#include <lockstep/training.h>
#endif
