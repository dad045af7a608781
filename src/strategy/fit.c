/* fit and evaluate: epochs of steps over a distributed dataset (tf.keras.Model.fit under a strategy). The position in
 * the data is a function of the step, every worker knows how many steps there are, so nobody runs out alone.
 *
 * A fit is a row of transactions: its beginning, each step, and after an epoch's steps its evaluation and the
 * comparison of all replicas. One that fails because a worker was lost is begun again, from the state of whoever is
 * furthest. What belongs to an epoch outside the group (on_epoch, checkpoints) is done by each worker when the epoch
 * is. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/point.h"
#include "strategy/fit.h"
#include "strategy/stop.h"

static void free_pipeline(struct ls_pipeline **pipeline) {
    ls_pipeline_free(*pipeline);
}

/* What this worker wishes goes with the step. */
static void ask(const struct ls_fitting *fitting) {
    const ls_fit_options *options = &fitting->options;
    ls_request request = options->request ? options->request(options->context) : LS_GO_ON;
    if (request > fitting->model->request) fitting->model->request = request;
}

/* After a committed step, or an epoch that is done. What somebody asked for comes first. */
static ls_status keep(struct ls_fitting *fitting) {
    return fitting->model->requests.stop ? LS_OK : ls_backup_step(fitting->backup, &fitting->state);
}

/* The batches of the next step: as many as the optimizer takes, and no more than the epoch still has. taken is how far
 * they go. */
static ls_status run_batches(struct ls_fitting *fitting, int64_t *taken, struct ls_loss_sums *sums) {
    const struct ls_fit_state *state = &fitting->state;
    int64_t steps = ls_pipeline_steps(fitting->pipeline), end = (state->epochs + 1) * fitting->steps_per_epoch;
    int most = fitting->model->step.rule.gradient_accumulation_steps;
    *taken = 0;
    for (int batch = 0;; batch++) {
        int64_t position = state->position + *taken;
        ls_status status = ls_pipeline_seek(fitting->pipeline, position / steps, position % steps);
        if (status) return status;
        *taken += ls_pipeline_taken(fitting->pipeline);
        if (batch + 1 == most || state->position + *taken >= end)
            return ls_model_train_step(fitting->model, batch + 1, sums);
        status = ls_model_gather_step(fitting->model, batch);
        if (status) return status;
    }
}

static ls_status train_step(struct ls_fitting *fitting) {
    int64_t started = ls_now(), taken;
    struct ls_track *track = fitting->model->strategy->replicas[0].track;
    struct ls_fit_state *state = &fitting->state;
    struct ls_loss_sums sums;
    ls_model_use_pipeline(fitting->model, fitting->pipeline);
    ask(fitting);
    ls_status status = run_batches(fitting, &taken, &sums);
    if (status) return status;
    ls_track_end(track, started, "step", (struct ls_span_facts){.step = fitting->model->step.iteration});
    if (fitting->timing) {
        fitting->timed_seconds += ls_seconds_since(started);
        fitting->timed_samples += sums.rows;
    }
    fitting->timing = true;
    state->position += taken;
    ls_loss_sums_add(&state->sums, &sums);
    ls_model_means(fitting->model, &state->sums, &state->result.loss, &state->result.accuracy, state->result.metrics);
    ls_loss_scaler_tell(&fitting->model->scaler, &state->result);
    return LS_OK;
}

/* The replicas' sums over a whole evaluation, added over all replicas; counts up to 2^53 are exact in float64. */
static ls_status sum_evaluation(ls_model *model, struct ls_loss_sums *sums) {
    enum { COUNT = 3 + LS_MAX_METRICS };
    double values[LS_MAX_LOCAL_DEVICES][COUNT], total[COUNT];
    const void *inputs[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < model->strategy->local_count; i++) {
        const struct ls_loss_sums *own = &model->replicas[i].total;
        values[i][0] = own->loss;
        values[i][1] = (double)own->correct;
        values[i][2] = (double)own->rows;
        memcpy(&values[i][3], own->metrics, sizeof(own->metrics));
        inputs[i] = values[i];
    }
    ls_status status = ls_reduce(model->strategy, LS_SUM, LS_FLOAT64, inputs, COUNT, total);
    if (status) return status;
    *sums = (struct ls_loss_sums){.loss = total[0], .correct = (int64_t)total[1], .rows = (int64_t)total[2]};
    memcpy(sums->metrics, &total[3], sizeof(sums->metrics));
    status = ls_model_measure_penalty(model);
    sums->penalty = model->replicas[0].numbers->penalty * total[2];
    return status;
}

