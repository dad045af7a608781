/* lockstep train: trains a model from the command line. The same program under a TF_CONFIG, under lockstep run, or
 * alone. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/curve.h"
#include "cli/signals.h"
#include "cli/train_options.h"

static ls_status make_strategy(const struct ls_train_options *training, ls_strategy **strategy) {
    if (!strcmp(training->strategy_name, "mirrored")) return ls_mirrored_strategy_new(&training->strategy, strategy);
    if (!strcmp(training->strategy_name, "parameter-server"))
        return ls_parameter_server_strategy_new(&training->strategy, &training->servers, strategy);
    if (!strcmp(training->strategy_name, "local-sgd"))
        return ls_local_sgd_strategy_new(&training->strategy, &training->local, strategy);
    if (!strcmp(training->strategy_name, "central-storage"))
        return ls_central_storage_strategy_new(&training->strategy, NULL, strategy);
    if (!strcmp(training->strategy_name, "one-device"))
        return ls_one_device_strategy_new(training->strategy.devices, strategy);
    return ls_multi_worker_mirrored_strategy_new(&training->strategy, strategy);
}

struct outcome {
    ls_result result;
    char sha256[65];
    const char *metrics[LS_MAX_METRICS]; /* names */
    struct ls_curve curve;
};

/* On the chief. "" where rows of tables are on servers alone, and no checkpoint has brought them here. */
static ls_status digest(const ls_strategy *strategy, const ls_model *model, char sha256[65]) {
    ls_status status = ls_is_chief(strategy) ? ls_model_weights_sha256(model, sha256) : LS_OK;
    if (status == LS_UNIMPLEMENTED) sha256[0] = '\0';
    return status == LS_UNIMPLEMENTED ? LS_OK : status;
}

/* A step takes the micro-batches of a batch. */
static ls_status divide_batch(struct ls_train_options *training) {
    int *steps = &training->model.rules.optimizer.gradient_accumulation_steps, parts = training->micro_batches;
    int64_t *batch = &training->data.batch_size;
    if (!parts) return LS_OK;
    if (*steps > 1)
        return ls_tools_fail(LS_INVALID_ARGUMENT,
                             "--micro-batches %d and --accumulate %d both say how many batches a step takes; leave "
                             "one out",
                             parts, *steps);
    if (*batch % parts)
        return ls_tools_fail(LS_INVALID_ARGUMENT, "--micro-batches %d do not divide --batch-size %lld", parts,
                             (long long)*batch);
    *batch /= parts;
    *steps = parts;
    training->fit.steps_per_epoch *= parts;
    training->checkpoint.every_steps *= parts;
    return LS_OK;
}

static ls_status train(struct ls_train_options *training, ls_strategy *strategy, struct outcome *outcome) {
    ls_dataset *data = NULL, *validation = NULL;
    ls_model *model = NULL;
    if (!training->data.batch_size) training->data.batch_size = 64 * ls_num_replicas_in_sync(strategy);
    ls_status status = divide_batch(training);
    if (!status) status = ls_train_data_open(training, strategy, &data, &validation);
    training->fit.validation_data = validation;
    training->fit.callbacks = training->callbacks.list;
    training->fit.on_epoch = ls_curve_take;
    training->fit.context = &outcome->curve;
    training->fit.class_weight = training->model.rules.class_weights ? training->model.rules.class_weight : NULL;
    training->fit.checkpoint = training->checkpoint.folder ? &training->checkpoint : NULL;
    if (!status) ls_train_model_suit(&training->model, data);
    if (!status) status = ls_train_model_make(&training->model, strategy, data, &model);
    char words[1024];
    ls_train_model_words(&training->model, training->augment.test[0].kind != 0, words, sizeof(words));
    if (!status) status = ls_model_note(model, words);
    if (!status) status = ls_train_callbacks_make(&training->callbacks, validation != NULL);
    for (int i = 0; !status && i < LS_MAX_METRICS; i++) outcome->metrics[i] = ls_model_metric_name(model, i);
    if (!status) status = ls_model_fit(model, data, &training->fit, &outcome->result);
    if (!status) status = digest(strategy, model, outcome->sha256);
    ls_model_free(model);
    ls_train_callbacks_free(&training->callbacks);
    ls_dataset_free(data);
    ls_dataset_free(validation);
    return status;
}

