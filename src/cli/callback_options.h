/* The callbacks that lockstep train can be asked for. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

#define LS_MAX_CALLBACKS 8

enum ls_callback_option {
    LS_TENSORBOARD_FOLDER = 1280,
    LS_TENSORBOARD_HISTOGRAMS,
    LS_TENSORBOARD_GRADIENTS,
    LS_TENSORBOARD_IMAGES,
    LS_TENSORBOARD_NO_GRAPH,
    LS_TENSORBOARD_STEPS,
    LS_CSV_FILE,
    LS_CSV_APPEND,
    LS_LOG_ERRORS,
    LS_EARLY_STOP,
    LS_MONITOR,
    LS_MIN_DELTA,
    LS_RESTORE_BEST,
    LS_PLATEAU,
    LS_PLATEAU_FACTOR,
    LS_PLATEAU_MIN,
    LS_SAVE_BEST,
    LS_SAVE_EACH,
    LS_NAN_ENDS
};
#define LS_CALLBACK_OPTIONS                                                                                            \
    {"tensorboard", required_argument, NULL, LS_TENSORBOARD_FOLDER},                                                   \
        {"tensorboard-histograms", required_argument, NULL, LS_TENSORBOARD_HISTOGRAMS},                                \
        {"tensorboard-gradients", no_argument, NULL, LS_TENSORBOARD_GRADIENTS},                                        \
        {"tensorboard-images", no_argument, NULL, LS_TENSORBOARD_IMAGES},                                              \
        {"tensorboard-no-graph", no_argument, NULL, LS_TENSORBOARD_NO_GRAPH},                                          \
        {"tensorboard-steps", required_argument, NULL, LS_TENSORBOARD_STEPS},                                          \
        {"csv", required_argument, NULL, LS_CSV_FILE}, {"csv-append", no_argument, NULL, LS_CSV_APPEND},               \
        {"log-errors", required_argument, NULL, LS_LOG_ERRORS},                                                        \
        {"early-stopping", required_argument, NULL, LS_EARLY_STOP}, {"monitor", required_argument, NULL, LS_MONITOR},  \
        {"min-delta", required_argument, NULL, LS_MIN_DELTA}, {"restore-best", no_argument, NULL, LS_RESTORE_BEST},    \
        {"reduce-on-plateau", required_argument, NULL, LS_PLATEAU},                                                    \
        {"plateau-factor", required_argument, NULL, LS_PLATEAU_FACTOR},                                                \
        {"min-learning-rate", required_argument, NULL, LS_PLATEAU_MIN},                                                \
        {"save-best", required_argument, NULL, LS_SAVE_BEST}, {"save-each", required_argument, NULL, LS_SAVE_EACH}, {  \
        "terminate-on-nan", no_argument, NULL, LS_NAN_ENDS                                                             \
    }
#define LS_CALLBACK_HELP                                                                                               \
    "  --tensorboard DIR       write event files for TensorBoard, as Keras does, to DIR/train and DIR/validation: "    \
    "loss,\n"                                                                                                          \
    "                          accuracy and learning rate an epoch, steps a second; only the chief writes. The "       \
    "graph\n"                                                                                                          \
    "                          of the layers too, but for --tensorboard-no-graph\n"                                    \
    "  --tensorboard-steps N   loss and accuracy after every N steps as well\n"                                        \
    "  --tensorboard-histograms N   histograms of all weights after every N epochs; with --tensorboard-gradients of\n" \
    "                          the gradients too, with --tensorboard-images weights as images\n"                       \
    "  --csv FILE              a row an epoch; --csv-append: behind what is in the file\n"                             \
    "  --log-errors fail|warn  what it is when these cannot be written: the end, or a warning (default fail)\n"        \
    "  --save-best FILE        the weights of the best epoch, as .safetensors or .npz; {epoch}, {val_loss:.3f} in "    \
    "FILE\n"                                                                                                           \
    "                          are these numbers. --save-each FILE: of each epoch\n"                                   \
    "  --early-stopping N      end after N epochs without a better one; --restore-best: with the best one's weights\n" \
    "  --reduce-on-plateau N   multiply the learning rate by --plateau-factor X (default 0.1) after N epochs without " \
    "a\n"                                                                                                              \
    "                          better one; not below --min-learning-rate X\n"                                          \
    "  --monitor NAME          the number that tells a better epoch: loss, accuracy, val_loss, val_accuracy or a\n"    \
    "                          metric's (default val_loss; with --no-validation loss). --min-delta X: a change\n"      \
    "                          below X is none\n"                                                                      \
    "  --terminate-on-nan      end with an error when the loss is no number\n"

/* What was asked for. */
struct ls_train_callbacks {
    ls_tensorboard_options tensorboard;
    ls_csv_logger_options csv;
    const char *monitor; /* of all that wait for a better number; NULL: the loss */
    ls_early_stopping_options stopping;
    ls_reduce_on_plateau_options plateau;
    ls_model_checkpoint_options best, each;
    bool stops, reduces, nan_ends;
    ls_callback *list[LS_MAX_CALLBACKS + 1]; /* made; ends with NULL */
    int count;
};
/* Puts the option that getopt has just read into callbacks; false after the error has been printed. Other commands'
 * options are none of its business: true. */
bool ls_read_callback_option(const struct ls_command_line *line, int option, struct ls_train_callbacks *callbacks);
/* Whether the options fit together; false after the error has been printed. */
bool ls_check_callback_options(const struct ls_command_line *line, const struct ls_train_callbacks *callbacks);
/* Fills the list. ls_train_callbacks_free on failure too. */
ls_status ls_train_callbacks_make(struct ls_train_callbacks *callbacks, bool validates);
void ls_train_callbacks_free(struct ls_train_callbacks *callbacks);
