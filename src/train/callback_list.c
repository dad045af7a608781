/* Telling callbacks, and their states as bytes. */
#include "train/callback_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "base/text.h"
#include "runtime/state_transfer.h"

/* At most so many numbers in a call: loss, accuracy and metrics, each also of validation; the learning rate. */
#define LOGS (2 * (2 + LS_MAX_METRICS) + 1)

struct ls_callback_list {
    ls_model *model;
    ls_callback *const *list;
    size_t count;
    bool *silenced; /* [count]: has failed, and that was a warning */
    bool validates, built;
    char *names;
};

/* ---- making ---- */

static ls_status check_callbacks(ls_callback *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name = list[i]->size == sizeof(ls_callback) ? list[i]->name : NULL;
        if (list[i]->size != sizeof(ls_callback))
            return ls_fail(LS_INVALID_ARGUMENT, "callback %zu: size is %zu instead of %zu: fill it with LS_CALLBACK", i,
                           list[i]->size, sizeof(ls_callback));
        if (!name || !*name) return ls_fail(LS_INVALID_ARGUMENT, "callback %zu has no name", i);
        for (size_t j = 0; j < i; j++)
            if (list[j] == list[i]) return ls_fail(LS_INVALID_ARGUMENT, "callback %s is in the list twice", name);
    }
    return LS_OK;
}

ls_status ls_callback_list_new(ls_model *model, ls_callback *const *list, bool validates,
                               struct ls_callback_list **callbacks) {
    size_t count = 0;
    while (list && list[count]) count++;
    *callbacks = NULL;
    if (!count) return LS_OK;
    ls_status status = check_callbacks(list, count);
    if (status) return status;
    LS_NEW(struct ls_callback_list, made, "callbacks");
    *made = (struct ls_callback_list){model, list, count, ls_alloc_array(count, sizeof(bool)), validates, false, NULL};
    if (!made->silenced) status = ls_fail_memory("callbacks", count);
    return LS_HAND_OVER(status, callbacks, made, ls_callback_list_free(made));
}

void ls_callback_list_free(struct ls_callback_list *callbacks) {
    if (!callbacks) return;
    free(callbacks->names); /* of open_memstream */
    ls_free(callbacks->silenced);
    ls_free(callbacks);
}

void ls_callback_free(ls_callback *callback) {
    if (callback && callback->release) callback->release(callback->context);
}

/* ---- telling ---- */

static ls_callback_fn *function_of(const ls_callback *callback, enum ls_callback_event event) {
    ls_callback_fn *const functions[] = {
        [LS_ON_BUILD] = callback->on_build,
        [LS_ON_TRAIN_BEGIN] = callback->on_train_begin,
        [LS_ON_EPOCH_BEGIN] = callback->on_epoch_begin,
        [LS_ON_TRAIN_BATCH_BEGIN] = callback->on_train_batch_begin,
        [LS_ON_TRAIN_BATCH_END] = callback->on_train_batch_end,
        [LS_ON_EPOCH_END] = callback->on_epoch_end,
        [LS_ON_TRAIN_END] = callback->on_train_end,
    };
    return functions[event];
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const ls_callback_log *)left)->name, ((const ls_callback_log *)right)->name);
}

/* The numbers of a call, and their names. */
struct logs {
    ls_callback_log list[LOGS];
    size_t count;
    char names[LOGS][64];
};

static void add_log(struct logs *logs, const char *prefix, const char *name, double value) {
    char *whole = logs->names[logs->count];
    (void)snprintf(whole, sizeof(logs->names[0]), "%s%s", prefix, name);
    logs->list[logs->count++] = (ls_callback_log){whole, value};
}

static void add_metrics(struct logs *logs, const char *prefix, const ls_model *model, const double *metrics) {
    for (int i = 0; ls_model_metric_name(model, i); i++)
        add_log(logs, prefix, ls_model_metric_name(model, i), metrics[i]);
}

/* Fills the logs of the callbacks' call: Keras' names, in Keras' order. */
static void fill_logs(const struct ls_callback_list *callbacks, const struct ls_callback_place *place,
                      struct logs *logs) {
    const ls_model *model = callbacks->model;
    const ls_result *result = place->result;
    logs->count = 0;
    if (!result) return;
    add_log(logs, "", "loss", result->loss);
    if (!isnan(result->accuracy)) add_log(logs, "", "accuracy", result->accuracy); /* else the loss has none */
    add_metrics(logs, "", model, result->metrics);
    if (place->validated) {
        add_log(logs, "val_", "loss", result->val_loss);
        if (!isnan(result->val_accuracy)) add_log(logs, "val_", "accuracy", result->val_accuracy);
        add_metrics(logs, "val_", model, result->val_metrics);
    }
    bool rate = false;
    for (size_t i = 0; i < callbacks->count; i++) rate = rate || callbacks->list[i]->sets_learning_rate;
    if (rate) add_log(logs, "", "learning_rate", (double)ls_model_next_rate(model));
    qsort(logs->list, logs->count, sizeof(logs->list[0]), by_name);
}

