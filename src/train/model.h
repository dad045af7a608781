/* A model from the inside: the network, and for each local replica its blobs, buffers and plans. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/kept_error.h"
#include "base/monitor.h"
#include "data/pipeline.h"
#include "model/loss_scaler.h"
#include "model/network.h"
#include "model/optimizer.h"
#include "collective/bucket.h"
#include "gradients/nccl.h"
#include "gradients/reducer.h"
#include "shard/part.h"
#include "strategy/strategy.h"
#include "train/sync_ops.h"
#include "train/training_progress.h"
#include "train/update.h"

/* The tail of the gradient blob: what every step sums over all replicas beside the gradients. LS_OP_REPORT writes it,
 * so its order is that one's. */
enum {
    LS_EXTRA_LOSS = LS_REPORT_LOSS,
    LS_EXTRA_CORRECT = LS_REPORT_CORRECT, /* a float for its units lies beside it */
    LS_EXTRA_ROWS = LS_REPORT_ROWS,
    LS_EXTRA_WEIGHT = LS_REPORT_WEIGHT,
    LS_EXTRA_UNCOUNTED = LS_REPORT_UNCOUNTED, /* likewise */
    LS_EXTRA_METRICS = LS_REPORT_METRICS,
    LS_EXTRA_SAVE = LS_REPORT_OTHERS,   /* number of workers that ask for a checkpoint */
    LS_EXTRA_STOP,                      /* number of workers that ask to stop */
    LS_EXTRA_STOP_RANKS,                /* the sum of their ranks; with one worker its rank */
    LS_EXTRA_RATE,                      /* the bytes of the learning rate, each in one float, whose sums are exact */
    LS_EXTRA_KEEPS = LS_EXTRA_RATE + 4, /* 1: rank 0 writes checkpoints; 2: one is due after the step */
    LS_EXTRAS = 32
};

/* Numbers that ops read and write beside their tensors, in host memory that every device of the worker reaches. */
struct ls_model_numbers {
    float loss_scale;
    float merge_scale, statistic_scale; /* 1 / batches of the step in its last one, else 1; 1 */
    struct ls_optimizer_step step;      /* the model's, in the present run */
    struct ls_replica_numbers {
        float gradient_scale;         /* the model's loss_scale, or that of labels that count, times the scaler's */
        struct ls_loss_sums sums;     /* of the last run */
        struct ls_loss_sums gathered; /* of the step's batches before it */
        double penalty;          /* for one example; of the variables before the last step, or now in an evaluation */
        double not_finite;       /* gradients of the last step, where they are looked at */
        float report[LS_EXTRAS]; /* to which sums and gathered are added */
        float totals[LS_EXTRAS]; /* what comes of it, where no other replica adds to it */
    } replicas[LS_MAX_LOCAL_DEVICES];
};

/* A replica's part in the exchanges of a step; its own thread's but while all replicas of the worker meet. */
struct ls_model_exchange {
    struct ls_exchange exchange; /* of its plans */
    ls_model *model;
    struct ls_replica *replica;
    double *values; /* to be added; NULL at the end of the step's exchanges */
    size_t count;
    struct ls_kept_error error; /* why it comes without values before the end */
    bool failed;                /* all replicas of the worker know that the step is given up */
};
/* A batch on a device. */
struct ls_model_input {
    void *features;     /* device (rows, shape...): floats, or bytes of a device without host memory */
    float *byte_values; /* device (LS_MOST_CHANNELS, LS_BYTE_VALUES), where that has none: what bytes stand for */
    const struct ls_pixel_table *table; /* that is there; borrowed from the pipeline's dataset; NULL: none */
    void *targets;                      /* device (rows, targets) int32 or float32 */
    float *weights;                     /* device (rows) */
    float *host_weights;                /* the same in host memory, where the device has none */
    void *host_targets;
    bool ahead; /* it holds the batch of step, which has not begun */
    struct ls_pipeline_step step;
    int64_t rows;
};
/* Inputs hold so many rows, each of so many targets, and of bytes of features where the device has no host memory. */
struct ls_input_room {
    int64_t rows, targets;
    size_t example;
};
#define LS_PLANS_KEPT                                                                                                  \
    16 /* row counts (full, one more, short last ones), for training and evaluation, of each input                     \
        */
