/* A trained model and its data, shared by lockstep evaluate and lockstep predict. */
#pragma once
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "cli/common_options.h"
#include "cli/train_model.h"

struct ls_saved_model {
    struct ls_train_model model;
    struct ls_augment augment;
    ls_strategy_options strategy;
    ls_dataset_options data;
    const char *dataset, *weights;
    const char *const *paths; /* [path_count] files without labels, in the place of dataset */
    size_t path_count;
    bool any_loss;                      /* none is asked for: one that fits the data will do */
    char path[4096];                    /* of the newest checkpoint in a folder */
    const struct ls_command_line *line; /* what it does not say the weights say; NULL: they are not asked */
    ls_tools_about *about;              /* once it is open: what they say. Owns */
    ls_tools_about *layers;             /* owns: what another file says, whose layers it has; NULL: the weights' own */
    char **names;                       /* [name_count] own: of the training's classes, else of the data's */
    int name_count;
};
void ls_saved_model_begin(struct ls_saved_model *saved);
extern const struct ls_option ls_saved_options[]; /* of it: weights and split */
/* The tables of all its options, for a command whose struct begins with it. */
#define LS_SAVED_TABLES                                                                                                \
    {"model and data", ls_saved_options, 0}, {NULL, ls_model_options, offsetof(struct ls_saved_model, model)},         \
        {NULL, ls_dataset_option, offsetof(struct ls_saved_model, dataset)},                                           \
        {NULL, ls_data_options, offsetof(struct ls_saved_model, data)},                                                \
        {NULL, ls_batch_option, offsetof(struct ls_saved_model, data)},                                                \
        {NULL, ls_devices_option, offsetof(struct ls_saved_model, strategy.devices)},                                  \
        {NULL, ls_precision_option, offsetof(struct ls_saved_model, model.rules)}, {                                   \
        NULL, ls_symmetric_option, offsetof(struct ls_saved_model, augment)                                            \
    }
/* True if the required options are given; false after the error has been printed. */
bool ls_check_saved_options(const struct ls_command_line *line, struct ls_saved_model *saved);
/* The newest checkpoint in a folder, its path of size bytes and its step. Returns 1; 0 if there is no checkpoint, or no
 * folder; -1 if the folder cannot be read, as errno tells. */
int ls_newest_checkpoint(const char *folder, char *path, size_t size, long long *step);
/* Takes from the weights what they say, where the command line does not. */
ls_status ls_saved_model_ask(struct ls_saved_model *saved, ls_strategy *strategy);
/* Opens both on a strategy that is there, as the weights say where the command line does not. */
ls_status ls_saved_model_open(struct ls_saved_model *saved, ls_strategy *strategy, ls_model **model, ls_dataset **data);
void ls_saved_model_end(struct ls_saved_model *saved);
/* The name of a class of the model that is open, NULL if it has none; saved is a struct ls_saved_model. */
const char *ls_saved_model_class(const void *saved, int class);
