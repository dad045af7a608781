/* TensorBoard (keras.callbacks.TensorBoard): folders and tags are Keras'. The worker that writes opens the files when
 * it has something to write; what an interrupted training has written behind the place where it goes on is cut off. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "observe/event_file.h"
#include "callbacks/graph_event.h"
#include "callbacks/weight_images.h"
#include "train/model.h"
#include "train/model_state.h"
#include "train/training.h"
#include "train/shards.h"
#include "train/staged.h"
#include "train/stored.h"

struct tensorboard {
    ls_callback callback;
    ls_tensorboard_options options;
    char *folder;
    struct ls_event_file *train, *validation; /* NULL when not open */
    bool begun;                               /* the folder is made, and cut where training goes on */
    int64_t epoch_began, batch_began;         /* times; 0: another process has begun the epoch */
    int64_t epoch_iteration;                  /* as the epoch began */
};

/* ---- files ---- */

/* The tags whose steps are iterations. */
static bool counts_iterations(const char *tag, const char *prefix) {
    return !strncmp(tag, prefix, strlen(prefix));
}

/* True if the call's place lies before the event. */
static bool is_later(void *context, const char *tag, int64_t step) {
    const ls_callback_call *call = context;
    /* the end of a step of the present epoch is told again */
    if (counts_iterations(tag, "batch_")) return step > call->iteration - (call->step > 0);
    if (counts_iterations(tag, "evaluation_")) return call->repeated ? step >= call->iteration : step > call->iteration;
    return step >= call->epoch;
}

static ls_status begin_folder(struct tensorboard *board, const ls_callback_call *call) {
    char path[4096];
    static const char *const parts[] = {"train", "validation"};
    ls_status status = LS_OK;
    if (board->begun) return LS_OK;
    if (mkdir(board->folder, 0777) && errno != EEXIST)
        return ls_fail(ls_errno_status(errno), "cannot make folder '%s': %s", board->folder, strerror(errno));
    for (int i = 0; !status && call->resumed && i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%.4000s/%s", board->folder, parts[i]);
        status = ls_event_cut_files(path, ls_training_run(call->model), is_later, (void *)call);
    }
    board->begun = !status;
    return status;
}

static ls_status open_tensorboard_file(struct tensorboard *board, const ls_callback_call *call, const char *part,
                                       struct ls_event_file **file) {
    char path[4096];
    if (*file) return LS_OK;
    (void)snprintf(path, sizeof(path), "%.4000s/%s", board->folder, part);
    ls_status status = begin_folder(board, call);
    return status ? status : ls_event_file_open(path, ls_training_run(call->model), file);
}

static ls_status close_files(struct tensorboard *board) {
    ls_status first = ls_event_file_close(ls_steal(board->train));
    ls_status second = ls_event_file_close(ls_steal(board->validation));
    board->begun = false;
    return first ? first : second;
}

/* ---- numbers ---- */

static double rate(int64_t steps, int64_t since) {
    double seconds = ls_seconds_since(since);
    return seconds > 0 ? (double)steps / seconds : 0;
}

/* The rule that turns the logs of one kind into tags. */
struct naming {
    bool validation; /* those of validation, without their "val_" */
    const char *prefix, *suffix;
};

static ls_status put_logs(struct ls_event_file *file, const ls_callback_call *call, const struct naming *naming,
                          int64_t step) {
    char tag[LS_EVENT_TAG];
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < call->log_count; i++) {
        const char *name = call->logs[i].name;
        bool validation = !strncmp(name, "val_", 4);
        if (validation != naming->validation || !strcmp(name, "learning_rate")) continue;
        (void)snprintf(tag, sizeof(tag), "%s%s%s", naming->prefix, validation ? name + 4 : name, naming->suffix);
        status = ls_event_file_scalar(file, tag, step, call->logs[i].value);
    }
    return status;
}

