/* fit: epochs of steps over a distributed dataset (tf.keras.Model.fit under a strategy). The position in
 * the data is a function of the step. Every worker knows the number of steps, so no worker runs out of data alone.
 *
 * A fit is a row of transactions: its beginning, each step, and after an epoch's steps its evaluation and the
 * comparison of all replicas. A transaction that fails because a worker was lost begins again, from the state of the
 * worker that is furthest. The steps of workers that train alone between meetings (sync/local.c) are one
 * transaction from one meeting to the next. Each worker does an epoch's local work (on_epoch, checkpoints) when the
 * epoch is done. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/options.h"
#include "base/point.h"
#include "train/about.h"
#include "train/fit.h"
#include "runtime/user_request.h"
#include "runtime/state_transfer.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/model_build.h"
#include "train/input.h"
#include "train/training_state.h"
#include "train/step.h"

/* After a committed step, or an epoch that is done. A request to stop comes first. */
static ls_status keep_step(struct ls_fitting *fitting) {
    return fitting->model->progress.requests.stop ? LS_OK
                                                  : ls_checkpointing_step(fitting->checkpointing, &fitting->state);
}

static ls_status train_step(struct ls_fitting *fitting, struct ls_loss_sums *sums) {
    int64_t started = ls_now(), taken;
    struct ls_track *track = fitting->model->strategy->replicas[0].track;
    struct ls_fit_state *state = &fitting->state;
    ls_input_use_pipeline(fitting->model, fitting->pipeline);
    ls_fit_batches_ask(fitting);
    ls_status status = ls_fit_batches_run(fitting, &taken, sums);
    if (status) return status;
    ls_track_end(track, started, "step", (struct ls_span_facts){.step = fitting->model->progress.step.iteration});
    state->position += taken;
    ls_op_add_loss_sums(&state->sums, sums);
    if (!state->sums.rows) return LS_OK; /* none of the epoch's delayed steps is taken */
    ls_fit_numbers_show(fitting);
    ls_loss_scaler_tell(&fitting->model->progress.scaler, &state->result);
    return LS_OK;
}

/* Once a fit, by one worker: all have the same numbers. step 0: of validation. */
static void warn_of_no_number(struct ls_fitting *fitting, int64_t step) {
    const struct ls_runtime *runtime = fitting->model->strategy->runtime;
    const ls_result *result = &fitting->state.result;
    double loss = step ? result->loss : result->val_loss;
    char place[48] = "";
    if (isfinite(loss) || fitting->warned || runtime->rank > 0) return;
    fitting->warned = true;
    if (step) (void)snprintf(place, sizeof(place), ", step %lld", (long long)step);
    ls_log_warning(
        &runtime->log,
        "epoch %d%s: the %sloss is %s: training has diverged, or the data hold what is no number; it goes on "
        "(ls_terminate_on_nan_new, --terminate-on-nan: ends with an error)",
        (int)fitting->state.epochs + 1, place, step ? "" : "validation's ", isnan(loss) ? "nan" : "inf");
}

/* ---- Transactions ----------------------------------------------------------------------------------------------- */

static void begin_timing(struct ls_fitting *fitting) {
    if (fitting->began) return;
    fitting->began = ls_now();
    fitting->rows_before = fitting->state.sums.rows;
}

/* The sums are those of all workers. */
static void end_timing(struct ls_fitting *fitting) {
    if (fitting->timing) {
        fitting->timed_seconds += ls_seconds_since(fitting->began);
        fitting->timed_samples += fitting->state.sums.rows - fitting->rows_before;
    }
    fitting->timing = true;
    fitting->began = 0;
}

static ls_status begin_epoch(struct ls_fitting *fitting) {
    int64_t epoch = fitting->state.epochs;
    if (fitting->shown == epoch) return LS_OK;
    fitting->shown = epoch;
    ls_progress_epoch(fitting->progress, (int)epoch, fitting->options.epochs, fitting->steps_per_epoch);
    return ls_fit_callbacks_tell(fitting, LS_ON_EPOCH_BEGIN);
}

/* Returns true if the numbers of the fit are not those of all workers. */
static bool unmet(const struct ls_fitting *fitting, bool met) {
    return !met && (fitting->model->sync->apart || !fitting->state.sums.rows);
}