struct ls_model_replica {
    struct ls_device *device; /* borrowed */
    union {                   /* device blobs of float32, each of as many as its part has */
        struct {
            float *parameters; /* its holder's where it shares */
            float *moments[LS_MAX_MOMENTS];
        };
        float *blobs[1 + LS_MAX_MOMENTS]; /* by the numbers of parts */
    };
    bool shares; /* its holder (ls_strategy_holder) has the variables and moments, and updates them: moments are NULL */
    float *gradients; /* summed_count + LS_EXTRAS */
    /* host memory through which gradients, or the node's sum of them, are sent; NULL if the device has host memory, or
     * gradients stay on devices */
    float *staging;
    const float *totals; /* borrowed: the step's report, of a replica that no other one adds to; else NULL */
    float *mirror;       /* owns: a copy of the parameters in host memory; NULL until a caller asks */
    struct ls_model_input inputs[2];    /* the second one where batches are copied ahead */
    int input;                          /* the present batch's */
    struct ls_replica_numbers *numbers; /* borrowed: the model's for this replica */
    struct ls_update updates[LS_UPDATE_KINDS];
    bool watched; /* the host takes part in the middle of a step */
    /* gradient accumulation: the sum of the step's batches before this one; NULL if a step takes one batch */
    float *gathered;
    struct ls_op *merges; /* [merge_count]: gradients += gathered, of ranges of the blob */
    int merge_count;
    struct ls_arena arena; /* of the plans */
    struct ls_model_exchange exchange;
    struct ls_plan_slot {
        struct ls_plan *plan;
        int64_t rows;
        int input;
        bool training, labelled, numbers, weighted, bytes;
        uint64_t used; /* when, to replace the oldest */
    } plans[LS_PLANS_KEPT];
    uint64_t clock;
    struct ls_loss_sums total; /* of an evaluation */
    float *
        outputs; /* borrowed: host memory for those of an evaluation's step (output_rows, outputs); NULL: nobody asks */
    int64_t output_rows;
    ls_status status; /* of the present step, for the other replicas to see */
};

/* The program describes a model by it. It lives until the model is freed. */
struct ls_model_spec {
    ls_layer *layers;   /* [layer_count] */
    char **layer_names; /* [name_count]: copies that the names in layers point to */
    size_t layer_count, name_count;
    uint64_t seed;
    struct ls_objective objective;
    char *excluded; /* the copy to which the rule's list points; NULL without a list */
    bool compiled;
    bool implied;                             /* predict has compiled it: nothing of that is the user's */
    char *classes, *transform, *note, *about; /* own: of about.h, NULL without */
    char *loss;                               /* likewise: of the file that it was opened from */
    ls_result last;                           /* of the last epoch that has ended; steps is 0 before */
    float compiled_rate;                      /* the learning rate of compile */
    struct ls_initial_weights *initial;       /* owns; NULL if the weights are drawn */
    bool loaded;                              /* initial is still to take the place of what the model has */
};

/* The network and its state. ls_model_build fills it, ls_model_build_release zeroes it. */
struct ls_model_built {
    struct ls_network *network; /* NULL before the first dataset */
    ls_shape input;
    size_t blob_count, summed_count; /* as of ls_network_blob_count, ls_network_summed_count */
    struct ls_blob_part *parts;      /* [part_count]: the trained variables, for the optimizer */
    size_t part_count;
    struct ls_model_replica *replicas; /* [replica_count] */
    int replica_count;                 /* the strategy's, unless these could not be made */
    struct ls_model_numbers *numbers;  /* owns; in memory of host */
    struct ls_device *host;            /* the device whose host memory all others reach; borrowed */
    struct ls_shard_part *state;       /* [state_count] all that a training changes (model_state.h) */
    size_t state_count;
    struct ls_monitor *turns; /* owns: [device_count] (turns.c) */
    struct ls_sparse *sparse; /* rows of tables; NULL without sparse ones */
    struct ls_stages *stages; /* owns: this worker's stage of a pipeline; NULL: there is none, or not yet */
    struct ls_shards *shards; /* owns: moments of this worker; NULL: they are not divided, or not made yet */
    struct ls_input_room room;
    /* as of ls_nccl_describe, of the newest generation that the model was bound to; "" with one replica, or with CPU
     * devices only */
    char adder[LS_ADDER_TEXT];
};

