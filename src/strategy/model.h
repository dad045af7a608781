/* A model from the inside: the network, and for each local replica its blobs, buffers and plans. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/pipeline.h"
#include "model/loss_scaler.h"
#include "model/network.h"
#include "model/optimizer.h"
#include "strategy/bucket.h"
#include "strategy/nccl.h"
#include "strategy/reducer.h"
#include "strategy/strategy.h"

/* The tail of the gradient blob: what every step sums over all replicas beside the gradients. LS_OP_REPORT writes it,
 * so its order is that one's. */
enum {
    LS_EXTRA_LOSS = LS_REPORT_LOSS,
    LS_EXTRA_CORRECT = LS_REPORT_CORRECT,
    LS_EXTRA_ROWS = LS_REPORT_ROWS,
    LS_EXTRA_METRICS = LS_REPORT_METRICS,
    LS_EXTRA_SAVE = LS_REPORT_OTHERS, /* workers that ask for a checkpoint */
    LS_EXTRA_STOP,                    /* workers that ask to stop */
    LS_EXTRA_STOP_RANKS,              /* the sum of their ranks: the rank where it is one */
    LS_EXTRA_RATE,                    /* the bytes of the learning rate, each in one float, whose sums are exact */
    LS_EXTRAS = 32
};

/* What ops read and write beside their tensors, in host memory that every device of the worker reaches. */
struct ls_model_numbers {
    float loss_scale;
    float gradient_scale;               /* loss_scale, times the scaler's */
    float merge_scale, statistic_scale; /* 1 / batches of the step in its last one, else 1; 1 */
    struct ls_optimizer_step step;      /* the model's, in the present run */
    struct ls_replica_numbers {
        struct ls_loss_sums sums;     /* of the last run */
        struct ls_loss_sums gathered; /* of the step's batches before it */
        double penalty;          /* for one example; of the variables before the last step, or now in an evaluation */
        double not_finite;       /* gradients of the last step, where they are looked at */
        float report[LS_EXTRAS]; /* to which sums and gathered are added */
    } replicas[LS_MAX_LOCAL_DEVICES];
};

/* What the workers have asked for in a step: how many of them. */
struct ls_requests {
    int save, stop;
    int stop_ranks; /* the sum of the ranks that ask to stop */
};

/* A replica's part in the exchanges of a step; its own thread's but while all replicas of the worker meet. */
struct ls_model_exchange {
    struct ls_exchange exchange; /* of its plans */
    ls_model *model;
    struct ls_replica *replica;
    double *values; /* to be added; NULL: it has come to the end of the step's exchanges */
    size_t count;
    ls_status status; /* why it comes without values before the end */
    char error[LS_ERROR_SIZE];
    bool failed; /* all replicas of the worker know that the step is given up */
};
/* A batch on a device. */
struct ls_model_input {
    float *features;      /* device (max_rows, shape...) */
    int32_t *labels;      /* device (max_rows) */
    float *host_features; /* the same in host memory, where the device has none */
    int32_t *host_labels;
    bool ahead; /* it holds that step's, which is not the present one yet */
    struct ls_pipeline_step step;
    int64_t rows;
};
#define LS_PLANS_KEPT                                                                                                  \
    16 /* row counts (full, one more, short last ones), for training and evaluation, of each input                     \
        */
struct ls_model_replica {
    struct ls_device *device; /* borrowed */
    float *parameters;        /* device blobs of blob_count float32 */
    float *gradients;         /* blob_count + LS_EXTRAS */
    float *staging; /* host memory for the gradients, or the node's sum of them, on their way; NULL: there is no way */
    float *moments[LS_MAX_MOMENTS];
    float *mirror;                      /* owns: the parameters in host memory for who asks; NULL: nobody has */
    struct ls_model_input inputs[2];    /* the second one where batches are copied ahead */
    int input;                          /* the present batch's */
    struct ls_replica_numbers *numbers; /* borrowed: the model's for this replica */
    struct ls_op optimizer;
    struct ls_op report;     /* the extras */
    struct ls_op statistics; /* adds to the variables that are not trained what the step changes in them */
    struct ls_op penalty;    /* of the regularisers, if there are any */
    struct ls_op finite;     /* how many gradients are not -> numbers->not_finite; float16 */
    bool optimizer_built, report_built, statistics_built, penalty_built, finite_built;
    /* gradient accumulation: what the step's batches before this one have given; NULL: it takes one */
    float *gathered;
    struct ls_op *merges; /* [merge_count]: gradients += gathered, of ranges of the blob */
    struct ls_op gather;  /* gathered = gradients */
    int merge_count;
    bool gather_built;
    struct ls_arena arena; /* of the plans */
    struct ls_model_exchange exchange;
    struct ls_plan_slot {
        struct ls_plan *plan;
        int64_t rows;
        int input;
        bool training;
        uint64_t used; /* when, to replace the oldest */
    } plans[LS_PLANS_KEPT];
    uint64_t clock;
    struct ls_loss_sums total; /* of an evaluation */
    const float *outputs;      /* of the evaluation's present step, device (output_rows, outputs) */
    int64_t output_rows;
    ls_status status; /* of the present step, for the other replicas to see */
};

