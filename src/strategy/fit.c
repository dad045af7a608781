/* fit and evaluate: epochs of steps over a distributed dataset (tf.keras.Model.fit under a strategy). The position in
 * the data is a function of the step, every worker knows how many steps there are, so nobody runs out alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "observe/progress.h"
#include "strategy/stop.h"

static void free_pipeline(struct ls_pipeline **pipeline) {
    ls_pipeline_free(*pipeline);
}

struct fitting {
    ls_model *model;
    ls_fit_options options;
    struct ls_pipeline *pipeline, *validation;
    struct ls_progress *progress; /* NULL: silent */
    struct ls_backup *backup;     /* NULL: no checkpoints */
    int64_t steps_per_epoch;
    struct ls_fit_state state;
    bool timing; /* the first step here is done */
    int64_t timed_samples;
    double timed_seconds; /* both without the first step */
};

/* What this worker wishes goes with the step. */
static void ask(const struct fitting *fitting) {
    const ls_fit_options *options = &fitting->options;
    ls_request request = options->request ? options->request(options->context) : LS_GO_ON;
    if (request > fitting->model->request) fitting->model->request = request;
}

/* After a step and all that belongs to it: a checkpoint when one is due, or the end that somebody asked for. */
static ls_status end_step(struct fitting *fitting) {
    bool last = fitting->state.position == fitting->options.epochs * fitting->steps_per_epoch;
    if (fitting->model->requests.stop && !last) return ls_fit_stop(fitting->model, fitting->backup, &fitting->state);
    return ls_backup_step(fitting->backup, &fitting->state);
}

static ls_status train_step(struct fitting *fitting) {
    int64_t steps = ls_pipeline_steps(fitting->pipeline), started = ls_now();
    struct ls_track *track = fitting->model->strategy->replicas[0].track;
    struct ls_fit_state *state = &fitting->state;
    struct ls_loss_sums sums;
    ls_status status = ls_pipeline_seek(fitting->pipeline, state->position / steps, state->position % steps);
    if (!status) ask(fitting);
    if (!status) status = ls_model_train_step(fitting->model, &sums);
    if (status) return status;
    ls_track_end(track, started, "step", (struct ls_span_facts){.step = fitting->model->step.iteration});
    if (fitting->timing) {
        fitting->timed_seconds += ls_seconds_since(started);
        fitting->timed_samples += sums.rows;
    }
    fitting->timing = true;
    state->position++;
    state->sums.loss += sums.loss;
    state->sums.correct += sums.correct;
    state->sums.rows += sums.rows;
    state->result.loss = state->sums.loss / (double)state->sums.rows;
    state->result.accuracy = (double)state->sums.correct / (double)state->sums.rows;
    return LS_OK;
}

/* The replicas' sums over a whole evaluation, added over all replicas; counts up to 2^53 are exact in float64. */
static ls_status sum_evaluation(ls_model *model, struct ls_loss_sums *sums) {
    double values[LS_MAX_LOCAL_DEVICES][3], total[3];
    const void *inputs[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < model->strategy->local_count; i++) {
        const struct ls_loss_sums *own = &model->replicas[i].total;
        values[i][0] = own->loss;
        values[i][1] = (double)own->correct;
        values[i][2] = (double)own->rows;
        inputs[i] = values[i];
    }
    ls_status status = ls_reduce(model->strategy, LS_SUM, LS_FLOAT64, inputs, 3, total);
    if (!status) *sums = (struct ls_loss_sums){total[0], (int64_t)total[1], (int64_t)total[2]};
    return status;
}

static ls_status evaluate(ls_model *model, struct ls_pipeline *pipeline, double *loss, double *accuracy) {
    struct ls_loss_sums sums;
    ls_status status = LS_OK;
    for (int i = 0; i < model->strategy->local_count; i++) model->replicas[i].total = (struct ls_loss_sums){0};
    model->pipeline = pipeline;
    for (int64_t step = 0; !status && step < ls_pipeline_steps(pipeline); step++) {
        status = ls_pipeline_seek(pipeline, 0, step);
        if (!status) status = ls_model_evaluate_step(model);
    }
    if (!status) status = sum_evaluation(model, &sums);
    if (status) return ls_fail_context(status, "evaluation");
    *loss = sums.loss / (double)sums.rows;
    *accuracy = (double)sums.correct / (double)sums.rows;
    return LS_OK;
}

/* The epoch's steps, from where the fit is. The checkpoint of the last one waits until all of the epoch is done. */
static ls_status run_steps(struct fitting *fitting, int epoch) {
    int64_t step = fitting->state.position % fitting->steps_per_epoch;
    if (step == 0) fitting->state.sums = (struct ls_loss_sums){0};
    fitting->model->pipeline = fitting->pipeline;
    while (step < fitting->steps_per_epoch) {
        ls_status status = train_step(fitting);
        step++;
        if (!status && step < fitting->steps_per_epoch) status = end_step(fitting);
        if (status) return ls_fail_context(status, "epoch %d, step %lld", epoch + 1, (long long)step);
        ls_progress_step(fitting->progress, step, fitting->state.result.loss, fitting->state.result.accuracy);
    }
    return LS_OK;
}

