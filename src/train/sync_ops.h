/* The ways from gradients to new variables. A strategy names one of them. A way's file has what is peculiar to it: in a
 * generation of the group, in a step, and in a fit. All other files know these functions alone. */
#pragma once
#include <stdio.h>

#include "strategy/strategy.h"

struct ls_fitting;
struct ls_loss_sums;
struct ls_pipeline;
struct ls_reducer_config;
/* A function that is NULL does nothing. commit and open_data are always there; check is, where servers keep something.
 */
struct ls_sync_ops {
    bool apart;        /* a step is of this worker's batch alone */
    bool pushes;       /* gradients go to servers bucket by bucket */
    bool asks_in_step; /* a worker's request goes with the sums of its step */
    bool counts_later; /* the scale of labels that count is that of the sums (label_count.c) */
    bool leaves;       /* a step changes no variable: servers do when they get its gradients */
    bool stages;       /* workers have a range of the layers each, and the rows of their replica */
    bool updates;      /* the way changes the variables, and no op of a replica does */

    /* Before servers take the model: UNIMPLEMENTED for one that they cannot. */
    ls_status (*check)(const ls_model *model);
    /* Lines of a fingerprint that tell its options. checkpoint: of the fit. */
    ls_status (*describe)(FILE *out, const ls_strategy *strategy, const ls_checkpoint_options *checkpoint);
    /* Warns of gradients that are older than the variables. rule: the optimizer, which they suit less. */
    void (*advise)(const struct ls_log *log, const ls_strategy *strategy, const char *rule);

    /* The parts of a generation. config: what the reducer is to be made of. */
    ls_status (*attach)(ls_model *model, struct ls_reducer_config *config);
    /* The reducer is freed. */
    void (*detach)(ls_model *model);

    /* The model's present step begins, whose numbers are known. */
    void (*begin)(ls_model *model);
    /* All replicas have given the step. */
    ls_status (*given)(ls_model *model);
    /* The step commits. sums become its own, or those of an earlier one. Requests in them become the model's. */
    ls_status (*commit)(ls_model *model, struct ls_loss_sums *sums);
    /* Waits until nothing is on the wire. */
    ls_status (*settle)(const ls_model *model);

    /* The data of a fit. */
    ls_status (*open_data)(const ls_strategy *strategy, const ls_dataset *data, const ls_class_weight *weight,
                           struct ls_pipeline **pipeline);
    /* A fit's part of the way. UNIMPLEMENTED for a model that cannot be trained so. */
    ls_status (*open)(struct ls_fitting *fitting);
    void (*close)(struct ls_fitting *fitting);
    /* The next transaction of a fit, where that is no step. */
    ls_status (*train)(struct ls_fitting *fitting);
    /* The batches of a step, and the step, as ls_fit_batches_run. NULL: one batch after the other. */
    ls_status (*run)(struct ls_fitting *fitting, int64_t *taken, struct ls_loss_sums *sums);
    ls_status (*begin_step)(struct ls_fitting *fitting);
    /* A fit has added the sums of its step. *met, which is true before: all workers have the same state, the newest. */
    ls_status (*end_step)(struct ls_fitting *fitting, const struct ls_loss_sums *sums, bool *met);
    /* After a failure: the state is that before the transaction. Returns the failure, with its message. */
    ls_status (*go_back)(struct ls_fitting *fitting, ls_status status);
};

/* The strategy's way. They stand in the room sync, above this one. */
const struct ls_sync_ops *ls_sync_of(const ls_strategy *strategy);
