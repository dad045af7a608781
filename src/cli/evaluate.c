/* lockstep evaluate: loss and accuracy of a saved model, or of each checkpoint of a training that goes on
 * (Keras' SidecarEvaluator). */
#include "cli/commands.h"

#include <errno.h>
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/config.h"
#include "cli/report.h"
#include "cli/signals.h"

static const char about[] =
    "lockstep evaluate: measure a saved model on a dataset\n"
    "\n"
    "usage: lockstep evaluate --weights WHAT [--watch] [OPTIONS]\n"
    "\n"
    "With TF_CONFIG, or under lockstep run, the workers share the work; the numbers are the same.\n";
static const char more[] =
    "example:\n"
    "  lockstep train --dataset digits --save-best best.safetensors\n"
    "  lockstep evaluate --dataset digits --weights best.safetensors\n"
    "\n"
    "signals:\n" LS_SIGNALS_HELP "\n"
    "exit status: 0 done; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed; 143 stopped by\n"
    "SIGTERM, 130 by SIGINT; 1 anything else.\n";

enum { MOST_REPORTED = 4096 }; /* classes, whose confusion takes 128 MiB */

struct request {
    struct ls_saved_model saved;
    struct ls_evaluation evaluation;
};

#define AT(field) LS_OPTION_AT(struct request, evaluation.field)

static const struct ls_option rows[] = {
    {"json", NULL,
     "print one JSON object: examples, loss, accuracy, metrics by their names; null: no finite number, or none at all",
     AT(json), true},
    {"report", NULL,
     "precision, recall, F1 and the area under the ROC curve of each class, and the confusion matrix; with --json in "
     "its object \"report\"",
     AT(report), true},
    {"watch", NULL,
     "--weights is the folder of checkpoints of a training that goes on: measure each newest one as it appears, and "
     "print its step before the numbers. One process does it. It ends with status 0 when the training has left the "
     "folder, however it ended, or has removed its checkpoints; with 138 when the training was killed and does not "
     "come back within LOCKSTEP_REJOIN_TIMEOUT; or on a signal",
     AT(watch), true},
    {"watch-timeout", "S", "end, with status 0, after S seconds without a new one (default: none)", AT(timeout), 0.1,
     1e9, .needs = "watch"},
    {"tensorboard", "DIR",
     "also write each checkpoint's numbers to an event file in DIR/validation, as keras.callbacks.TensorBoard does: "
     "evaluation_loss_vs_iterations and others, at its step",
     AT(tensorboard), .needs = "watch"},
    {0}};
static const struct ls_option_table tables[] = {LS_SAVED_TABLES,
                                                {NULL, ls_loss_options, offsetof(struct ls_saved_model, model.rules)},
                                                {"measuring", rows, 0},
                                                {"configuration", ls_config_options, 0},
                                                {0}};

struct outcome {
    ls_result result;
    long long step; /* of the watched checkpoint; -1 if not known */
    int64_t examples;
    const char *metrics[LS_MAX_METRICS + 1]; /* ends with NULL */
    struct ls_report_table report;           /* without classes if none is asked for */
    const struct ls_saved_model *saved;
};

/* The model and the data of an evaluation, once they are open. */
struct measured {
    ls_model *model;
    ls_dataset *data;
};

static void close_measured(struct measured *measured) {
    ls_model_free(measured->model);
    ls_dataset_free(measured->data);
}

static ls_status evaluate_model(const struct measured *measured, struct outcome *outcome) {
    ls_status status = ls_model_evaluate(measured->model, measured->data, &outcome->result);
    if (status) return status;
    outcome->examples = ls_dataset_count(measured->data);
    for (int i = 0; i < LS_MAX_METRICS; i++) outcome->metrics[i] = ls_model_metric_name(measured->model, i);
    return LS_OK;
}

/* The labels of all rows of outputs: of an example, or of each of its positions. */
static ls_status read_labels(const ls_dataset *data, int64_t examples, int64_t positions, int32_t *labels) {
    ls_status status = LS_OK;
    for (int64_t i = 0; !status && i < examples; i++)
        status = ls_tools_labels(data, i, (size_t)positions, labels + i * positions);
    return status;
}