struct ls_model {
    ls_strategy *strategy; /* borrowed */
    ls_layer *layers;      /* until the network is made */
    char **layer_names;    /* copies that the names in layers point to */
    size_t layer_count, name_count;
    uint64_t seed;
    struct ls_objective objective;
    char *excluded; /* the copy to which the rule's list points; NULL: none */
    bool compiled;
    struct ls_initial_weights *initial; /* owns; NULL: they are drawn */
    struct ls_network *network;         /* NULL before the first dataset */
    ls_shape input;
    size_t blob_count;
    struct ls_blob_part *parts; /* [part_count]: the trainable variables, for the optimizer */
    size_t part_count;
    struct ls_model_replica *replicas; /* [replica_count] */
    int replica_count;                 /* the strategy's, unless these could not be made */
    struct ls_model_numbers *numbers;  /* owns, of: */
    struct ls_device *host;            /* the device whose host memory all others reach; borrowed */
    void *shared;                      /* of ls_group_share: the replicas' gradients side by side, or the staging */
    bool pinned;                       /* shared is, by host */
    void *staging;                     /* the same for a worker that is alone, where devices have no host memory */
    int64_t max_rows;                  /* that the buffers hold */
    bool attached;                     /* to the present generation: shared, buckets and reducer are made */
    struct ls_bucket *buckets;
    size_t bucket_count;
    struct ls_reducer *reducer; /* NULL with one worker, unless: */
    struct ls_nccl *nccl;       /* adds the gradients; NULL: */
    char adder[LS_ADDER_TEXT];  /* in the newest generation that it was attached to; "": nothing is to add, or near */
    struct ls_node *node;       /* adds those of this worker's GPUs; NULL: the host adds all */
    bool synchronized;          /* replicas exchange statistics in a step, so its buckets are given at the end */
    float extras[LS_EXTRAS];    /* of the last step, over all replicas */
    struct ls_optimizer_step step; /* its rule has the present learning rate */
    struct ls_loss_scaler scaler;  /* after the last committed step */
    float compiled_rate;           /* the learning rate of compile, */
    float epoch_rate;              /* and as on_epoch finds it after the last epoch that is done */
    bool stop_training;            /* a callback wishes that fit ends after the epoch */
    ls_request request;            /* this worker's, until a step with it commits */
    struct ls_requests requests;   /* all workers', of the last committed step */
    struct ls_pipeline *pipeline;  /* of the present fit or evaluation, borrowed */
};

/* Whether gradients go to others bucket by bucket; nccl is known. */
static inline bool ls_model_is_reduced(const ls_model *model) {
    return model->nccl || model->strategy->membership->size > 1 || model->strategy->node_replicas > 1;
}

/* build.c: the network alone, if there is none yet. */
ls_status ls_model_plan(ls_model *model, const ls_dataset *data);
/* Makes the network for data (first use), broadcasts the chief's weights, and grows the buffers for pipeline.
 * With a state, of ls_model_state_count floats, it is no collective, and the model has that state. */
ls_status ls_model_build(ls_model *model, const ls_dataset *data, const struct ls_pipeline *pipeline,
                         const float *state);
void ls_model_release(ls_model *model); /* what plan, build and attach made */
/* For the strategy's replicas from that index on, of a model that is built and detached. */
ls_status ls_model_add_replicas(ls_model *model, int from);
void ls_model_drop_replicas(ls_model *model, int from);
/* weights.c: what a file of weights has, over the initial values in a blob; nothing where there is no file. */
ls_status ls_initial_weights_take(const ls_model *model, float *blob);
void ls_initial_weights_free(struct ls_initial_weights *initial);
/* attach.c: makes what training needs in the present generation; collective. Detach before the group goes. */
ls_status ls_model_attach(ls_model *model);
void ls_model_detach(ls_model *model);
void ls_model_drop_plans(struct ls_model_replica *replica);
/* state.c: parameters, then the optimizer's moments, as they lie in the blobs: of the first replica, and to all. The
 * model is built. */