static ls_status put_batch(struct tensorboard *board, const ls_callback_call *call) {
    ls_status status = open_tensorboard_file(board, call, "train", &board->train);
    if (!status && board->options.write_steps_per_second && !call->repeated)
        status =
            ls_event_file_scalar(board->train, "batch_steps_per_second", call->iteration, rate(1, board->batch_began));
    if (!status) status = put_logs(board->train, call, &(struct naming){false, "batch_", ""}, call->iteration);
    return status ? status : ls_event_file_flush(board->train);
}

static ls_status put_validation(struct tensorboard *board, const ls_callback_call *call) {
    double loss;
    if (!ls_callback_value(call, "val_loss", &loss)) return LS_OK;
    ls_status status = open_tensorboard_file(board, call, "validation", &board->validation);
    const struct naming evaluation = {true, "evaluation_", "_vs_iterations"}, epoch = {true, "epoch_", ""};
    if (!status) status = put_logs(board->validation, call, &evaluation, call->iteration);
    if (!status) status = put_logs(board->validation, call, &epoch, call->epoch);
    return status ? status : ls_event_file_flush(board->validation);
}

static ls_status put_epoch(struct tensorboard *board, const ls_callback_call *call) {
    ls_status status = put_logs(board->train, call, &(struct naming){false, "epoch_", ""}, call->epoch);
    if (!status)
        status = ls_event_file_scalar(board->train, "epoch_learning_rate", call->epoch,
                                      (double)ls_model_next_rate(call->model));
    if (!status && board->options.write_steps_per_second && board->epoch_began)
        status = ls_event_file_scalar(board->train, "epoch_steps_per_second", call->epoch,
                                      rate(call->iteration - board->epoch_iteration, board->epoch_began));
    return status;
}

/* ---- weights ---- */

/* Keras' paths begin with the model's name where it is a plain row of layers. */
static const char *path_prefix(const ls_model *model) {
    for (size_t i = 0; i < model->spec.layer_count; i++)
        if (model->spec.layers[i].input || model->spec.layers[i].others[0]) return "";
    return "sequential/";
}

/* gradient: "_grad" in the tag, and no image. */
static ls_status put_numbers(const struct tensorboard *board, const ls_callback_call *call,
                             const struct ls_network_variable *variable, bool gradient) {
    const ls_model *model = call->model;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    const char *prefix = path_prefix(model);
    LS_CLEANUP(ls_free_pointer) float *values = NULL;
    char tag[LS_EVENT_TAG];
    ls_status status = ls_model_state_copy_out(model, gradient ? replica->gradients : replica->parameters,
                                               variable->offset, variable->count, &values);
    if (status) return status;
    (void)snprintf(tag, sizeof(tag), "%s%s%s/histogram", prefix, variable->name, gradient ? "_grad" : "");
    status = ls_event_file_histogram(board->train, tag, call->epoch, values, variable->count);
    if (status || gradient || !board->options.write_images) return status;
    (void)snprintf(tag, sizeof(tag), "%s%s/image", prefix, variable->name);
    return ls_weight_images(board->train, tag, call->epoch, &variable->shape, values);
}

static ls_status put_variable(const struct tensorboard *board, const ls_callback_call *call, int index) {
    const struct ls_network_variable *variable = ls_network_variable(call->model->built.network, index);
    ls_status status = put_numbers(board, call, variable, false);
    return status || !board->options.gradients || !variable->trained ? status
                                                                     : put_numbers(board, call, variable, true);
}

static ls_status put_weights(const struct tensorboard *board, const ls_callback_call *call) {
    int freq = board->options.histogram_freq;
    ls_status status = LS_OK;
    if (!freq || call->epoch % freq) return LS_OK;
    for (int i = 0; !status && i < ls_network_variable_count(call->model->built.network); i++)
        status = put_variable(board, call, i);
    return status;
}

/* ---- calls ---- */

