/* Sums over all replicas in the middle of a step: the statistics of synchronized batch normalization, forward and
 * backward. Every replica comes to every exchange, in the order of the plan; the last one of a worker to come adds for
 * all of them, in the tree over replica ids. A replica that fails comes once more, to the next exchange or to the end,
 * with its error in place of values: so nobody waits for it. An exchange that fails has failed for the whole worker. */
#include "train/step.h"

#include <string.h>

#include "base/point.h"
#include "base/status.h"
#include "strategy/strategy.h"
#include "train/model.h"

size_t ls_sync_batch_norm_first(const ls_model *model) {
    size_t i = 0;
    while (i < model->spec.layer_count && (!model->spec.layers[i].synchronized || model->spec.layers[i].frozen)) i++;
    return i;
}

ls_status ls_sync_batch_norm_refuse(const ls_model *model, const char *subject, const char *why) {
    size_t first = ls_sync_batch_norm_first(model);
    if (first == model->spec.layer_count) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED, "%s: layer %zu is a synchronized batch normalization, %s", subject, first, why);
}

/* Other workers hear the cause, and not that their peers have given up. */
static ls_status give_up_step(ls_model *model, int local) {
    const struct ls_model_exchange *failed = &model->built.replicas[local].exchange;
    const struct ls_runtime *runtime = model->strategy->runtime;
    if (runtime->size > 1) ls_runtime_give_up(runtime, failed->error.status, failed->error.message);
    return ls_fail(LS_ABORTED, "the step is given up: replica %d failed", model->strategy->replicas[local].id);
}

/* By the last replica to come. */
static ls_status add_all(ls_strategy *strategy, void *context) {
    ls_model *model = context;
    void *arrays[LS_MAX_LOCAL_DEVICES];
    size_t count = model->built.replicas[0].exchange.count;
    int giving = 0;
    for (int i = 0; i < strategy->local_count; i++) {
        const struct ls_model_exchange *exchange = &model->built.replicas[i].exchange;
        if (exchange->error.status) return give_up_step(model, i);
        arrays[i] = exchange->values;
        giving += exchange->values && exchange->count == count;
    }
    if (!giving) return LS_OK; /* the end */
    if (giving != strategy->local_count) return ls_fail(LS_INTERNAL, "replicas came to different exchanges of a step");
    ls_reached("exchange");
    return ls_reduce_all_replicas(strategy, LS_ALL_REDUCE("batch statistics", .count = count, .dtype = LS_FLOAT64,
                                                          .inputs = (const void *const *)arrays, .outputs = arrays));
}

static ls_status add_over_replicas(struct ls_model_exchange *own, double *values, size_t count) {
    own->values = values;
    own->count = count;
    ls_status status = ls_replicas_meet(own->replica, add_all, own->model);
    own->failed = status != LS_OK;
    return status;
}

static ls_status add_values(void *context, double *values, size_t count) {
    return add_over_replicas(context, values, count);
}

/* When a replica's step is computed, or has failed: the worker's other replicas, who may wait for it in an exchange,
 * give up the step too. Returns status, or ABORTED for another one's failure.
 *
 * The end is a meeting as well, with no values: a replica that fails after the last exchange would otherwise go unseen
 * until the all-reduce of gradients. known means that the failure was already heard of at an exchange, where all met.
 */
static ls_status end_exchanges(ls_model *model, int local, ls_status status) {
    struct ls_model_exchange *own = &model->built.replicas[local].exchange;
    bool known = own->failed;
    own->failed = false;
    if (known) return status;
    ls_kept_error_set(&own->error, status);
    ls_status others = add_over_replicas(own, NULL, 0);
    own->failed = false;
    own->error.status = LS_OK;
    return status ? ls_fail(status, "%s", own->error.message) : others;
}

void ls_sync_batch_norm_attach(ls_model *model) {
    ls_strategy *strategy = model->strategy;
    model->bound.synchronized = ls_sync_batch_norm_first(model) < model->spec.layer_count && strategy->total_count > 1;
    if (!model->bound.synchronized) return;
    model->bound.computed = end_exchanges;
    for (int i = 0; i < strategy->local_count; i++) {
        struct ls_model_exchange *own = &model->built.replicas[i].exchange;
        *own = (struct ls_model_exchange){
            .exchange = {add_values, own}, .model = model, .replica = &strategy->replicas[i]};
        model->built.replicas[i].watched = true;
    }
}
