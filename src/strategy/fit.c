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
#include "strategy/model.h"

static void free_pipeline(struct ls_pipeline **pipeline) {
    ls_pipeline_free(*pipeline);
}

/* Appends a dataset's lines, each with prefix. */
static ls_status describe_data(FILE *out, const char *prefix, const ls_dataset *data) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    ls_status status = ls_dataset_describe(data, &lines);
    if (status) return status;
    char *state = NULL;
    for (char *line = strtok_r(lines, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
        (void)fprintf(out, "%s %s\n", prefix, line);
    return LS_OK;
}

/* The training fingerprint: what must be equal on all workers for the run to mean anything. */
static ls_status agree_on_training(const ls_model *model, const ls_dataset *data, const ls_fit_options *options) {
    char *text = NULL, rule[256];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return ls_fail_memory("the training fingerprint", 1);
    const struct ls_settings *settings = &model->strategy->membership->settings;
    ls_optimizer_describe(&model->step.rule, rule, sizeof(rule));
    (void)fprintf(out, "optimizer=%s\nloss=%d\nseed=%llu\niteration=%lld\nepochs=%d\nsteps_per_epoch=%lld\n", rule,
                  (int)model->loss, (unsigned long long)model->seed, (long long)model->step.iteration, options->epochs,
                  (long long)options->steps_per_epoch);
    (void)fprintf(out, "first_bucket=%lld\nbucket=%lld\n", (long long)settings->first_bucket,
                  (long long)settings->bucket);
    char device[256];
    ls_devices_fingerprint(device, sizeof(device));
    (void)fprintf(out, "device=%s\n", device);
    ls_status status = describe_data(out, "data", data);
    if (!status && options->validation_data) status = describe_data(out, "validation_data", options->validation_data);
    (void)fclose(out);
    if (!status) status = ls_membership_agree(model->strategy->membership, "training", text);
    free(text);
    return status;
}

/* Evaluation's: the data alone. */
static ls_status agree_on_evaluation(const ls_model *model, const ls_dataset *data) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return ls_fail_memory("the evaluation's fingerprint", 1);
    ls_status status = describe_data(out, "data", data);
    (void)fclose(out);
    if (!status) status = ls_membership_agree(model->strategy->membership, "evaluation", text);
    free(text);
    return status;
}

struct fitting {
    ls_model *model;
    ls_fit_options options;
    struct ls_pipeline *pipeline, *validation;
    struct ls_progress *progress; /* NULL: silent */
    int64_t steps_per_epoch;
    int64_t position; /* steps since fit began */
    int64_t timed_samples;
    double timed_seconds; /* both without the first step */
    ls_result result;
};

static ls_status train_step(struct fitting *fitting, struct ls_loss_sums *epoch_sums) {
    int64_t steps = ls_pipeline_steps(fitting->pipeline), started = ls_now();
    struct ls_track *track = fitting->model->strategy->replicas[0].track;
    struct ls_loss_sums sums;
    ls_status status = ls_pipeline_seek(fitting->pipeline, fitting->position / steps, fitting->position % steps);
    if (!status) status = ls_model_train_step(fitting->model, &sums);
    if (status) return status;
    ls_track_end(track, started, "step", (struct ls_span_facts){.step = fitting->model->step.iteration});
    if (fitting->position++) {
        fitting->timed_seconds += ls_seconds_since(started);
        fitting->timed_samples += sums.rows;
    }
    epoch_sums->loss += sums.loss;
    epoch_sums->correct += sums.correct;
    epoch_sums->rows += sums.rows;
    fitting->result.loss = epoch_sums->loss / (double)epoch_sums->rows;
    fitting->result.accuracy = (double)epoch_sums->correct / (double)epoch_sums->rows;
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

static ls_status run_epoch(struct fitting *fitting, int epoch) {
    struct ls_loss_sums sums = {0};
    ls_progress_epoch(fitting->progress, epoch, fitting->options.epochs, fitting->steps_per_epoch);
    fitting->model->pipeline = fitting->pipeline;
    for (int64_t step = 0; step < fitting->steps_per_epoch; step++) {
        ls_status status = train_step(fitting, &sums);
        if (status) return ls_fail_context(status, "epoch %d, step %lld", epoch + 1, (long long)step + 1);
        ls_progress_step(fitting->progress, step + 1, fitting->result.loss, fitting->result.accuracy);
    }
    ls_status status = LS_OK;
    if (fitting->validation)
        status =
            evaluate(fitting->model, fitting->validation, &fitting->result.val_loss, &fitting->result.val_accuracy);
    if (status) return status;
    ls_progress_epoch_end(fitting->progress, &fitting->result);
    return ls_model_verify(fitting->model);
}

static ls_status run_epochs(struct fitting *fitting) {
    for (int epoch = 0; epoch < fitting->options.epochs; epoch++) {
        ls_status status = run_epoch(fitting, epoch);
        if (status) return status;
        fitting->result.steps = fitting->model->step.iteration;
        fitting->result.samples_per_second =
            fitting->timed_seconds > 0 ? (double)fitting->timed_samples / fitting->timed_seconds : NAN;
        if (fitting->options.on_epoch)
            status = fitting->options.on_epoch(fitting->options.context, epoch, &fitting->result);
        if (status) return ls_fail_context(status, "on_epoch after epoch %d", epoch + 1);
    }
    return LS_OK;
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
static ls_status prepare(struct fitting *fitting, ls_dataset *data) {
    ls_model *model = fitting->model;
    ls_status status = ls_strategy_open_pipeline(model->strategy, data, &fitting->pipeline);
    if (!status && fitting->options.validation_data)
        status = ls_strategy_open_pipeline(model->strategy, fitting->options.validation_data, &fitting->validation);
    if (!status && model->compiled) status = agree_on_training(model, data, &fitting->options);
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

ls_status ls_model_fit(ls_model *model, ls_dataset *data, const ls_fit_options *options, ls_result *result) {
    struct fitting fitting = {.model = model, .result = {.val_loss = NAN, .val_accuracy = NAN}};
    ls_status status = ls_options_copy("ls_fit_options", &fitting.options, sizeof(fitting.options), options);
    if (!status) status = check_fit(&fitting.options);
    if (!status) status = prepare(&fitting, data);
    if (!status) status = run_epochs(&fitting);
    model->pipeline = NULL;
    ls_progress_free(fitting.progress);
    ls_pipeline_free(fitting.pipeline);
    ls_pipeline_free(fitting.validation);
    if (!status && result) *result = fitting.result;
    return status;
}

ls_status ls_model_evaluate(ls_model *model, ls_dataset *data, ls_result *result) {
    LS_CLEANUP(free_pipeline) struct ls_pipeline *pipeline = NULL;
    ls_result measured = {.val_loss = NAN, .val_accuracy = NAN, .samples_per_second = NAN};
    ls_status status = ls_strategy_open_pipeline(model->strategy, data, &pipeline);
    if (!status && model->compiled) status = agree_on_evaluation(model, data);
    if (!status) status = ls_model_build(model, data, pipeline);
    if (!status) status = evaluate(model, pipeline, &measured.loss, &measured.accuracy);
    model->pipeline = NULL;
    if (status) return status;
    measured.steps = model->step.iteration;
    if (result) *result = measured;
    return LS_OK;
}