static ls_status train(struct ls_fitting *fitting) {
    const struct ls_sync_ops *sync = fitting->model->sync;
    struct ls_fit_state *state = &fitting->state;
    int64_t begin = state->epochs * fitting->steps_per_epoch, step = state->position - begin + 1;
    struct ls_loss_sums sums;
    bool met = true; /* the state is that of all workers */
    ls_status status = begin_epoch(fitting);
    if (!status && sync->begin_step) status = sync->begin_step(fitting);
    if (!status) status = ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_BATCH_BEGIN);
    begin_timing(fitting);
    if (!status) status = train_step(fitting, &sums);
    if (!status && sync->end_step) status = sync->end_step(fitting, &sums, &met);
    if (!status && !unmet(fitting, met)) end_timing(fitting);
    if (!status && met) ls_state_transfer_commit(fitting->model->strategy->runtime);
    if (!status) ls_reached("committed");
    if (!status) status = ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_BATCH_END);
    if (!status) fitting->stepped = state->position;
    if (!status && met && state->position < ls_fit_epoch_end(fitting)) status = keep_step(fitting);
    if (status) return ls_fail_context(status, "epoch %d, step %lld", (int)state->epochs + 1, (long long)step);
    if (!state->sums.rows) return LS_OK;
    warn_of_no_number(fitting, step);
    ls_progress_step(fitting->progress, state->position - begin, state->sums.rows, &state->result);
    return LS_OK;
}

/* The steps up to the next meeting as one transaction. */
static ls_status train_session(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    const struct ls_fit_state before = *state;
    ls_status status = begin_epoch(fitting);
    begin_timing(fitting);
    if (!status) status = fitting->model->sync->train(fitting);
    if (status) state->result = before.result;
    if (status) return status;
    fitting->timing = true; /* a session's first step is one of many */
    end_timing(fitting);
    ls_state_transfer_commit(fitting->model->strategy->runtime);
    fitting->stepped = state->position;
    if (state->position < ls_fit_epoch_end(fitting)) status = keep_step(fitting);
    warn_of_no_number(fitting, state->position - state->epochs * fitting->steps_per_epoch);
    ls_progress_step(fitting->progress, state->position - state->epochs * fitting->steps_per_epoch, state->sums.rows,
                     &state->result);
    return status;
}

static ls_status validate(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    ls_result *result = &state->result;
    struct ls_loss_sums sums;
    ls_reached("evaluate");
    ls_status status = ls_evaluate_run(fitting->model, fitting->validation, &sums);
    if (status) return status;
    ls_result_means(fitting->model, &sums, &result->val_loss, &result->val_accuracy, result->val_metrics);
    state->evaluated = true;
    warn_of_no_number(fitting, 0);
    ls_state_transfer_commit(fitting->model->strategy->runtime);
    return LS_OK;
}

static ls_status finish_epoch(struct ls_fitting *fitting) {
    bool stopped;
    ls_status status = ls_fit_callbacks_end_epoch(fitting);
    ls_reached("verify");
    if (!status) status = ls_replica_check(fitting->model);
    if (!status) status = ls_fit_callbacks_agree_to_stop(fitting, &stopped);
    if (status) return status;
    fitting->state.stopped = stopped;
    fitting->state.epochs++;
    fitting->model->progress.epoch_rate = fitting->model->progress.step.rule.learning_rate;
    fitting->state.evaluated = false;
    fitting->state.sums = (struct ls_loss_sums){0};
    ls_state_transfer_commit(fitting->model->strategy->runtime);
    return LS_OK;
}

int64_t ls_fit_epoch_end(const struct ls_fitting *fitting) {
    return (fitting->state.epochs + 1) * fitting->steps_per_epoch;
}

/* The next one. */
static ls_status advance(struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    if (state->position < ls_fit_epoch_end(fitting))
        return fitting->model->sync->train ? train_session(fitting) : train(fitting);
    return fitting->validation && !state->evaluated ? validate(fitting) : finish_epoch(fitting);
}

static ls_status tell_epoch(struct ls_fitting *fitting, int epoch) {
    ls_result *result = &fitting->state.result;
    /* who has this epoch's end from another worker has also what on_epoch made of the rate there */
    fitting->model->progress.step.rule.learning_rate = fitting->model->progress.epoch_rate;
    result->steps = fitting->model->progress.step.iteration;
    result->samples_per_second =
        fitting->timed_seconds > 0 ? (double)fitting->timed_samples / fitting->timed_seconds : NAN;
    ls_progress_epoch_end(fitting->progress, result, fitting->validation != NULL);
    fitting->model->spec.last = *result;
    ls_error_forget();
    ls_status status =
        fitting->options.on_epoch ? fitting->options.on_epoch(fitting->options.context, epoch, result) : LS_OK;
    fitting->ended_by_user = status != LS_OK;
    if (status) return ls_fail_context(ls_fail_from_user(status, "it"), "on_epoch after epoch %d", epoch + 1);
    status = fitting->state.stopped ? LS_OK : keep_step(fitting); /* the end's state is finish's */
    return status ? ls_fail_context(status, "after epoch %d", epoch + 1) : LS_OK;
}