size_t ls_model_state_count(const ls_model *model);
ls_status ls_model_get_state(const ls_model *model, float *state);
ls_status ls_model_set_state(ls_model *model, const float *state);
/* A copy in host memory of count elements from an offset of one of the first replica's blobs; freed with ls_free. */
ls_status ls_model_copy_out(const ls_model *model, const float *blob, size_t offset, size_t count, float **copy);
/* The parameters alone, blob_count floats. */
ls_status ls_model_get_parameters(const ls_model *model, float *parameters);
ls_status ls_model_set_parameters(ls_model *model, const float *parameters);
/* "model=...\n" of a built model: equal exactly when the networks are. Freed with ls_free. */
ls_status ls_model_describe(const ls_model *model, char **line);
/* The learning rate of the step after the last committed one. */
float ls_model_next_rate(const ls_model *model);
/* input.c: room for batches of so many rows a replica, and for what an input was that is copied ahead. */
ls_status ls_inputs_reserve(ls_model *model, int64_t rows);
void ls_inputs_release(struct ls_model_replica *replica);
/* The data of the present call; NULL: it ends. What was copied ahead of other data is dropped. */
void ls_model_use_pipeline(ls_model *model, struct ls_pipeline *pipeline);
/* In the replica's thread: the present step's examples lie in its present input, or will when the ops that are queued
 * from now on run. */
ls_status ls_input_load(const ls_model *model, int local, int64_t *rows);
/* In the replica's thread, when the step's ops are queued: brings the next step's examples on their way, if they are of
 * the same epoch or another one may follow. The pipeline stays where it is; what fails here is met when the step comes.
 */
void ls_input_load_ahead(const ls_model *model, int local, bool next_epoch);
void ls_inputs_forget(ls_model *model);
/* exchange.c: for the present generation. */
void ls_model_exchange_attach(ls_model *model);
/* When a replica's step is computed, or has failed: the worker's other replicas, who may wait for it in an exchange,
 * give up the step too. Returns status, or ABORTED for another one's failure. */
ls_status ls_model_exchange_end(ls_model *model, int local, ls_status status);
/* step.c: the pipeline's present step on all replicas. Training is a transaction: it commits, or changes nothing. sums
 * receives loss (not divided), correct and rows over all replicas. */
ls_status ls_model_train_step(ls_model *model, int batches, struct ls_loss_sums *sums);
/* Before it, where a step takes several batches: one of them but the last. batch counts from 0. It commits nothing, so
 * that after a failure the step begins again with its first batch. */
ls_status ls_model_gather_step(ls_model *model, int batch);
/* accumulate.c: what a replica needs to gather, if the optimizer takes several batches a step. With gradients,
 * attached. */
ls_status ls_gather_build(const ls_model *model, struct ls_model_replica *replica);
void ls_gather_release(struct ls_model_replica *replica);
/* In the replica's thread, after batches before this one: what was gathered is added in all buckets (one, where the
 * model is not reduced) that begin at offset or behind it, and before end. */
ls_status ls_gather_merge(const struct ls_model_replica *replica, size_t offset, size_t end);
/* This batch is gathered; merged where it is not the first. */
ls_status ls_gather_keep(const ls_model *model, struct ls_model_replica *replica, bool first);
/* precision.c: UNIMPLEMENTED where a local device has no ops of that precision. */
ls_status ls_precision_try(const ls_strategy *strategy, ls_precision precision);
/* What a replica needs where the loss is scaled. With gradients, attached. */
ls_status ls_scaling_build(const ls_model *model, struct ls_model_replica *replica);
void ls_scaling_release(struct ls_model_replica *replica);
void ls_scaling_begin(ls_model *model); /* a batch of the next step, whose loss_scale is set */
/* In the replica's thread, when the gradients are summed: looks whether all are finite numbers, and waits for the
 * answer, */
ls_status ls_scaling_look(const struct ls_model_replica *replica);
/* ... which is this until the next look. Where the loss is not scaled: yes. */
bool ls_scaling_is_finite(const struct ls_model_replica *replica);
/* Adds to each replica's total, and leaves its outputs. */
ls_status ls_model_evaluate_step(ls_model *model);
/* By the caller's thread: the first replica's penalty is that of the variables as they are. */
ls_status ls_model_measure_penalty(ls_model *model);
/* Means over the examples, as a result has them. accuracy is NaN where there is none; metrics has LS_MAX_METRICS. */
void ls_model_means(const ls_model *model, const struct ls_loss_sums *sums, double *loss, double *accuracy,
                    double *metrics);
/* memory.c: fills what result tells of it; and a line for people, where the device has told. */
void ls_model_tell_memory(const ls_model *model, ls_result *result);
void ls_model_log_memory(const ls_model *model, const ls_result *result);
/* verify.c: DATA_LOSS naming the replicas when copies of the variables differ anywhere. */
ls_status ls_model_verify(ls_model *model);