/* As JSON null where nothing is known. */
static double or_null(int64_t bytes) {
    return bytes ? (double)bytes : (double)NAN;
}

static void print_outcome_json(int replicas, int workers, const struct outcome *outcome) {
    const ls_result *result = &outcome->result;
    ls_tools_print_json(
        stdout,
        "{'num_replicas_in_sync': %d, 'num_workers': %d, 'steps': %lld, 'loss': %.9g, 'accuracy': %.9g, "
        "'val_loss': %.9g, 'val_accuracy': %.9g, ",
        replicas, workers, (long long)result->steps, result->loss, result->accuracy, result->val_loss,
        result->val_accuracy);
    for (int i = 0; i < LS_MAX_METRICS && outcome->metrics[i]; i++)
        ls_tools_print_json(stdout, "'%-s': %.9g, 'val_%-s': %.9g, ", outcome->metrics[i], result->metrics[i],
                            outcome->metrics[i], result->val_metrics[i]);
    ls_tools_print_json(stdout, "'samples_per_second': %.9g, ", result->samples_per_second);
    if (result->loss_scale > 0)
        ls_tools_print_json(stdout, "'loss_scale': %.9g, 'skipped_steps': %lld, ", result->loss_scale,
                            (long long)result->skipped_steps);
    if (result->pushes_applied + result->pushes_dropped > 0)
        ls_tools_print_json(
            stdout, "'pushes_applied': %lld, 'pushes_dropped': %lld, 'staleness_max': %lld, 'staleness_mean': %.9g, ",
            (long long)result->pushes_applied, (long long)result->pushes_dropped, (long long)result->staleness_max,
            result->staleness_mean);
    ls_tools_print_json(stdout,
                        "'arena_bytes': %.0f, 'planned_bytes': %.0f, 'peak_bytes': %.0f, 'weights_sha256': %s}\n",
                        or_null(result->arena_bytes), or_null(result->planned_bytes), or_null(result->peak_bytes),
                        outcome->sha256[0] ? outcome->sha256 : NULL);
}

static int run_training(struct ls_train_options *training) {
    ls_strategy *strategy = NULL;
    struct outcome outcome = {.curve = {0}};
    if (training->transport && setenv("LOCKSTEP_TRANSPORT", training->transport, 1)) {
        perror("lockstep train: LOCKSTEP_TRANSPORT");
        return 1;
    }
    ls_signals_install(training->checkpoint.folder != NULL);
    ls_status status = make_strategy(training, &strategy);
    if (status) return ls_signals_exit(status);
    status = train(training, strategy, &outcome);
    int replicas = ls_num_replicas_in_sync(strategy), workers = ls_num_workers(strategy);
    bool chief = ls_is_chief(strategy), trained = !status; /* chief: of those who are left */
    status = ls_strategy_close(strategy, status);
    if (trained && chief && training->fit.verbose >= 0) ls_curve_print(&outcome.curve);
    ls_curve_free(&outcome.curve);
    if (trained && chief && training->json) print_outcome_json(replicas, workers, &outcome);
    return ls_signals_exit(status);
}

/* Of TF_CONFIG. */
static bool reads_cluster(const struct ls_train_options *training) {
    const char *name = training->strategy_name;
    return !strcmp(name, "multi-worker") || !strcmp(name, "parameter-server") || !strcmp(name, "local-sgd");
}

