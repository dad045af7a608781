/* The commands of lockstep: one file each, one row each in the table of main.c. An entry takes its own name as argv[0],
 * prints its own --help, and returns the exit status: 0 success, 2 a bad command line or configuration. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/saved_model.h"

#define LS_CHECK_SECONDS 5.0 /* for answers to check --connect: default */

int run_main(int argc, char **argv);
int agent_main(int argc, char **argv);
/* Is the agent of a host, on standard input and output: the exit status. */
int agent_serve(void);
int train_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int plot_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int check_main(int argc, char **argv);
int settings_main(int argc, char **argv);
int timeline_main(int argc, char **argv);
int top_main(int argc, char **argv);
int convert_main(int argc, char **argv);
int data_main(int argc, char **argv);
int tokens_main(int argc, char **argv);
int generate_main(int argc, char **argv);
int certs_main(int argc, char **argv);
int evaluate_main(int argc, char **argv);
int predict_main(int argc, char **argv);
int serve_main(int argc, char **argv);
int info_main(int argc, char **argv);

/* Outputs as rows of the last axis: how many, and how wide. */
int64_t ls_outputs_rows(const ls_shape *shape);
int64_t ls_outputs_width(const ls_shape *shape);
/* Turns rows of width outputs, trained with a loss of that name (NULL: unknown), into probabilities: by softmax, or by
 * sigmoid after a binary loss. False, and nothing is done, after the loss of a regression. */
bool ls_outputs_probable(const char *loss, float *values, int64_t rows, int64_t width);
/* The probability of a class in a row of width probabilities. */
double ls_outputs_probability(const float *values, int64_t width, int64_t class);
/* The likeliest class of a row of width values. A single one is that of the second class: of probabilities, or raw. */
int64_t ls_outputs_class(const float *values, int64_t width, bool raw);

/* Returns true if the environment makes this process a parameter server. */
bool ls_serve_is_due(void);
/* Serves until the workers have finished. Returns the exit status. */
int ls_serve_run(void);

/* Prints the text, which may be NULL, unless there was an error, and frees it. Returns the exit status. */
int ls_exit_text(ls_status status, char *text);

/* True if the locale has UTF-8, as setlocale would find it. */
bool ls_terminal_is_utf8(void);
/* The size; 0 and 0 where standard output is no terminal, or has none. */
void ls_terminal_size(int *columns, int *lines);

/* INVALID_ARGUMENT where the examples are not what --image-size, --image-channels or --symmetric ask for: their source
 * passes over them. */
ls_status ls_check_pictures(const char *dataset, const ls_dataset_options *options, bool symmetric,
                            const ls_dataset *data);
/* Warns of what a training would stumble over in arrays. */
void ls_tell_hints(const ls_dataset *data);
/* Warns where all examples are of one class: --limit of a folder takes the first ones. */
void ls_tell_one_class(const ls_dataset *data);

/* lockstep evaluate behind its options; lockstep train comes here as the evaluator of TF_CONFIG. */

struct ls_evaluation {
    bool json;
    bool report;             /* by class, too */
    bool watch;              /* each checkpoint of the folder as it appears */
    bool evaluator;          /* of TF_CONFIG */
    double timeout;          /* seconds for which watching waits for a new one; 0 sets no limit */
    const char *tensorboard; /* the folder of event files that watching writes; NULL for none */
    bool warn_only;          /* where these cannot be written */
};
/* Measures and prints; the exit status. */
int ls_evaluation_run(struct ls_saved_model *saved, const struct ls_evaluation *evaluation);

/* A folder of checkpoints that a training writes: the next one, or that there will be none. */

struct ls_watch {
    const char *folder;
    double timeout; /* seconds without a new checkpoint after which it ends; 0 sets no limit */
    bool evaluator; /* of TF_CONFIG: its training comes, or is given up */
    long long step; /* of the newest one that was found; -1: none was */
    /* its own */
    bool seen, held; /* a training had the folder; its lock keeps others out */
    double found,
        left; /* times: of the newest one or of the start; since when no training has the folder, 0: one has */
};
/* Waits for a checkpoint of a later step: *path has it, or is empty where there will be none, and stderr says why.
 * DEADLINE_EXCEEDED and UNAVAILABLE: the training did not come, or does not come back. */
ls_status ls_watch_next(struct ls_watch *watch, char *path, size_t size);