static ls_status evaluate(ls_model *model, struct ls_pipeline *pipeline, struct ls_loss_sums *sums) {
    ls_status status = LS_OK;
    for (int i = 0; i < model->strategy->local_count; i++) model->replicas[i].total = (struct ls_loss_sums){0};
    ls_model_use_pipeline(model, pipeline);
    for (int64_t step = 0; !status && step < ls_pipeline_steps(pipeline); step += ls_pipeline_taken(pipeline)) {
        status = ls_pipeline_seek(pipeline, 0, step);
        if (!status) status = ls_model_evaluate_step(model);
    }
    if (!status) status = sum_evaluation(model, sums);
    return status ? ls_fail_context(status, "evaluation") : LS_OK;
}

/* ---- Transactions ----------------------------------------------------------------------------------------------- */

static ls_status train(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    int64_t begin = state->epochs * fitting->steps_per_epoch, step = state->position - begin + 1;
    if (fitting->shown != state->epochs)
        ls_progress_epoch(fitting->progress, (int)state->epochs, fitting->options.epochs, fitting->steps_per_epoch);
    ls_status status = fitting->shown != state->epochs ? ls_fitting_tell(fitting, LS_ON_EPOCH_BEGIN) : LS_OK;
    fitting->shown = state->epochs;
    if (!status) status = ls_fitting_tell(fitting, LS_ON_TRAIN_BATCH_BEGIN);
    if (!status) status = train_step(fitting);
    if (!status) ls_membership_commit(fitting->model->strategy->membership);
    if (!status) ls_reached("committed");
    if (!status) status = ls_fitting_tell(fitting, LS_ON_TRAIN_BATCH_END);
    if (!status) fitting->stepped = state->position;
    if (!status && state->position < begin + fitting->steps_per_epoch) status = keep(fitting);
    if (status) return ls_fail_context(status, "epoch %d, step %lld", (int)state->epochs + 1, (long long)step);
    ls_progress_step(fitting->progress, state->position - begin, &state->result);
    return LS_OK;
}

static ls_status validate(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    ls_result *result = &state->result;
    struct ls_loss_sums sums;
    ls_reached("evaluate");
    ls_status status = evaluate(fitting->model, fitting->validation, &sums);
    if (status) return status;
    ls_model_means(fitting->model, &sums, &result->val_loss, &result->val_accuracy, result->val_metrics);
    state->evaluated = true;
    ls_membership_commit(fitting->model->strategy->membership);
    return LS_OK;
}

static ls_status finish_epoch(struct ls_fitting *fitting) {
    bool stopped;
    ls_status status = ls_fitting_end_epoch(fitting);
    ls_reached("verify");
    if (!status) status = ls_model_verify(fitting->model);
    if (!status) status = ls_fitting_agree_to_stop(fitting, &stopped);
    if (status) return status;
    fitting->state.stopped = stopped;
    fitting->state.epochs++;
    fitting->model->epoch_rate = fitting->model->step.rule.learning_rate;
    fitting->state.evaluated = false;
    fitting->state.sums = (struct ls_loss_sums){0};
    ls_membership_commit(fitting->model->strategy->membership);
    return LS_OK;
}

/* The next one. */
static ls_status advance(struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    if (state->position < (state->epochs + 1) * fitting->steps_per_epoch) return train(fitting);
    return fitting->validation && !state->evaluated ? validate(fitting) : finish_epoch(fitting);
}

