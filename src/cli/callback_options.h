/* The callbacks that lockstep train can be asked for. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

#define LS_MAX_CALLBACKS 8

/* The requested callbacks. */
struct ls_train_callbacks {
    ls_tensorboard_options tensorboard;
    ls_csv_logger_options csv;
    const char *monitor; /* of all callbacks that wait for a better number; NULL for the loss */
    ls_early_stopping_options stopping;
    ls_reduce_on_plateau_options plateau;
    ls_model_checkpoint_options best, each;
    bool nan_ends;
    bool warn_only;                          /* where a callback cannot write its file */
    ls_callback *list[LS_MAX_CALLBACKS + 1]; /* made; ends with NULL */
    int count;
};
extern const struct ls_option ls_callback_options[]; /* of it */
/* True if the options fit together; false after the error has been printed. */
bool ls_check_callback_options(const struct ls_command_line *line, const struct ls_train_callbacks *callbacks);
/* Fills the list. ls_train_callbacks_free on failure too. */
ls_status ls_train_callbacks_make(struct ls_train_callbacks *callbacks, bool validates);
void ls_train_callbacks_free(struct ls_train_callbacks *callbacks);