static ls_status tell_epochs(struct ls_fitting *fitting) {
    ls_status status = LS_OK;
    while (!status && fitting->told < fitting->state.epochs) status = tell_epoch(fitting, (int)fitting->told++);
    return status;
}

/* Between two transactions: somebody has asked, in the last step, that all stop. An epoch is brought to its end. */
static bool is_to_stop(const struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    bool ending = state->position >= ls_fit_epoch_end(fitting);
    return fitting->model->progress.requests.stop && !ending && state->position < fitting->last_position;
}

static ls_status stop(struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    long long step = state->position - state->epochs * fitting->steps_per_epoch;
    ls_status status = ls_preemption_stop(fitting->model, fitting->checkpointing, state);
    if (!step) return ls_fail_context(status, "after epoch %lld", (long long)state->epochs);
    return ls_fail_context(status, "epoch %lld, step %lld", (long long)state->epochs + 1, step);
}

static ls_status finish_training(struct ls_fitting *fitting) {
    ls_status status = fitting->stand != LS_CALL_DONE ? ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_END) : LS_OK;
    return status ? ls_fail_context(status, "at the end")
                  : ls_checkpointing_finish(fitting->checkpointing, &fitting->state);
}

static ls_status run_epochs(struct ls_fitting *fitting) {
    for (;;) {
        ls_status status = tell_epochs(fitting);
        if (status) return status;
        if (fitting->state.stopped || fitting->state.epochs == fitting->options.epochs) return finish_training(fitting);
        status = is_to_stop(fitting) ? stop(fitting) : advance(fitting);
        if (status) return status;
    }
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static ls_status check_fit_options(ls_fit_options *options) {
    if (!options->epochs) options->epochs = 1;
    if (options->epochs < 0) return ls_fail(LS_INVALID_ARGUMENT, "epochs %d must be at least 1", options->epochs);
    if (options->steps_per_epoch < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "steps_per_epoch %lld must not be negative",
                       (long long)options->steps_per_epoch);
    if (options->verbose < -1 || options->verbose > 2)
        return ls_fail(LS_INVALID_ARGUMENT, "verbose %d is none of -1, 0, 1, 2", options->verbose);
    return LS_OK;
}

/* Opens the pipelines, and opens them again after other replicas have come to this worker. */
static ls_status open_pipelines(struct ls_fitting *fitting) {
    const ls_strategy *strategy = fitting->model->strategy;
    ls_dataset *validation = fitting->options.validation_data;
    if (fitting->pipeline && fitting->layout == strategy->layout) return LS_OK;
    ls_pipeline_free(ls_steal(fitting->pipeline));
    ls_pipeline_free(ls_steal(fitting->validation));
    fitting->layout = strategy->layout;
    ls_status status =
        fitting->model->sync->open_data(strategy, fitting->data, fitting->options.class_weight, &fitting->pipeline);
    if (!status && validation) status = ls_iterator_open_pipeline(strategy, validation, NULL, &fitting->validation);
    return status;
}

static ls_status count_steps(struct ls_fitting *fitting) {
    const ls_fit_options *options = &fitting->options;
    int64_t *steps = &fitting->steps_per_epoch;
    *steps = ls_pipeline_steps(fitting->pipeline);
    if ((options->steps_per_epoch &&
         __builtin_mul_overflow(options->steps_per_epoch, ls_iterator_portions(fitting->model->strategy), steps)) ||
        __builtin_mul_overflow(options->epochs, *steps, &fitting->last_position))
        return ls_fail(LS_INVALID_ARGUMENT, "epochs %d of steps_per_epoch %lld are more steps than can be counted",
                       options->epochs, (long long)options->steps_per_epoch);
    return LS_OK;
}

/* Local set-up, without communication. */
static ls_status open_fitting(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    const ls_fit_options *options = &fitting->options;
    ls_status status = open_pipelines(fitting);
    if (!status)
        status = ls_callback_list_new(model, options->callbacks, options->validation_data != NULL, &fitting->callbacks);
    if (!status && model->spec.compiled)
        status = ls_fingerprint_describe_fit(model, fitting->data, options, &fitting->lines);
    if (!status) status = count_steps(fitting);
    if (!status && model->sync->open) status = model->sync->open(fitting);
    if (status) return status;
    if (!ls_pipeline_steps(fitting->pipeline))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the dataset has no whole batch: batch_size %lld with drop_remainder, %lld examples",
                       (long long)fitting->data->options.batch_size, (long long)fitting->data->count);
    ls_advice_give(model, fitting->data);
    return LS_OK;
}