static ls_status tell_epoch(struct ls_fitting *fitting, int epoch) {
    ls_result *result = &fitting->state.result;
    /* who has this epoch's end from another worker has also what on_epoch made of the rate there */
    fitting->model->step.rule.learning_rate = fitting->model->epoch_rate;
    result->steps = fitting->model->step.iteration;
    result->samples_per_second =
        fitting->timed_seconds > 0 ? (double)fitting->timed_samples / fitting->timed_seconds : NAN;
    ls_progress_epoch_end(fitting->progress, result);
    ls_status status =
        fitting->options.on_epoch ? fitting->options.on_epoch(fitting->options.context, epoch, result) : LS_OK;
    if (status) return ls_fail_context(status, "on_epoch after epoch %d", epoch + 1);
    status = fitting->state.stopped ? LS_OK : keep(fitting); /* the end's state is finish's */
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
    bool ending = state->position >= (state->epochs + 1) * fitting->steps_per_epoch;
    return fitting->model->requests.stop && !ending && state->position < fitting->last_position;
}

static ls_status stop(struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    long long step = state->position - state->epochs * fitting->steps_per_epoch;
    ls_status status = ls_fit_stop(fitting->model, fitting->backup, state);
    if (!step) return ls_fail_context(status, "after epoch %lld", (long long)state->epochs);
    return ls_fail_context(status, "epoch %lld, step %lld", (long long)state->epochs + 1, step);
}

static ls_status finish(struct ls_fitting *fitting) {
    ls_status status = fitting->stand != LS_CALL_DONE ? ls_fitting_tell(fitting, LS_ON_TRAIN_END) : LS_OK;
    return status ? ls_fail_context(status, "at the end") : ls_backup_finish(fitting->backup, &fitting->state);
}

static ls_status run_epochs(struct ls_fitting *fitting) {
    for (;;) {
        ls_status status = tell_epochs(fitting);
        if (status) return status;
        if (fitting->state.stopped || fitting->state.epochs == fitting->options.epochs) return finish(fitting);
        status = is_to_stop(fitting) ? stop(fitting) : advance(fitting);
        if (status) return status;
    }
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static ls_status check_fit(ls_fit_options *options) {
    if (!options->epochs) options->epochs = 1;
    if (options->epochs < 0) return ls_fail(LS_INVALID_ARGUMENT, "epochs %d must be at least 1", options->epochs);
    if (options->steps_per_epoch < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "steps_per_epoch %lld must not be negative",
                       (long long)options->steps_per_epoch);
    if (options->verbose < -1 || options->verbose > 2)
        return ls_fail(LS_INVALID_ARGUMENT, "verbose %d is none of -1, 0, 1, 2", options->verbose);
    if (!options->verbose) options->verbose = isatty(STDOUT_FILENO) ? 1 : 2;
    return LS_OK;
}

/* Anew where other replicas have come to this worker. */
static ls_status open_pipelines(struct ls_fitting *fitting) {
    const ls_strategy *strategy = fitting->model->strategy;
    ls_dataset *validation = fitting->options.validation_data;
    if (fitting->pipeline && fitting->layout == strategy->layout) return LS_OK;
    ls_pipeline_free(ls_steal(fitting->pipeline));
    ls_pipeline_free(ls_steal(fitting->validation));
    fitting->layout = strategy->layout;
    ls_status status = ls_strategy_open_pipeline(strategy, fitting->data, &fitting->pipeline);
    if (!status && validation) status = ls_strategy_open_pipeline(strategy, validation, &fitting->validation);
    return status;
}

/* What needs nobody else. */
static ls_status open_fit(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    const ls_fit_options *options = &fitting->options;
    ls_status status = open_pipelines(fitting);
    if (!status) status = ls_callbacks_new(model, options->callbacks, &fitting->callbacks);
    if (!status && model->compiled) status = ls_fit_describe(model, fitting->data, options, &fitting->lines);
    if (!status && model->compiled) status = ls_fit_join_lines(&fitting->lines, &fitting->description);
    if (status) return status;
    fitting->steps_per_epoch = options->steps_per_epoch
                                   ? options->steps_per_epoch * ls_strategy_portions(model->strategy)
                                   : ls_pipeline_steps(fitting->pipeline);
    fitting->last_position = options->epochs * fitting->steps_per_epoch;
    if (!ls_pipeline_steps(fitting->pipeline))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the dataset has no whole batch: batch_size %lld with drop_remainder, %lld examples",
                       (long long)fitting->data->options.batch_size, (long long)fitting->data->count);
    return LS_OK;
}

