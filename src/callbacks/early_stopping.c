/* Ending a fit: when a number gets no better (keras.callbacks.EarlyStopping), or is none (TerminateOnNaN). */
#include <math.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "callbacks/monitored.h"
#include "train/model.h"
#include "train/model_state.h"

/* The state that survives a restart. The best epoch's parameters follow it where they are wanted. */
struct stopping_state {
    double best;
    int64_t wait, best_epoch; /* best_epoch -1: none is yet */
    int64_t stops;            /* 1: patience is at its end */
    float parameters[];
};
struct stopping {
    ls_callback callback;
    ls_early_stopping_options options;
    struct ls_monitored monitor;
    char alike[LS_MONITORED_ALIKE];
    struct stopping_state *state; /* owns */
};

static size_t state_size(const struct stopping *stopping, const ls_model *model) {
    return sizeof(struct stopping_state) +
           (stopping->options.restore_best_weights ? model->built.blob_count * sizeof(float) : 0);
}

static ls_status build_early_stopping(void *context, const ls_callback_call *call) {
    struct stopping *stopping = context;
    size_t size = state_size(stopping, call->model);
    ls_status status = ls_monitored_check(&stopping->monitor, call);
    if (status) return status;
    ls_free(stopping->state);
    stopping->state = ls_alloc(size);
    if (!stopping->state) return ls_fail_memory("the best weights", size);
    stopping->state->best = ls_monitored_worst(&stopping->monitor);
    stopping->state->best_epoch = -1;
    stopping->callback.state = stopping->state;
    stopping->callback.state_size = size;
    return LS_OK;
}

static ls_status keep_best(struct stopping *stopping, const ls_callback_call *call) {
    stopping->state->best_epoch = call->epoch;
    return stopping->options.restore_best_weights
               ? ls_model_state_get_parameters(call->model, stopping->state->parameters)
               : LS_OK;
}

static ls_status decide(struct stopping *stopping, const ls_callback_call *call, double value) {
    const ls_early_stopping_options *options = &stopping->options;
    struct stopping_state *state = stopping->state;
    ls_status status = state->best_epoch < 0 ? keep_best(stopping, call) : LS_OK;
    state->wait++;
    if (!status && ls_monitored_improves(&stopping->monitor, value, state->best)) {
        state->best = value;
        if (!options->has_baseline || ls_monitored_improves(&stopping->monitor, value, options->baseline))
            state->wait = 0;
        return keep_best(stopping, call);
    }
    state->stops = state->wait >= options->patience && call->epoch > 0;
    return status;
}

static ls_status end_early_stopping_epoch(void *context, const ls_callback_call *call) {
    struct stopping *stopping = context;
    double value;
    if (call->epoch < stopping->options.start_from_epoch) return LS_OK;
    ls_status status = ls_monitored_read(&stopping->monitor, call, &value);
    if (!status && !call->repeated) status = decide(stopping, call, value);
    if (!status && stopping->state->stops) ls_model_stop_training(call->model);
    return status;
}

/* Once, by the chief: which epoch was best, and whose weights are there. */
static void tell(const struct stopping *stopping, const ls_callback_call *call) {
    const struct stopping_state *state = stopping->state;
    const struct ls_runtime *runtime = call->model->strategy->runtime;
    bool restores = stopping->options.restore_best_weights;
    if (runtime->rank || state->best_epoch < 0 || !(state->stops || restores)) return;
    ls_log_info(&runtime->log, "early_stopping: %s was best after epoch %lld: %.6g; the model has the weights of %s",
                stopping->monitor.name, (long long)state->best_epoch + 1, state->best,
                restores ? "that epoch" : "the last epoch (restore_best_weights, --restore-best: the best one's)");
}

static ls_status restore(void *context, const ls_callback_call *call) {
    const struct stopping *stopping = context;
    tell(stopping, call);
    if (!stopping->options.restore_best_weights || stopping->state->best_epoch < 0) return LS_OK;
    return ls_model_state_set_parameters(call->model, stopping->state->parameters);
}

static void release_early_stopping(void *context) {
    struct stopping *stopping = context;
    ls_monitored_free(&stopping->monitor);
    ls_free(stopping->state);
    ls_free(stopping);
}

ls_status ls_early_stopping_new(const ls_early_stopping_options *options, ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(struct stopping, made, "a callback");
    ls_early_stopping_options *copy = &made->options;
    ls_status status = ls_options_copy("ls_early_stopping_options", copy, sizeof(*copy), options);
    if (!status && (copy->patience < 0 || copy->start_from_epoch < 0))
        status =
            ls_fail(LS_INVALID_ARGUMENT, "early_stopping: patience %d and start_from_epoch %d must not be negative",
                    copy->patience, copy->start_from_epoch);
    if (!status)
        status = ls_monitored_new("early_stopping", copy->monitor, copy->mode, copy->min_delta, &made->monitor);
    if (!status)
        ls_monitored_describe(&made->monitor, made->alike,
                              "patience=%d, baseline=%g, restore_best_weights=%d, start_from_epoch=%d", copy->patience,
                              copy->has_baseline ? copy->baseline : (double)NAN, copy->restore_best_weights,
                              copy->start_from_epoch);
    made->callback = LS_CALLBACK(.name = "early_stopping", .context = made, .on_build = build_early_stopping,
                                 .on_epoch_end = end_early_stopping_epoch, .on_train_end = restore,
                                 .release = release_early_stopping, .alike = made->alike);
    return LS_HAND_OVER(status, callback, &made->callback, release_early_stopping(made));
}

/* ---- not a number ---- */

static ls_status check_loss(void *context, const ls_callback_call *call) {
    double loss;
    (void)context;
    if (!ls_callback_value(call, "loss", &loss) || isfinite(loss)) return LS_OK;
    return ls_fail(LS_OUT_OF_RANGE, "the loss is %s: training has diverged, or the data hold what is no number",
                   isnan(loss) ? "nan" : "inf");
}

ls_status ls_terminate_on_nan_new(ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(ls_callback, made, "a callback");
    *made =
        LS_CALLBACK(.name = "terminate_on_nan", .context = made, .on_train_batch_end = check_loss, .release = ls_free);
    *callback = made;
    return LS_OK;
}
