/* lockstep evaluate: loss and accuracy of a saved model. */
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/saved_model.h"

static const char help[] =
    "lockstep evaluate: measure a saved model on a dataset\n"
    "\n"
    "usage: lockstep evaluate --weights WHAT [OPTIONS]\n"
    "\n"
    "With TF_CONFIG, or under lockstep run, the workers share the work; the numbers are the same.\n"
    "\n" LS_SAVED_HELP "  --loss, --label-smoothing, --metrics   as lockstep train has them\n"
    "  --json                  print one JSON object: examples, loss, accuracy, metrics by their names\n"
    "  --help                  print this text\n"
    "\n"
    "example:\n"
    "  lockstep train --dataset digits --save-best best.safetensors\n"
    "  lockstep evaluate --dataset digits --weights best.safetensors\n"
    "\n"
    "exit status: 0 done; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed; 1 anything "
    "else.\n";

enum { JSON = LS_SAVED_END };
static const struct option long_options[] = {LS_SAVED_OPTIONS,
                                             {"loss", required_argument, NULL, LS_RULE_LOSS},
                                             {"label-smoothing", required_argument, NULL, LS_RULE_SMOOTHING},
                                             {"metrics", required_argument, NULL, LS_RULE_METRICS},
                                             {"json", no_argument, NULL, JSON},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

struct outcome {
    ls_result result;
    int64_t examples;
    const char *metrics[LS_MAX_METRICS + 1]; /* ends with NULL */
};

static ls_status evaluate(struct ls_saved_model *saved, ls_strategy *strategy, struct outcome *outcome) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status = ls_saved_model_open(saved, strategy, &model, &data);
    if (!status) status = ls_model_evaluate(model, data, &outcome->result);
    if (!status) outcome->examples = ls_dataset_count(data);
    for (int i = 0; !status && i < LS_MAX_METRICS; i++) outcome->metrics[i] = ls_model_metric_name(model, i);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void print_number(const char *name, double value, bool json) {
    if (json && isfinite(value))
        (void)printf(", \"%s\": %.9g", name, value);
    else if (json)
        (void)printf(", \"%s\": null", name);
    else if (isfinite(value))
        (void)printf(" - %s: %.4f", name, value);
}

static void print(const struct outcome *outcome, bool json) {
    (void)printf(json ? "{\"examples\": %lld" : "%lld examples", (long long)outcome->examples);
    print_number("loss", outcome->result.loss, json);
    print_number("accuracy", outcome->result.accuracy, json);
    for (int i = 0; outcome->metrics[i]; i++) print_number(outcome->metrics[i], outcome->result.metrics[i], json);
    (void)puts(json ? "}" : "");
}

static int run(struct ls_saved_model *saved, bool json) {
    ls_strategy *strategy = NULL;
    struct outcome outcome = {0};
    ls_status status = ls_multi_worker_mirrored_strategy_new(&saved->strategy, &strategy);
    if (status) return ls_exit(status);
    status = evaluate(saved, strategy, &outcome);
    bool chief = ls_is_chief(strategy);
    status = ls_strategy_close(strategy, status);
    if (!status && chief) print(&outcome, json);
    return ls_exit(status);
}

int evaluate_main(int argc, char **argv) {
    const struct ls_command_line line = {"lockstep evaluate", argc, argv, "h", long_options};
    struct ls_saved_model saved;
    bool json = false;
    ls_saved_model_begin(&saved);
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == 'h') return fputs(help, stdout) < 0;
        if (option == LS_OPTION_BAD || !ls_read_saved_option(&line, option, &saved)) return LS_EXIT_USAGE;
        if (option == JSON) json = true;
    }
    if (!ls_no_arguments(&line) || !ls_check_saved_options(&line, &saved)) return LS_EXIT_USAGE;
    return run(&saved, json);
}