/* Anew where another worker has become the first one, or is it no more. */
static ls_status open_backup(struct ls_fitting *fitting) {
    const struct ls_backup_config config = {
        .model = fitting->model,
        .options = fitting->options.checkpoint,
        .data = fitting->data,
        .lines = &fitting->lines,
        .callbacks = fitting->callbacks,
        .steps_per_epoch = fitting->steps_per_epoch,
        .last_position = fitting->last_position,
        .job = fitting->state.job,
    };
    bool moved = fitting->backup && ls_backup_has_moved(fitting->backup);
    if (moved) ls_backup_free(ls_steal(fitting->backup));
    return config.options && !fitting->backup ? ls_backup_new(&config, &fitting->backup) : LS_OK;
}

/* With all others: the same training, the same weights, or what the newest checkpoint has. */
static ls_status begin_together(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    ls_status status = model->compiled ? ls_fit_agree(model, fitting->description) : LS_OK;
    if (!status) status = ls_model_build(model, fitting->data, fitting->pipeline, NULL);
    if (!status) status = ls_callbacks_build(fitting->callbacks);
    if (!status) status = ls_model_attach(model);
    if (!status) status = open_backup(fitting);
    if (!status && fitting->backup) status = ls_backup_restore(fitting->backup, &fitting->state);
    if (!status) ls_membership_commit(model->strategy->membership);
    return status;
}

/* The buffers are made for both pipelines before the first step, so that they do not move in training. */
static ls_status begin(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    const struct ls_call call = {model,          fitting->data,        fitting->pipeline,
                                 fitting->index, fitting->description, fitting->callbacks};
    ls_status status = ls_training_resume(&call, &fitting->state, &fitting->stand);
    if (!status && fitting->stand == LS_CALL_NEW) status = begin_together(fitting);
    if (!status && fitting->stand == LS_CALL_INSIDE) status = ls_model_attach(model);
    if (!status && fitting->stand == LS_CALL_INSIDE) status = open_backup(fitting);
    if (!status && fitting->stand != LS_CALL_DONE && fitting->validation)
        status = ls_model_build(model, fitting->options.validation_data, fitting->validation, NULL);
    if (status) return status;
    if (fitting->stand == LS_CALL_DONE) fitting->state.epochs = fitting->options.epochs;
    if (fitting->told < 0) fitting->told = fitting->state.epochs;
    ls_training_start(&call, &fitting->state);
    if (fitting->stand != LS_CALL_DONE) return ls_fitting_begin_callbacks(fitting);
    fitting->begun = true;
    return LS_OK;
}

/* What the first worker alone does: another one than before may be it now. */
static ls_status take_office(struct ls_fitting *fitting) {
    bool shows = fitting->options.verbose > 0 && fitting->model->strategy->membership->rank == 0;
    ls_status status = LS_OK;
    if (!shows) ls_progress_free(ls_steal(fitting->progress));
    if (shows && !fitting->progress) status = ls_progress_new(fitting->options.verbose, &fitting->progress);
    for (int i = 0; shows && !status && ls_model_metric_name(fitting->model, i); i++)
        ls_progress_metric(fitting->progress, ls_model_metric_name(fitting->model, i));
    return status || !fitting->backup ? status : open_backup(fitting);
}

static ls_status run(struct ls_fitting *fitting) {
    ls_status status = open_pipelines(fitting);
    if (status) return status;
    if (!fitting->begun || fitting->model->strategy->membership->inherited.data) status = begin(fitting);
    if (!status && fitting->stand != LS_CALL_DONE) status = ls_model_attach(fitting->model);
    if (!status) status = take_office(fitting);
    return status ? status : run_epochs(fitting);
}