/* Removes the rows whose positions do not count. Returns the others' number. */
static int64_t keep_counted(int32_t *labels, float *values, int64_t count, int64_t width) {
    int64_t kept = 0;
    for (int64_t r = 0; r < count; r++) {
        if (labels[r] < 0) continue;
        labels[kept] = labels[r];
        memmove(values + kept++ * width, values + r * width, (size_t)width * sizeof(*values));
    }
    return kept;
}

/* values are those of the whole dataset. */
static ls_status fill_report(const struct measured *measured, struct outcome *outcome, float *values, ls_shape shape,
                             int32_t *labels) {
    const ls_tools_about *said = outcome->saved->about;
    int64_t count = ls_outputs_rows(&shape), width = ls_outputs_width(&shape);
    if (width > MOST_REPORTED)
        return ls_tools_fail(LS_INVALID_ARGUMENT, "--report is of at most %d classes, and the model has %lld",
                             MOST_REPORTED, (long long)width);
    ls_status status = labels ? read_labels(measured->data, shape.dims[0], count / shape.dims[0], labels) : LS_OK;
    if (status) return status;
    if (!ls_outputs_probable(said ? said->loss : NULL, values, count, width))
        return ls_tools_fail(LS_INVALID_ARGUMENT, "--report is of classes, and the model was trained with numbers");
    if (labels) count = keep_counted(labels, values, count, width);
    if (labels && ls_report_make(values, labels, count, width, width > 1 ? (int)width : 2, &outcome->report))
        return LS_OK;
    return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for the report");
}

static ls_status report_predictions(const struct measured *measured, struct outcome *outcome) {
    float *values = NULL;
    ls_shape shape;
    ls_status status = ls_tools_labels(measured->data, 0, 0, NULL); /* classes? */
    if (!status) status = ls_model_predict(measured->model, measured->data, &values, &shape);
    if (status) return status;
    int32_t *labels = malloc((size_t)ls_outputs_rows(&shape) * sizeof(*labels));
    status = fill_report(measured, outcome, values, shape, labels);
    free(labels);
    ls_memory_free(values);
    return status;
}

/* Measures the first checkpoint, or a later one with the model that is open. */
static ls_status measure_checkpoint(struct ls_saved_model *saved, ls_strategy *strategy, struct measured *measured,
                                    struct outcome *outcome) {
    ls_status status = measured->model ? ls_model_load_weights(measured->model, saved->path, NULL)
                                       : ls_saved_model_open(saved, strategy, &measured->model, &measured->data);
    return status ? status : evaluate_model(measured, outcome);
}

static ls_status evaluate(struct ls_saved_model *saved, ls_strategy *strategy, bool reports, struct outcome *outcome) {
    struct measured measured = {0};
    ls_status status = measure_checkpoint(saved, strategy, &measured, outcome);
    if (!status && reports) status = report_predictions(&measured, outcome);
    close_measured(&measured);
    return status;
}

static void print_number(const char *name, double value, bool json) {
    if (json)
        ls_tools_print_json(stdout, ", '%-s': %.9g", name, value);
    else
        (void)printf(isnan(value) ? " - %s: nan" : " - %s: %.4f", name, value);
}

static void print(const struct outcome *outcome, bool json) {
    if (outcome->step >= 0)
        (void)printf(json ? "{\"step\": %lld, " : "step %lld: ", outcome->step);
    else if (json)
        (void)printf("{");
    (void)printf(json ? "\"examples\": %lld" : "%lld examples", (long long)outcome->examples);
    print_number("loss", outcome->result.loss, json);
    if (json || !isnan(outcome->result.accuracy)) /* the loss has one */
        print_number("accuracy", outcome->result.accuracy, json);
    for (int i = 0; outcome->metrics[i]; i++) print_number(outcome->metrics[i], outcome->result.metrics[i], json);
    if (json && outcome->report.classes) ls_report_json(&outcome->report, ls_saved_model_class, outcome->saved);
    (void)puts(json ? "}" : "");
    if (!json && outcome->report.classes) ls_report_print(&outcome->report, ls_saved_model_class, outcome->saved);
    (void)fflush(stdout); /* another program may read it while this goes on */
}