/* The same model and data, of the split that training validates with. */
static int run_evaluator(const struct ls_train_options *training) {
    const struct ls_evaluation evaluation = {.json = training->json,
                                             .watch = true,
                                             .evaluator = true,
                                             .timeout = training->watch_timeout,
                                             .tensorboard = training->callbacks.tensorboard.folder,
                                             .warn_only = training->callbacks.warn_only};
    struct ls_saved_model saved = {.model = training->model,
                                   .augment = training->augment,
                                   .strategy = training->strategy,
                                   .data = training->data,
                                   .dataset = training->dataset,
                                   .weights = training->checkpoint.folder};
    if (!saved.weights) {
        (void)fprintf(stderr, "lockstep train: an evaluator measures checkpoints and trains nothing: give it the "
                              "training's --checkpoint FOLDER\n");
        return LS_EXIT_USAGE;
    }
    saved.model.skip_mismatch = false;
    ls_train_data_validates(&saved.data);
    int code = ls_evaluation_run(&saved, &evaluation);
    ls_saved_model_end(&saved);
    return code;
}

/* ---- a dry run ---- */

struct dry_run {
    struct ls_train_options *training;
    ls_dataset *validation;
};

/* The model and the data of a worker, whose batches have so many rows. */
static ls_status make_dry(void *context, ls_strategy *strategy, int64_t batch, ls_dataset **data, ls_model **model) {
    struct dry_run *run = context;
    struct ls_train_options *training = run->training;
    training->data.batch_size = batch;
    ls_status status = ls_train_data_open(training, strategy, data, &run->validation);
    if (status) return status;
    (void)fprintf(stderr, "lockstep train: %lld examples an epoch, %d epochs, %lld examples to validate with\n",
                  (long long)ls_dataset_count(*data), training->fit.epochs,
                  run->validation ? (long long)ls_dataset_count(run->validation) : 0);
    ls_train_model_suit(&training->model, *data);
    return ls_train_model_make(&training->model, strategy, *data, model);
}

/* The folder of a file or folder that would be made can be written to. Numbers of epochs in it are not known yet. */
static ls_status check_place(const char *option, const char *path) {
    char text[PATH_MAX];
    if (!path || strchr(path, '{') || !access(path, W_OK)) return LS_OK;
    (void)snprintf(text, sizeof(text), "%s", path);
    if (errno == ENOENT && !access(dirname(text), W_OK)) return LS_OK;
    return ls_tools_fail(LS_NOT_FOUND, "--%s '%s': %s", option, path, strerror(errno));
}

static ls_status check_places(const struct ls_train_options *training) {
    const struct ls_train_callbacks *callbacks = &training->callbacks;
    const struct {
        const char *option, *path;
    } places[] = {{"checkpoint", training->checkpoint.folder},
                  {"tensorboard", callbacks->tensorboard.folder},
                  {"csv", callbacks->csv.path},
                  {"save-best", callbacks->best.path},
                  {"save-each", callbacks->each.path}};
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < sizeof(places) / sizeof(places[0]); i++)
        status = check_place(places[i].option, places[i].path);
    return status;
}

/* Checks what training checks before its first step, by the plan of one worker alone. */
static int run_dry(struct ls_train_options *training) {
    static const char *const writers[] = {"LOCKSTEP_TRACE", "LOCKSTEP_METRICS_FILE", "LOCKSTEP_HTTP"};
    struct dry_run run = {training, NULL};
    char *text = NULL;
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) (void)unsetenv(writers[i]);
    training->model.summary = true;
    ls_status status = check_places(training);
    if (!status) status = ls_train_callbacks_make(&training->callbacks, training->validate);
    ls_tools_plan_options options = ls_train_plan(training);
    options.callbacks = training->callbacks.list;
    options.validates = training->validate;
    if (!status) status = ls_tools_plan(&options, make_dry, &run, &text);
    ls_train_callbacks_free(&training->callbacks);
    ls_dataset_free(run.validation);
    return ls_exit_text(status, text);
}

static int run_task(struct ls_train_options *training) {
    if (training->dry_run) return run_dry(training);
    if (reads_cluster(training) && ls_serve_is_due()) return ls_serve_run();
    bool evaluator = reads_cluster(training) && ls_check_says("\"task_type\": \"evaluator\"");
    return evaluator ? run_evaluator(training) : run_training(training);
}

int train_main(int argc, char **argv) {
    struct ls_train_options training;
    int code;
    if (!ls_train_options_read(argc, argv, &training, &code)) return code;
    code = run_task(&training);
    ls_train_options_end(&training);
    return code;
}
