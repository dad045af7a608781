/* The statistics of synchronized batch normalization, forward and backward: sums over all replicas (step_exchange.c) in
 * the order of the plan. A replica that fails comes once more, to the next exchange or to the end. */
#include "train/step.h"

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

static ls_status add_values(void *context, double *values, size_t count) {
    return ls_step_exchange(context, values, count);
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
    ls_status others = ls_step_exchange(own, NULL, 0);
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
        own->exchange = (struct ls_exchange){add_values, own};
        model->built.replicas[i].watched = true;
    }
}
