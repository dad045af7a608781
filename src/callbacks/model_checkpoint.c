/* The weights after each epoch, or after the best ones (keras.callbacks.ModelCheckpoint). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "callbacks/monitored.h"
#include "train/model.h"
#include "weights/arrays.h"
#include "weights/weights.h"
#include "base/plain.h"

struct checkpoint {
    ls_callback callback;
    ls_model_checkpoint_options options;
    char *path;
    struct ls_monitored monitor;
    char alike[LS_MONITORED_ALIKE];
    double best; /* survives */
};

static ls_status build_model_checkpoint(void *context, const ls_callback_call *call) {
    struct checkpoint *checkpoint = context;
    checkpoint->best = ls_monitored_worst(&checkpoint->monitor);
    return checkpoint->options.save_best_only ? ls_monitored_check(&checkpoint->monitor, call) : LS_OK;
}

/* One "{name}" or "{name:format}" of the path, without its braces. */
static ls_status put_field(FILE *out, const char *field, const ls_callback_call *call) {
    char name[64];
    int length = (int)strcspn(field, ":");
    const char *format = field[length] ? field + length + 1 : "";
    double value;
    (void)snprintf(name, sizeof(name), "%.*s", length, field);
    if (!strcmp(name, "epoch")) {
        (void)fprintf(out, "%0*d", atoi(format), call->epoch + 1);
        return LS_OK;
    }
    if (!ls_callback_value(call, name, &value))
        return ls_fail(LS_INVALID_ARGUMENT, "the path names '%s', and there is no such number", name);
    if (*format == '.')
        (void)ls_plain_print(out, "%.*f", atoi(format + 1), value);
    else
        (void)ls_plain_print(out, "%g", value);
    return LS_OK;
}

static ls_status put_path(FILE *out, const char *at, const ls_callback_call *call) {
    ls_status status = LS_OK;
    while (*at && !status) {
        size_t plain = strcspn(at, "{"), inside = strcspn(at + plain, "}");
        char field[128];
        (void)fwrite(at, 1, plain, out);
        at += plain;
        if (!*at) break;
        if (at[inside] != '}' || inside > sizeof(field))
            return ls_fail(LS_INVALID_ARGUMENT, "the path has a '{' without '}'");
        (void)snprintf(field, sizeof(field), "%.*s", (int)inside - 1, at + 1);
        status = put_field(out, field, call);
        at += inside + 1;
    }
    return status;
}

/* *path is freed with free. */
static ls_status make_path(const struct checkpoint *checkpoint, const ls_callback_call *call, char **path) {
    struct ls_text made;
    FILE *out = ls_text_open(&made, 1);
    ls_status status = out ? put_path(out, checkpoint->path, call) : LS_OK;
    return ls_text_close(&made, status, "a path", path);
}

/* Checks before the first step that the path can be written: its ending, and a file in its folder, unless the folder's
 * name has a number. */
static ls_status begin_model_checkpoint(void *context, const ls_callback_call *call) {
    const struct checkpoint *checkpoint = context;
    const char *slash = strrchr(checkpoint->path, '/'), *brace = strchr(checkpoint->path, '{');
    ls_status status = ls_weights_arrays_check_path(checkpoint->path);
    if (status || !call->writes || (brace && slash && brace < slash)) return status;
    return ls_whole_file_try(checkpoint->path);
}

/* The best epoch is that of an earlier telling, too. */
static ls_status is_wanted(struct checkpoint *checkpoint, const ls_callback_call *call, bool *wanted) {
    double value;
    *wanted = true;
    if (!checkpoint->options.save_best_only) return LS_OK;
    ls_status status = ls_monitored_read(&checkpoint->monitor, call, &value);
    if (status) return status;
    *wanted = ls_monitored_improves(&checkpoint->monitor, value, checkpoint->best) ||
              (call->repeated && value == checkpoint->best);
    if (*wanted) checkpoint->best = value;
    return LS_OK;
}

static ls_status end_model_checkpoint_epoch(void *context, const ls_callback_call *call) {
    struct checkpoint *checkpoint = context;
    char *path = NULL;
    bool wanted;
    ls_status status = is_wanted(checkpoint, call, &wanted);
    if (status || !wanted || !call->writes) return status;
    status = make_path(checkpoint, call, &path);
    if (!status) status = ls_model_save_weights(call->model, path);
    free(path);
    return status;
}

/* With save_best_only nothing is written while the number is none. */
static ls_status end_training(void *context, const ls_callback_call *call) {
    const struct checkpoint *checkpoint = context;
    bool saved = checkpoint->best != ls_monitored_worst(&checkpoint->monitor);
    if (checkpoint->options.save_best_only && !saved && call->writes)
        ls_log_warning(&call->model->strategy->runtime->log,
                       "model_checkpoint: '%s' was not written: %s was a number after no epoch", checkpoint->path,
                       checkpoint->monitor.name);
    return LS_OK;
}

static void release_model_checkpoint(void *context) {
    struct checkpoint *checkpoint = context;
    ls_monitored_free(&checkpoint->monitor);
    ls_free(checkpoint->path);
    ls_free(checkpoint);
}

ls_status ls_model_checkpoint_new(const ls_model_checkpoint_options *options, ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(struct checkpoint, made, "a callback");
    ls_model_checkpoint_options *copy = &made->options;
    ls_status status = ls_options_copy("ls_model_checkpoint_options", copy, sizeof(*copy), options);
    if (!status && (!copy->path || !*copy->path))
        status = ls_fail(LS_INVALID_ARGUMENT, "model_checkpoint: path is missing");
    if (!status && !(made->path = ls_strdup(copy->path))) status = ls_fail_memory("a path", 1);
    if (!status) status = ls_monitored_new("model_checkpoint", copy->monitor, copy->mode, 0, &made->monitor);
    if (!status) ls_monitored_describe(&made->monitor, made->alike, "save_best_only=%d", copy->save_best_only);
    made->callback =
        LS_CALLBACK(.name = "model_checkpoint", .context = made, .on_build = build_model_checkpoint,
                    .on_train_begin = begin_model_checkpoint, .on_epoch_end = end_model_checkpoint_epoch,
                    .state = &made->best, .state_size = sizeof(made->best), .on_train_end = end_training,
                    .release = release_model_checkpoint, .warn_only = copy->warn_only, .alike = made->alike);
    return LS_HAND_OVER(status, callback, &made->callback, release_model_checkpoint(made));
}
