/* The options of lockstep train. */
#pragma once
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "cli/callback_options.h"
#include "cli/common_options.h"
#include "cli/options.h"
#include "cli/train_model.h"

struct ls_train_options {
    ls_strategy_options strategy;
    const char *strategy_name, *dataset;
    ls_parameter_server_options servers;
    int staleness; /* -1: any number */
    ls_local_sgd_options local;
    int micro_batches; /* of a batch; 0: it is not divided */
    struct ls_train_model model;
    ls_tools_about *about; /* owns: of the model's file; NULL without one */
    const char *transport; /* NULL if the environment chooses */
    ls_dataset_options data;
    struct ls_augment augment;
    ls_fit_options fit;
    ls_checkpoint_options checkpoint;
    struct ls_train_callbacks callbacks;
    double watch_timeout; /* seconds for which an evaluator waits for a new checkpoint; 0 sets no limit */
    bool validate, json, dry_run;
};
/* The tables of its options; the first LS_TRAIN_TABLES say what is trained and how, the last one what is printed. */
enum { LS_TRAIN_TABLES = 19 };
extern const struct ls_option_table ls_train_tables[];
/* The plan that is to be made, of the tasks of TF_CONFIG or of a launcher. It points into training. */
ls_tools_plan_options ls_train_plan(const struct ls_train_options *training);
/* Reads a command line whose struct begins with training. As ls_train_options_read. */
bool ls_train_options_parse(struct ls_command_line *line, struct ls_train_options *training, int *code);
void ls_train_options_end(struct ls_train_options *training);
/* Reads the command line. False if the command is over: *code is its exit status, and the error, or the help, is
 * printed. */
bool ls_train_options_read(int argc, char **argv, struct ls_train_options *training, int *code);

/* Makes options those of the split that a training validates with, in the order of its source. */
void ls_train_data_validates(ls_dataset_options *options);
/* *validation stays as it is where the training has none. The caller frees both, also after an error. */
ls_status ls_train_data_open(const struct ls_train_options *training, ls_strategy *strategy, ls_dataset **data,
                             ls_dataset **validation);
