/* Callbacks of ls_model_fit (tf.keras.callbacks), those that come with the library and a user's own. Part of the public API,
 * included by lockstep.h.
 *
 *     ls_callback *stop = NULL, *log = NULL;
 *     if ((st = ls_early_stopping_new(LS_EARLY_STOPPING(.patience = 3, .restore_best_weights = true), &stop))) ...
 *     if ((st = ls_csv_logger_new(LS_CSV_LOGGER(.path = "log.csv"), &log))) ...
 *     st = ls_model_fit(model, data, LS_FIT(.epochs = 50, .callbacks = LS_CALLBACKS(stop, log)), NULL);
 *     ls_callback_free(stop); ls_callback_free(log);
 *
 * Every worker has the same callbacks in the same order. Each worker calls them alike, in the thread of fit. Their
 * decisions must follow from their arguments, which are the same everywhere. The one worker that call->writes names
 * writes files. A worker that takes up another worker's state or a checkpoint's may be told the end of its last step or
 * epoch again (call->repeated). A training that goes on after a checkpoint repeats the steps after it. A callback that
 * writes therefore writes for call->epoch, not behind the file's content. */
#ifndef LOCKSTEP_CALLBACKS_H
#define LOCKSTEP_CALLBACKS_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number with Keras' name: "loss", "val_accuracy". */
typedef struct ls_callback_log {
    const char *name;
    double value;
} ls_callback_log;
/* The arguments of a callback's functions; valid until the function returns. */
typedef struct ls_callback_call {
    ls_model *model;
    int epoch, epochs;           /* the present epoch, from 0; the number of epochs of fit */
    int64_t step, steps;         /* done in this epoch; in a whole one */
    int64_t iteration;           /* optimizer steps applied since compile */
    const ls_callback_log *logs; /* in the order of their names. Of a step: the epoch's means so far, as Keras' */
    size_t log_count;
    bool writes;                 /* this worker is the one that writes files */
    bool resumed;                /* fit goes on after a checkpoint, or on a worker that was started anew */
    bool repeated;               /* on_train_batch_end, on_epoch_end: the state of callbacks has this already */
} ls_callback_call;
/* Any status but LS_OK ends fit with it, the callback's name and the place before its message. */
typedef ls_status ls_callback_fn(void *context, const ls_callback_call *call);
typedef struct ls_callback {
    size_t size;
    const char *name;  /* for messages */
    void *context;
    ls_callback_fn *on_build;       /* the model has its weights; the last chance to set state. Before on_train_begin. The logs are
                                       those that an epoch will have, each 0 */
    ls_callback_fn *on_train_begin; /* also where a training goes on, with state as it was then */
    ls_callback_fn *on_epoch_begin;
    ls_callback_fn *on_train_batch_begin, *on_train_batch_end;
    ls_callback_fn *on_epoch_end;   /* after validation; what it changes in state is changed once an epoch */
    ls_callback_fn *on_train_end;   /* of a fit that succeeds */
    /* Borrowed: bytes that checkpoints keep and recovery copies, equal on all workers */
    void *state;
    size_t state_size;
    bool sets_learning_rate; /* the logs have learning_rate then, as Keras' */
    bool warn_only;    /* an error is a warning, once, and on this worker the callback is not called any more */
    void (*release)(void *context); /* called by ls_callback_free; NULL if the callback is its maker's own */
    const char *alike; /* what it was made with that decides: fit ends with INVALID_ARGUMENT before the first step where another
                        * worker's callback of this place says something else. Borrowed; default: nothing */
} ls_callback;
/* ls_callback mine = LS_CALLBACK(.name = "mine", .on_epoch_end = tell, .context = &me); */
#define LS_CALLBACK(...) ((ls_callback){.size = sizeof(ls_callback), __VA_ARGS__})
#define LS_CALLBACKS(...) ((ls_callback *const[]){__VA_ARGS__, NULL})
/* One that the library has made; NULL is nothing. */
LS_API void ls_callback_free(ls_callback *callback);
/* Returns false if there is no such number in the call. */
LS_API bool ls_callback_value(const ls_callback_call *call, const char *name, double *value);
/* Keras' model.stop_training = True: fit ends, with success, after the present epoch on all workers. In a callback. */
LS_API void ls_model_stop_training(ls_model *model);

/* Which way a monitored number gets better: AUTO takes the greater for names with "acc", the smaller for others. */
typedef enum ls_monitor_mode { LS_MONITOR_AUTO = 0, LS_MONITOR_MIN, LS_MONITOR_MAX } ls_monitor_mode;

/* EarlyStopping: ends fit after patience epochs without a better number. */
typedef struct ls_early_stopping_options {
    size_t size;
    const char *monitor;       /* default "val_loss"; INVALID_ARGUMENT at the first epoch's end where there is no such number */
    ls_monitor_mode mode;
    double min_delta;          /* a change below it is none */
    int patience;
    bool has_baseline;         /* patience begins anew only with what is better than baseline, too */
    double baseline;
    bool restore_best_weights; /* fit ends with the best epoch's; they are part of the state */
    int start_from_epoch;      /* epochs before it do not count */
} ls_early_stopping_options;
#define LS_EARLY_STOPPING(...) (&(ls_early_stopping_options){.size = sizeof(ls_early_stopping_options), __VA_ARGS__})
LS_API ls_status ls_early_stopping_new(const ls_early_stopping_options *options, ls_callback **callback);