/* The values under Keras' names. A warning in place of an error where warn_only is set. */
static ls_status write_events(const struct outcome *outcome, ls_tools_events *events, bool warn_only) {
    const ls_result *result = &outcome->result;
    if (!events) return LS_OK;
    ls_status status = ls_tools_events_put(events, "loss", outcome->step, result->loss);
    if (!status && !isnan(result->accuracy))
        status = ls_tools_events_put(events, "accuracy", outcome->step, result->accuracy);
    for (int i = 0; !status && outcome->metrics[i]; i++)
        status = ls_tools_events_put(events, outcome->metrics[i], outcome->step, result->metrics[i]);
    if (!status || !warn_only) return status;
    (void)fprintf(stderr, "lockstep: warning: %s\n", ls_error());
    return LS_OK;
}

/* One that the training has removed meanwhile is passed over. */
static ls_status watch(struct ls_saved_model *saved, ls_strategy *strategy, const struct ls_evaluation *evaluation,
                       ls_tools_events *events) {
    struct ls_watch watch = {saved->weights, evaluation->timeout, evaluation->evaluator, -1};
    struct measured measured = {0};
    struct outcome outcome = {0};
    ls_status status;
    while (!(status = ls_watch_next(&watch, saved->path, sizeof(saved->path))) && *saved->path) {
        outcome.step = watch.step;
        status = measure_checkpoint(saved, strategy, &measured, &outcome);
        if (!status) print(&outcome, evaluation->json);
        if (!status) status = write_events(&outcome, events, evaluation->warn_only);
        if (status == LS_NOT_FOUND && access(saved->path, F_OK) && errno == ENOENT) {
            close_measured(&measured);
            measured = (struct measured){0};
            status = LS_OK;
        }
        if (status) break;
    }
    close_measured(&measured);
    return status;
}

static ls_status watch_with_events(struct ls_saved_model *saved, ls_strategy *strategy,
                                   const struct ls_evaluation *evaluation) {
    ls_tools_events *events = NULL;
    ls_status status = evaluation->tensorboard ? ls_tools_events_new(evaluation->tensorboard, &events) : LS_OK;
    if (status && evaluation->warn_only) {
        (void)fprintf(stderr, "lockstep: warning: %s\n", ls_error());
        status = LS_OK;
    }
    if (!status) status = watch(saved, strategy, evaluation, events);
    ls_tools_events_free(events);
    return status;
}

static ls_status evaluate_once(struct ls_saved_model *saved, ls_strategy *strategy,
                               const struct ls_evaluation *evaluation) {
    struct outcome outcome = {.step = -1, .saved = saved};
    ls_status status = evaluate(saved, strategy, evaluation->report, &outcome);
    bool chief = ls_is_chief(strategy);
    status = ls_strategy_close(strategy, status);
    if (!status && chief) print(&outcome, evaluation->json);
    ls_report_free(&outcome.report);
    return status;
}

int ls_evaluation_run(struct ls_saved_model *saved, const struct ls_evaluation *evaluation) {
    ls_strategy *strategy = NULL;
    ls_signals_install(false);
    ls_status status = ls_multi_worker_mirrored_strategy_new(&saved->strategy, &strategy);
    if (status) return ls_signals_exit(status);
    if (!evaluation->watch) return ls_signals_exit(evaluate_once(saved, strategy, evaluation));
    if (ls_num_workers(strategy) > 1) {
        (void)fprintf(stderr,
                      "lockstep evaluate: --watch is for one process, TF_CONFIG has %d workers: start it without "
                      "TF_CONFIG, or as its evaluator\n",
                      ls_num_workers(strategy));
        return ls_strategy_close(strategy, LS_OK) ? 1 : LS_EXIT_USAGE;
    }
    status = ls_strategy_close(strategy, watch_with_events(saved, strategy, evaluation));
    return !status && ls_signals_stopped() ? ls_signals_stopped() : ls_signals_exit(status);
}

int evaluate_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep evaluate", argc, argv, about, more, tables, 0};
    struct request request = {.evaluation = {.json = false}};
    ls_saved_model_begin(&request.saved);
    int code = ls_options_read(&line, &request);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line) || !ls_check_saved_options(&line, &request.saved)) return LS_EXIT_USAGE;
    if (request.evaluation.report && request.evaluation.watch)
        return ls_usage_error(&line, "--report is of one model, and --watch measures each checkpoint");
    if (!request.evaluation.watch && !ls_check_weights(&line, request.saved.weights)) return LS_EXIT_USAGE;
    code = ls_evaluation_run(&request.saved, &request.evaluation);
    ls_saved_model_end(&request.saved);
    return code;
}