/* All local replicas come to it, each with the status of its step so far. Returns that, or an error. */
typedef ls_status ls_replica_step_fn(ls_model *model, int local, ls_status status);

/* The parts of one generation of the group. ls_bind_attach fills it, ls_bind_detach zeroes it. The reducer adds
 * gradients by NCCL if nccl is set. Otherwise the host adds them, after node, if set, has added those of this worker's
 * GPUs. */
struct ls_model_bound {
    bool attached;        /* all of it is made */
    void *shared;         /* of ls_group_share: the replicas' gradients side by side, or the staging */
    bool pinned;          /* shared is, by host */
    void *staging;        /* the same for a worker that is alone, where devices have no host memory */
    struct ls_bytes kept; /* the replicas' gradients, where workers divide them (kept_gradients.h) */
    struct ls_bucket *buckets;
    size_t bucket_count;
    struct ls_adder adder;
    struct ls_reducer *reducer; /* NULL unless ls_model_is_reduced */
    bool goes_on;               /* steps go on behind the replicas, which neither wait for sums nor update variables */
    void *way;                  /* of the way from gradients to variables; NULL: nothing */
    ls_plan_await_fn *await;    /* for variables of the step before; NULL: they are there */
    void *await_context;
    struct ls_store *store;     /* NULL unless servers keep variables */
    struct ls_nccl *nccl;       /* NULL if the host adds */
    struct ls_intra_node *node; /* NULL if the host takes every replica's gradients */
    /* what parts of the model do in each replica's step; NULL: nothing */
    ls_replica_step_fn *loaded; /* its batch is loaded */
    ls_replica_step_fn *computed;
    bool synchronized;       /* replicas exchange statistics in a step, so its buckets are given at the end */
    float extras[LS_EXTRAS]; /* of the last step, over all replicas */
};

/* Steps move it. A release begins the iteration and the scaler anew. */
struct ls_model_progress {
    struct ls_optimizer_step step; /* its rule has the present learning rate */
    struct ls_loss_scaler scaler;  /* after the last committed step */
    float epoch_rate;              /* the learning rate as on_epoch finds it after the last epoch that is done */
    bool stop_training;            /* a callback wishes that fit ends after the epoch */
    ls_request request;            /* this worker's, until a step with it commits */
    ls_request asked;            /* this worker's with the last committed step, which may be undone (sync/servers.c) */
    struct ls_requests requests; /* all workers', of the last committed step */
    bool keeps, fetches;         /* this worker writes checkpoints; one is due after the present step */
    int64_t whole; /* the step of the variables that were left when the model was unbound, as of sync/servers.c */
    bool returns;  /* the present fit can begin anew, from its newest checkpoint */
    bool drains;   /* a checkpoint may be due after the present step, whoever writes it */
    struct ls_pipeline *pipeline; /* of the present fit or evaluation, borrowed */
};

struct ls_model {
    ls_strategy *strategy; /* borrowed */
    const struct ls_sync_ops *sync;
    ls_model *next;    /* of the strategy's models */
    int64_t number;    /* counts the strategy's models in the order of their first calls, from 1; 0: none yet */
    int64_t last_call; /* its index; of a model with a number */
    struct ls_model_spec spec;
    struct ls_model_built built;
    struct ls_model_bound bound;
    struct ls_model_progress progress;
};

/* True if a step needs no other worker. */
static inline bool ls_model_is_alone(const ls_model *model) {
    return model->strategy->runtime->size == 1 || model->sync->apart || model->sync->stages;
}

/* True if the reducer adds gradients, bucket by bucket. bound.nccl is known. */
static inline bool ls_model_is_reduced(const ls_model *model) {
    return model->bound.nccl || !ls_model_is_alone(model) || model->sync->pushes || model->strategy->node_replicas > 1;
}

/* INVALID_ARGUMENT where data, which may be NULL, has no labels; FAILED_PRECONDITION where no compile was called. */
ls_status ls_model_check_trainable(const ls_model *model, const ls_dataset *data);
/* Of the variables that this worker has. */
ls_status ls_model_digest_here(const ls_model *model, char hex[65]);
/* The learning rate of the step after the last committed one. */
float ls_model_next_rate(const ls_model *model);