/* An error, unless the callback's are warnings. */
static ls_status settle_callback(struct ls_callback_list *callbacks, size_t index, ls_status status) {
    const ls_callback *callback = callbacks->list[index];
    if (!status) return LS_OK;
    if (!callback->warn_only) return ls_fail_context(status, "%s", callback->name);
    ls_log_warning(&callbacks->model->strategy->runtime->log, "%s: %s; training goes on without it", callback->name,
                   ls_error());
    callbacks->silenced[index] = true;
    return LS_OK;
}

ls_status ls_callback_list_tell(struct ls_callback_list *callbacks, enum ls_callback_event event,
                                const struct ls_callback_place *place) {
    if (!callbacks) return LS_OK;
    const ls_model *model = callbacks->model;
    struct logs logs;
    fill_logs(callbacks, place, &logs);
    const ls_callback_call call = {
        .model = callbacks->model,
        .epoch = place->epoch,
        .epochs = place->epochs,
        .step = place->step,
        .steps = place->steps,
        .iteration = model->progress.step.iteration,
        .logs = logs.list,
        .log_count = logs.count,
        .writes = model->strategy->runtime->rank == 0,
        .resumed = place->resumed,
        .repeated = place->repeated,
    };
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < callbacks->count; i++) {
        ls_callback_fn *function = function_of(callbacks->list[i], event);
        if (!function || callbacks->silenced[i]) continue;
        if (model->sync->settle) status = model->sync->settle(model); /* the function may make collectives of its own */
        if (!status) status = settle_callback(callbacks, i, function(callbacks->list[i]->context, &call));
    }
    return status;
}

bool ls_callback_value(const ls_callback_call *call, const char *name, double *value) {
    LS_NEED_OR(false, call, name, value);
    for (size_t i = 0; i < call->log_count; i++) {
        if (strcmp(call->logs[i].name, name) != 0) continue;
        *value = call->logs[i].value;
        return true;
    }
    return false;
}

void ls_model_stop_training(ls_model *model) {
    LS_NEED_OR(, model);
    model->progress.stop_training = true;
}

/* ---- states ---- */

static ls_status name_all(struct ls_callback_list *callbacks) {
    struct ls_text made;
    FILE *out = ls_text_open(&made, 1);
    for (size_t i = 0; out && i < callbacks->count; i++)
        (void)fprintf(out, "%s%s:%zu", i ? "," : "", callbacks->list[i]->name, callbacks->list[i]->state_size);
    return ls_text_close(&made, LS_OK, "the names of callbacks", &callbacks->names);
}

ls_status ls_callback_list_build(struct ls_callback_list *callbacks) {
    if (!callbacks || callbacks->built) return LS_OK;
    const ls_result names_alone = {0};
    ls_status status = ls_callback_list_tell(
        callbacks, LS_ON_BUILD, &(struct ls_callback_place){.result = &names_alone, .validated = callbacks->validates});
    if (!status) status = name_all(callbacks);
    callbacks->built = !status;
    return status;
}

const char *ls_callback_list_names(const struct ls_callback_list *callbacks) {
    return callbacks && callbacks->built ? callbacks->names : "";
}

size_t ls_callback_list_state_size(const struct ls_callback_list *callbacks) {
    size_t size = 0;
    if (!callbacks || !callbacks->built) return 0;
    for (size_t i = 0; i < callbacks->count; i++) size += ls_state_transfer_round(callbacks->list[i]->state_size);
    return size;
}

/* All of them into bytes, or back. */
static void copy_states(const struct ls_callback_list *callbacks, char *bytes, bool back) {
    for (size_t i = 0; callbacks && callbacks->built && i < callbacks->count; i++) {
        const ls_callback *callback = callbacks->list[i];
        if (callback->state_size)
            memcpy(back ? callback->state : bytes, back ? bytes : callback->state, callback->state_size);
        bytes += ls_state_transfer_round(callback->state_size);
    }
}

void ls_callback_list_get_state(const struct ls_callback_list *callbacks, void *bytes) {
    copy_states(callbacks, bytes, false);
}

void ls_callback_list_set_state(struct ls_callback_list *callbacks, const void *bytes) {
    copy_states(callbacks, (char *)(uintptr_t)bytes, true);
}
