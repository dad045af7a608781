/* lockstep evaluate: loss and accuracy of a saved model. */
#include <lockstep/lockstep.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/saved_model.h"

static const char help[] =
    "lockstep evaluate: measure a saved model on a dataset\n"
    "\n"
    "usage: lockstep evaluate --weights WHAT [OPTIONS]\n"
    "\n"
    "With TF_CONFIG, or under lockstep run, the workers share the work; the numbers are the same.\n"
    "\n" LS_SAVED_HELP "  --json                  print one JSON object: examples, loss, accuracy\n"
    "  --help                  print this text\n"
    "\n"
    "example:\n"
    "  lockstep train --dataset digits --save-best best.safetensors\n"
    "  lockstep evaluate --dataset digits --weights best.safetensors\n"
    "\n"
    "exit status: 0 done; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed; 1 anything "
    "else.\n";

enum { JSON = LS_SAVED_END };
static const struct option long_options[] = {
    LS_SAVED_OPTIONS, {"json", no_argument, NULL, JSON}, {"help", no_argument, NULL, 'h'}, {0}};

static ls_status evaluate(struct ls_saved_model *saved, ls_strategy *strategy, ls_result *result, int64_t *examples) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status = ls_saved_model_open(saved, strategy, &model, &data);
    if (!status) status = ls_model_evaluate(model, data, result);
    if (!status) *examples = ls_dataset_count(data);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void print(const ls_result *result, int64_t examples, bool json) {
    const char *format = json ? "{\"examples\": %lld, \"loss\": %.9g, \"accuracy\": %.9g}\n"
                              : "%lld examples - loss: %.4f - accuracy: %.4f\n";
    (void)printf(format, (long long)examples, result->loss, result->accuracy);
}

static int run(struct ls_saved_model *saved, bool json) {
    ls_strategy *strategy = NULL;
    ls_result result;
    int64_t examples = 0;
    ls_status status = ls_multi_worker_mirrored_strategy_new(&saved->strategy, &strategy);
    if (status) return ls_exit(status);
    status = evaluate(saved, strategy, &result, &examples);
    bool chief = ls_is_chief(strategy);
    status = ls_strategy_close(strategy, status);
    if (!status && chief) print(&result, examples, json);
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