/* Opens the backup, and opens it again after this worker has become the first one or has ceased to be it. */
static ls_status open_backup(struct ls_fitting *fitting) {
    const struct ls_checkpointing_config config = {
        .model = fitting->model,
        .options = fitting->options.checkpoint,
        .data = fitting->data,
        .lines = &fitting->lines,
        .callbacks = fitting->callbacks,
        .steps_per_epoch = fitting->steps_per_epoch,
        .last_position = fitting->last_position,
        .job = fitting->state.job,
    };
    bool moved = fitting->checkpointing && ls_checkpointing_has_moved(fitting->checkpointing);
    if (moved) ls_checkpointing_free(ls_steal(fitting->checkpointing));
    return config.options && !fitting->checkpointing ? ls_checkpointing_new(&config, &fitting->checkpointing) : LS_OK;
}

/* With all others: the same training, the same weights, or what the newest checkpoint has. */
static ls_status begin_together(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    uint64_t run = 0;
    ls_status status =
        model->spec.compiled ? ls_runtime_agree(model->strategy->runtime, "training", fitting->lines.all) : LS_OK;
    if (!status) status = ls_model_build(model, fitting->data, fitting->pipeline, NULL);
    if (!status) status = ls_runtime_draw(model->strategy->runtime, "run", &run);
    if (!status) status = ls_callback_list_build(fitting->callbacks);
    if (!status) status = ls_bind_attach(model);
    if (!status) status = open_backup(fitting);
    if (!status && fitting->checkpointing) status = ls_checkpointing_restore(fitting->checkpointing, &fitting->state);
    if (status) return status;
    if (!fitting->state.run) fitting->state.run = run; /* no checkpoint had one */
    ls_state_transfer_commit(model->strategy->runtime);
    model->spec.loaded = false;
    return LS_OK;
}

/* For a worker that has copied the state of another one. */
static ls_status attach_again(struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    ls_log_info(&fitting->model->strategy->runtime->log, "goes on in epoch %lld after its step %lld",
                (long long)state->epochs + 1, (long long)(state->position - state->epochs * fitting->steps_per_epoch));
    ls_status status = ls_bind_attach(fitting->model);
    return status ? status : open_backup(fitting);
}

/* From ls_training_start on this process holds the state, before the next collective can fail: it gives it to whoever
 * lacks it, and begins from there again. The buffers are made for both pipelines before the first step, so that they do
 * not move in training. */
static ls_status begin_fitting(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    const struct ls_training_call call = {model,          fitting->data,      fitting->pipeline,
                                          fitting->index, fitting->lines.all, fitting->callbacks};
    ls_status status = ls_training_state_resume(&call, &fitting->state, &fitting->stand);
    if (!status && fitting->stand == LS_CALL_NEW) status = begin_together(fitting);
    if (status) return status;
    if (fitting->stand == LS_CALL_DONE) fitting->state.epochs = fitting->options.epochs;
    if (fitting->told < 0) fitting->told = fitting->state.epochs;
    if (fitting->stand == LS_CALL_DONE) {
        fitting->begun = true;
        return LS_OK;
    }
    ls_training_start(&call, &fitting->state);
    ls_reached("resumed");
    if (fitting->stand == LS_CALL_INSIDE) status = attach_again(fitting);
    if (!status && fitting->validation)
        status = ls_model_build(model, fitting->options.validation_data, fitting->validation, NULL);
    return status ? status : ls_fit_callbacks_begin(fitting);
}

/* Of the terminal behind lockstep run, if this worker's output has one. */
static int columns_of(const struct ls_fitting *fitting) {
    return (int)fitting->model->strategy->runtime->settings.columns;
}

/* Duties of rank 0. Called again after each recovery, because another worker may be rank 0. */
static ls_status take_office(struct ls_fitting *fitting) {
    bool shows = fitting->options.verbose > 0 && fitting->model->strategy->runtime->rank == 0;
    ls_status status = LS_OK;
    if (!shows) ls_progress_free(ls_steal(fitting->progress));
    if (shows && !fitting->progress)
        status = ls_progress_new(fitting->options.verbose, columns_of(fitting), &fitting->progress);
    for (int i = 0; shows && !status && ls_model_metric_name(fitting->model, i); i++)
        ls_progress_metric(fitting->progress, ls_model_metric_name(fitting->model, i));
    return status || !fitting->checkpointing ? status : open_backup(fitting);
}