static ls_status fit(struct ls_fitting *fitting) {
    ls_strategy *strategy = fitting->model->strategy;
    ls_status status = open_fit(fitting);
    fitting->index = ls_training_begin(strategy, fitting->model);
    fitting->model->requests = (struct ls_requests){0};
    fitting->model->stop_training = false;
    if (status) return status;
    do status = run(fitting);
    while (status && ls_strategy_recover(strategy, &status));
    return status ? status : ls_training_end(strategy, &fitting->state.result);
}

static void tell_memory(struct ls_fitting *fitting) {
    ls_model_tell_memory(fitting->model, &fitting->state.result);
    if (fitting->options.verbose >= 0) ls_model_log_memory(fitting->model, &fitting->state.result);
}

ls_status ls_model_fit(ls_model *model, ls_dataset *data, const ls_fit_options *options, ls_result *result) {
    struct ls_fitting fitting = {.model = model, .data = data, .ended = -1, .told = -1, .shown = -1};
    fitting.state.result = (ls_result){.val_loss = NAN, .val_accuracy = NAN, .samples_per_second = NAN};
    ls_status status = ls_options_copy("ls_fit_options", &fitting.options, sizeof(fitting.options), options);
    for (int i = 0; i < model->objective.metric_count; i++) fitting.state.result.val_metrics[i] = NAN;
    if (!status) status = check_fit(&fitting.options);
    if (!status) status = fit(&fitting);
    ls_model_use_pipeline(model, NULL);
    model->request = LS_GO_ON;
    model->strategy->training.fit = NULL;
    model->strategy->training.callbacks = NULL;
    ls_backup_free(fitting.backup);
    ls_callbacks_free(fitting.callbacks);
    ls_fit_lines_free(&fitting.lines);
    ls_free(fitting.description);
    ls_progress_free(fitting.progress);
    ls_pipeline_free(fitting.pipeline);
    ls_pipeline_free(fitting.validation);
    if (!status) tell_memory(&fitting);
    if (!status && result) *result = fitting.state.result;
    return status;
}

/* One attempt at a whole evaluation. */
static ls_status evaluate_call(const struct ls_call *call, ls_result *result) {
    ls_model *model = call->model;
    struct ls_fit_state state = {.result = *result};
    enum ls_call_stand stand;
    ls_status status = ls_training_resume(call, &state, &stand);
    *result = state.result;
    if (status || stand == LS_CALL_DONE) return status;
    if (model->compiled) status = ls_evaluation_agree(model, call->data);
    if (!status) status = ls_model_build(model, call->data, call->pipeline, NULL);
    struct ls_loss_sums sums;
    if (!status) status = evaluate(model, call->pipeline, &sums);
    if (status) return status;
    ls_model_means(model, &sums, &result->loss, &result->accuracy, result->metrics);
    result->steps = model->step.iteration;
    return LS_OK;
}

ls_status ls_model_evaluate(ls_model *model, ls_dataset *data, ls_result *result) {
    ls_result measured = {.val_loss = NAN, .val_accuracy = NAN, .samples_per_second = NAN};
    ls_strategy *strategy = model->strategy;
    ls_status status;
    for (int i = 0; i < model->objective.metric_count; i++) measured.val_metrics[i] = NAN;
    int64_t index = ls_training_begin(strategy, model);
    do {
        LS_CLEANUP(free_pipeline) struct ls_pipeline *pipeline = NULL;
        status = ls_strategy_open_pipeline(strategy, data, &pipeline);
        const struct ls_call call = {model, data, pipeline, index, NULL, NULL};
        if (!status) status = evaluate_call(&call, &measured);
    } while (status && ls_strategy_recover(strategy, &status));
    ls_model_use_pipeline(model, NULL);
    if (!status) status = ls_training_end(strategy, &measured);
    if (!status && result) *result = measured;
    return status;
}