static ls_status run_epoch(struct fitting *fitting, int epoch) {
    ls_result *result = &fitting->state.result;
    ls_progress_epoch(fitting->progress, epoch, fitting->options.epochs, fitting->steps_per_epoch);
    ls_status status = run_steps(fitting, epoch);
    if (!status && fitting->validation)
        status = evaluate(fitting->model, fitting->validation, &result->val_loss, &result->val_accuracy);
    if (status) return status;
    ls_progress_epoch_end(fitting->progress, result);
    return ls_model_verify(fitting->model);
}

static ls_status end_epoch(struct fitting *fitting, int epoch) {
    ls_result *result = &fitting->state.result;
    result->steps = fitting->model->step.iteration;
    result->samples_per_second =
        fitting->timed_seconds > 0 ? (double)fitting->timed_samples / fitting->timed_seconds : NAN;
    ls_status status =
        fitting->options.on_epoch ? fitting->options.on_epoch(fitting->options.context, epoch, result) : LS_OK;
    if (status) return ls_fail_context(status, "on_epoch after epoch %d", epoch + 1);
    status = end_step(fitting);
    return status ? ls_fail_context(status, "after epoch %d", epoch + 1) : LS_OK;
}

static ls_status run_epochs(struct fitting *fitting) {
    ls_status status = LS_OK;
    for (int64_t epoch = fitting->state.position / fitting->steps_per_epoch; !status && epoch < fitting->options.epochs;
         epoch++) {
        status = run_epoch(fitting, (int)epoch);
        if (!status) status = end_epoch(fitting, (int)epoch);
    }
    return status ? status : ls_backup_finish(fitting->backup, &fitting->state);
}

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

/* The model is built for both pipelines before the first step, so that buffers do not move in training. */
static ls_status prepare(struct fitting *fitting, ls_dataset *data, struct ls_fit_lines *lines) {
    ls_model *model = fitting->model;
    ls_status status = ls_strategy_open_pipeline(model->strategy, data, &fitting->pipeline);
    if (!status && fitting->options.validation_data)
        status = ls_strategy_open_pipeline(model->strategy, fitting->options.validation_data, &fitting->validation);
    if (!status && model->compiled) status = ls_fit_describe(model, data, &fitting->options, lines);
    if (!status && model->compiled) status = ls_fit_agree(model, lines);
    if (!status) status = ls_model_build(model, data, fitting->pipeline);
    if (!status && fitting->validation)
        status = ls_model_build(model, fitting->options.validation_data, fitting->validation);
    if (status) return status;
    fitting->steps_per_epoch =
        fitting->options.steps_per_epoch ? fitting->options.steps_per_epoch : ls_pipeline_steps(fitting->pipeline);
    if (!ls_pipeline_steps(fitting->pipeline))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the dataset has no whole batch: batch_size %lld with drop_remainder, %lld examples",
                       (long long)data->options.batch_size, (long long)data->count);
    if (fitting->options.verbose > 0 && model->strategy->membership->rank == 0)
        status = ls_progress_new(fitting->options.verbose, &fitting->progress);
    return status;
}

/* Where checkpoints are wanted: from the newest, where there is one. */
static ls_status restore(struct fitting *fitting, const struct ls_fit_lines *lines) {
    const struct ls_backup_config config = {
        .model = fitting->model,
        .options = fitting->options.checkpoint,
        .lines = lines,
        .steps_per_epoch = fitting->steps_per_epoch,
        .last_position = fitting->options.epochs * fitting->steps_per_epoch,
    };
    if (!config.options) return LS_OK;
    ls_status status = ls_backup_new(&config, &fitting->backup);
    return status ? status : ls_backup_restore(fitting->backup, &fitting->state);
}

ls_status ls_model_fit(ls_model *model, ls_dataset *data, const ls_fit_options *options, ls_result *result) {
    struct fitting fitting = {.model = model, .state.result = {.val_loss = NAN, .val_accuracy = NAN}};
    struct ls_fit_lines lines = {0};
    fitting.state.result.samples_per_second = NAN;
    ls_status status = ls_options_copy("ls_fit_options", &fitting.options, sizeof(fitting.options), options);
    if (!status) status = check_fit(&fitting.options);
    if (!status) status = prepare(&fitting, data, &lines);
    if (!status) status = restore(&fitting, &lines);
    if (!status) status = run_epochs(&fitting);
    model->pipeline = NULL;
    model->request = LS_GO_ON;
    ls_backup_free(fitting.backup);
    ls_fit_lines_free(&lines);
    ls_progress_free(fitting.progress);
    ls_pipeline_free(fitting.pipeline);
    ls_pipeline_free(fitting.validation);
    if (!status && result) *result = fitting.state.result;
    return status;
}

ls_status ls_model_evaluate(ls_model *model, ls_dataset *data, ls_result *result) {
    LS_CLEANUP(free_pipeline) struct ls_pipeline *pipeline = NULL;
    ls_result measured = {.val_loss = NAN, .val_accuracy = NAN, .samples_per_second = NAN};
    ls_status status = ls_strategy_open_pipeline(model->strategy, data, &pipeline);
    if (!status && model->compiled) status = ls_evaluation_agree(model, data);
    if (!status) status = ls_model_build(model, data, pipeline);
    if (!status) status = evaluate(model, pipeline, &measured.loss, &measured.accuracy);
    model->pipeline = NULL;
    if (status) return status;
    measured.steps = model->step.iteration;
    if (result) *result = measured;
    return LS_OK;
}