static ls_status run_once(struct ls_fitting *fitting) {
    fitting->began = 0;
    ls_status status = open_pipelines(fitting);
    if (status) return status;
    if (!fitting->begun || fitting->model->strategy->runtime->inherited[LS_STATE_TRAINING].data)
        status = begin_fitting(fitting);
    if (!status && fitting->stand != LS_CALL_DONE) status = ls_bind_attach(fitting->model);
    if (!status) status = take_office(fitting);
    return status ? status : run_epochs(fitting);
}

static ls_status run_or_go_back(struct ls_fitting *fitting) {
    const struct ls_sync_ops *sync = fitting->model->sync;
    ls_status status = run_once(fitting);
    return status && sync->go_back ? sync->go_back(fitting, status) : status;
}

static bool recover(struct ls_fitting *fitting, ls_status *status) {
    if (fitting->ended_by_user) return false;
    if (ls_fit_anew_is_due(fitting, *status)) ls_fit_anew_forget(fitting);
    return ls_strategy_recover(fitting->model->strategy, status);
}

static ls_status fit(struct ls_fitting *fitting) {
    ls_strategy *strategy = fitting->model->strategy;
    ls_status status = open_fitting(fitting);
    fitting->index = ls_training_state_begin(fitting->model);
    ls_fit_anew_prepare(fitting);
    fitting->model->progress.requests = (struct ls_requests){0};
    fitting->model->progress.stop_training = false;
    if (status) return status;
    status = ls_user_request_begin(strategy->runtime->user_request, fitting->options.request, fitting->options.context);
    if (!status) do
            status = run_or_go_back(fitting);
        while (status && recover(fitting, &status));
    if (!fitting->ended_by_user) status = ls_user_request_end_loss(strategy->runtime->user_request, status);
    if (fitting->begun && ls_runtime_is_cancelled(strategy->runtime, status))
        status = ls_preemption_give_up(fitting->model, fitting->checkpointing, &fitting->state);
    ls_user_request_end(strategy->runtime->user_request);
    return status ? status : ls_training_end(strategy, &fitting->state.result);
}

/* A parameter server. */
static ls_status serve_instead(struct ls_fitting *fitting, ls_result *result) {
    ls_strategy *strategy = fitting->model->strategy;
    struct ls_user_request *requests = strategy->runtime->user_request;
    ls_status status = ls_user_request_begin(requests, fitting->options.request, fitting->options.context);
    if (!status) status = ls_evaluate_serve(strategy, &fitting->state.result, result);
    ls_user_request_end(requests);
    return status;
}

static void tell_memory(struct ls_fitting *fitting) {
    ls_memory_report_fill(fitting->model, &fitting->state.result);
    if (fitting->options.verbose >= 0) ls_memory_report_log(fitting->model, &fitting->state.result);
}

ls_status ls_model_fit(ls_model *model, ls_dataset *data, const ls_fit_options *options, ls_result *result) {
    LS_NEED(model, data);
    struct ls_fitting fitting = {.model = model, .data = data, .ended = -1, .told = -1, .shown = -1};
    fitting.state.result = ls_fit_anew_result(model);
    ls_status status = ls_options_copy("ls_fit_options", &fitting.options, sizeof(fitting.options), options);
    if (!status) status = check_fit_options(&fitting.options);
    if (!status) status = ls_model_check_trainable(model, data);
    if (!status) status = ls_model_check_trainable(model, fitting.options.validation_data);
    if (!status) status = ls_about_keep_data(model, data);
    if (!status && model->strategy->runtime->serves) return serve_instead(&fitting, result);
    if (!fitting.options.verbose) fitting.options.verbose = columns_of(&fitting) || isatty(STDOUT_FILENO) ? 1 : 2;
    if (!status) status = fit(&fitting);
    ls_input_use_pipeline(model, NULL);
    model->progress.request = model->progress.asked = LS_GO_ON;
    ls_fit_anew_end(model);
    ls_training_leave_fit(model->strategy);
    ls_checkpointing_free(fitting.checkpointing);
    ls_callback_list_free(fitting.callbacks);
    if (model->sync->close) model->sync->close(&fitting);
    ls_fit_stretch_forget(&fitting.stretch);
    ls_fingerprint_free_lines(&fitting.lines);
    ls_progress_free(fitting.progress);
    ls_pipeline_free(fitting.pipeline);
    ls_pipeline_free(fitting.validation);
    if (!status) tell_memory(&fitting);
    if (!status && result) *result = fitting.state.result;
    return status;
}