static ls_status begin_tensorboard(void *context, const ls_callback_call *call) {
    struct tensorboard *board = context;
    if (board->options.gradients && ls_shards_are(call->model))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TensorBoard: gradients: workers that own moments gather the new variables in "
                       "their place: leave gradients out, or shard");
    if (board->options.gradients && ls_staged_is(call->model))
        return ls_fail(LS_INVALID_ARGUMENT, "TensorBoard: gradients: no worker of a pipeline has those of all stages: "
                                            "leave gradients out, or stages");
    if (board->options.gradients && ls_stored_is(call->model))
        return ls_fail(LS_INVALID_ARGUMENT, "TensorBoard: gradients: parameter servers add them, and no worker has "
                                            "the sums; leave it out, or take MultiWorkerMirroredStrategy");
    ls_status status = close_files(board); /* of a fit that failed */
    board->epoch_began = 0;
    if (status || !call->writes) return status;
    status = open_tensorboard_file(board, call, "train", &board->train);
    if (status || call->resumed || board->options.no_graph) return status;
    status = ls_graph_event_write(board->train, call->model, path_prefix(call->model));
    return status ? status : ls_event_file_flush(board->train);
}

static ls_status begin_epoch(void *context, const ls_callback_call *call) {
    struct tensorboard *board = context;
    board->epoch_began = ls_now();
    board->epoch_iteration = call->iteration;
    return LS_OK;
}

static ls_status begin_batch(void *context, const ls_callback_call *call) {
    struct tensorboard *board = context;
    (void)call;
    board->batch_began = ls_now();
    return LS_OK;
}

static ls_status end_batch(void *context, const ls_callback_call *call) {
    struct tensorboard *board = context;
    int64_t freq = board->options.update_freq;
    return call->writes && freq && call->iteration % freq == 0 ? put_batch(board, call) : LS_OK;
}

static ls_status end_tensorboard_epoch(void *context, const ls_callback_call *call) {
    struct tensorboard *board = context;
    if (!call->writes) return LS_OK;
    ls_status status = open_tensorboard_file(board, call, "train", &board->train);
    if (!status) status = put_validation(board, call);
    if (!status) status = put_epoch(board, call);
    if (!status) status = put_weights(board, call);
    return status ? status : ls_event_file_flush(board->train);
}

static ls_status end_tensorboard(void *context, const ls_callback_call *call) {
    (void)call;
    return close_files(context);
}

/* ---- making ---- */

static void release_tensorboard(void *context) {
    struct tensorboard *board = context;
    (void)close_files(board);
    ls_free(board->folder);
    ls_free(board);
}

static ls_status check_tensorboard_options(const ls_tensorboard_options *options) {
    if (!options->folder || !*options->folder) return ls_fail(LS_INVALID_ARGUMENT, "tensorboard: folder is missing");
    if (options->histogram_freq < 0 || options->update_freq < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "tensorboard: histogram_freq %d and update_freq %lld must not be negative",
                       options->histogram_freq, (long long)options->update_freq);
    if ((options->gradients || options->write_images) && !options->histogram_freq)
        return ls_fail(LS_INVALID_ARGUMENT, "tensorboard: gradients and images need histogram_freq");
    return LS_OK;
}

ls_status ls_tensorboard_new(const ls_tensorboard_options *options, ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(struct tensorboard, made, "a TensorBoard callback");
    ls_status status = ls_options_copy("ls_tensorboard_options", &made->options, sizeof(made->options), options);
    if (!status) status = check_tensorboard_options(&made->options);
    if (!status && !(made->folder = ls_strdup(made->options.folder))) status = ls_fail_memory("a path", 1);
    made->callback =
        LS_CALLBACK(.name = "tensorboard", .context = made, .on_train_begin = begin_tensorboard,
                    .on_epoch_begin = begin_epoch, .on_train_batch_begin = begin_batch, .on_train_batch_end = end_batch,
                    .on_epoch_end = end_tensorboard_epoch, .on_train_end = end_tensorboard,
                    .release = release_tensorboard, .warn_only = made->options.warn_only);
    return LS_HAND_OVER(status, callback, &made->callback, release_tensorboard(made));
}