/* ReduceLROnPlateau: after patience epochs without a better number the learning rate is multiplied by factor. */
typedef struct ls_reduce_on_plateau_options {
    size_t size;
    const char *monitor;  /* default "val_loss" */
    ls_monitor_mode mode;
    double factor;        /* default 0.1 */
    int patience;         /* default 10 */
    double min_delta;     /* default 1e-4 */
    int cooldown;         /* epochs after a reduction that do not count */
    double min_lr;        /* the learning rate does not become less */
} ls_reduce_on_plateau_options;
#define LS_REDUCE_ON_PLATEAU(...) (&(ls_reduce_on_plateau_options){.size = sizeof(ls_reduce_on_plateau_options), __VA_ARGS__})
LS_API ls_status ls_reduce_on_plateau_new(const ls_reduce_on_plateau_options *options, ls_callback **callback);

/* ModelCheckpoint: the weights, as ls_model_save_weights writes them, after each epoch. */
typedef struct ls_model_checkpoint_options {
    size_t size;
    const char *path;    /* with {epoch} (from 1; {epoch:03} with zeros) and {val_loss}, {val_loss:.2f}: any number's name */
    const char *monitor; /* default "val_loss" */
    ls_monitor_mode mode;
    bool save_best_only; /* only where monitor is better than ever before; where it never was a number, a warning at the end */
    bool warn_only;      /* an error is a warning, and training goes on without it */
} ls_model_checkpoint_options;
#define LS_MODEL_CHECKPOINT(...) (&(ls_model_checkpoint_options){.size = sizeof(ls_model_checkpoint_options), __VA_ARGS__})
LS_API ls_status ls_model_checkpoint_new(const ls_model_checkpoint_options *options, ls_callback **callback);

/* TerminateOnNaN: a loss that is not finite ends fit with OUT_OF_RANGE on all workers. */
LS_API ls_status ls_terminate_on_nan_new(ls_callback **callback);

/* CSVLogger: epoch and all logs as columns, a row an epoch. A file that cannot be written is an error that names the
 * path. */
typedef struct ls_csv_logger_options {
    size_t size;
    const char *path;
    char separator; /* default ',' */
    bool append;    /* behind what is in the file; default: it is written anew, unless training goes on */
    bool warn_only; /* an error is a warning, and training goes on without the log */
} ls_csv_logger_options;
#define LS_CSV_LOGGER(...) (&(ls_csv_logger_options){.size = sizeof(ls_csv_logger_options), __VA_ARGS__})
LS_API ls_status ls_csv_logger_new(const ls_csv_logger_options *options, ls_callback **callback);

/* TensorBoard: event files in folder/train and folder/validation with Keras' tags: epoch_loss, epoch_accuracy,
 * epoch_learning_rate, ...; evaluation_loss_vs_iterations. Steps are epochs; of batch_* and _vs_iterations, iterations. In train
 * the model's graph, a node a layer. */
typedef struct ls_tensorboard_options {
    size_t size;
    const char *folder;          /* made where the one above it is there */
    int histogram_freq;          /* histograms of weights, each so many epochs; default: none */
    bool gradients;              /* with them, of the gradients of the epoch's last step: dense/kernel_grad/histogram */
    bool write_images;           /* with them, weights as images */
    int64_t update_freq;         /* batch_loss, ... each so many steps; default: none */
    bool no_graph;               /* without the graph of the layers */
    bool write_steps_per_second; /* epoch_steps_per_second, and with update_freq batch_steps_per_second */
    bool warn_only;              /* an error is a warning, and training goes on without TensorBoard */
} ls_tensorboard_options;
#define LS_TENSORBOARD(...) (&(ls_tensorboard_options){.size = sizeof(ls_tensorboard_options), __VA_ARGS__})
LS_API ls_status ls_tensorboard_new(const ls_tensorboard_options *options, ls_callback **callback);

/* Kubeflow Trainer's TrainJob status (KEP-2779): percentage, remaining seconds and numbers, by POST. The worker that writes
 * gives them to a thread at the end of a step, at most once an interval, and at the end of fit. lockstep train has it where the
 * variables are set. Steps do not wait for the server; fit waits 8 s at most for the last status. The first POST that fails is a
 * warning, and the next status is told all the same. */
typedef struct ls_kubeflow_options {
    size_t size;
    const char *url;        /* default: KUBEFLOW_TRAINER_SERVER_URL */
    const char *authority;  /* a file of certificates; default: KUBEFLOW_TRAINER_SERVER_CA_CERT, else the system's */
    const char *token_file; /* default: KUBEFLOW_TRAINER_SERVER_TOKEN, else none; read for each POST */
    double interval;        /* seconds between two; default 10 */
} ls_kubeflow_options;
#define LS_KUBEFLOW(...) (&(ls_kubeflow_options){.size = sizeof(ls_kubeflow_options), __VA_ARGS__})
LS_API ls_status ls_kubeflow_new(const ls_kubeflow_options *options, ls_callback **callback);

#ifdef __cplusplus
}
#include <lockstep/lockstep.hpp>
#endif

#endif
