/* A smaller learning rate when a number gets no better (keras.callbacks.ReduceLROnPlateau). */
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "callbacks/monitored.h"
#include "train/model.h"

#define FACTOR    0.1
#define PATIENCE  10
#define MIN_DELTA 1e-4

/* The state that survives a restart. The learning rate itself is the model's. */
struct plateau_state {
    double best;
    int64_t wait, cooldown;
};
struct plateau {
    ls_callback callback;
    ls_reduce_on_plateau_options options;
    struct ls_monitored monitor;
    char alike[LS_MONITORED_ALIKE];
    struct plateau_state state;
};

static ls_status build_reduce_on_plateau(void *context, const ls_callback_call *call) {
    struct plateau *plateau = context;
    plateau->state = (struct plateau_state){.best = ls_monitored_worst(&plateau->monitor)};
    return ls_monitored_check(&plateau->monitor, call);
}

static ls_status reduce_rate(struct plateau *plateau, ls_model *model) {
    float rate;
    ls_status status = ls_model_learning_rate(model, &rate);
    if (status || rate <= (float)plateau->options.min_lr) return status;
    double smaller = (double)rate * plateau->options.factor;
    plateau->state.cooldown = plateau->options.cooldown;
    plateau->state.wait = 0;
    return ls_model_set_learning_rate(model,
                                      (float)(smaller > plateau->options.min_lr ? smaller : plateau->options.min_lr));
}

static ls_status end_reduce_on_plateau_epoch(void *context, const ls_callback_call *call) {
    struct plateau *plateau = context;
    struct plateau_state *state = &plateau->state;
    double value;
    ls_status status = ls_monitored_read(&plateau->monitor, call, &value);
    if (status || call->repeated) return status;
    if (state->cooldown > 0) {
        state->cooldown--;
        state->wait = 0;
    }
    if (ls_monitored_improves(&plateau->monitor, value, state->best)) {
        state->best = value;
        state->wait = 0;
        return LS_OK;
    }
    if (state->cooldown > 0) return LS_OK;
    state->wait++;
    return state->wait >= plateau->options.patience ? reduce_rate(plateau, call->model) : LS_OK;
}

static void release_reduce_on_plateau(void *context) {
    struct plateau *plateau = context;
    ls_monitored_free(&plateau->monitor);
    ls_free(plateau);
}

static ls_status settle_options(ls_reduce_on_plateau_options *options) {
    if (options->factor == 0) options->factor = FACTOR;
    if (options->patience == 0) options->patience = PATIENCE;
    if (options->min_delta == 0) options->min_delta = MIN_DELTA;
    if (!(options->factor > 0 && options->factor < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "reduce_on_plateau: factor %g must be above 0 and below 1",
                       options->factor);
    if (options->patience < 0 || options->cooldown < 0 || !(options->min_lr >= 0))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "reduce_on_plateau: patience %d, cooldown %d and min_lr %g must not be negative",
                       options->patience, options->cooldown, options->min_lr);
    return LS_OK;
}

ls_status ls_reduce_on_plateau_new(const ls_reduce_on_plateau_options *options, ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(struct plateau, made, "a callback");
    ls_reduce_on_plateau_options *copy = &made->options;
    ls_status status = ls_options_copy("ls_reduce_on_plateau_options", copy, sizeof(*copy), options);
    if (!status) status = settle_options(copy);
    if (!status)
        status = ls_monitored_new("reduce_on_plateau", copy->monitor, copy->mode, copy->min_delta, &made->monitor);
    if (!status)
        ls_monitored_describe(&made->monitor, made->alike, "factor=%g, patience=%d, cooldown=%d, min_lr=%g",
                              copy->factor, copy->patience, copy->cooldown, copy->min_lr);
    made->callback = LS_CALLBACK(.name = "reduce_on_plateau", .context = made, .on_build = build_reduce_on_plateau,
                                 .on_epoch_end = end_reduce_on_plateau_epoch, .state = &made->state,
                                 .state_size = sizeof(made->state), .sets_learning_rate = true,
                                 .release = release_reduce_on_plateau, .alike = made->alike);
    return LS_HAND_OVER(status, callback, &made->callback, release_reduce_on_plateau(made));
}
