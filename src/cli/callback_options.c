/* The options about callbacks, and making them. */
#include "cli/callback_options.h"

#include <stdlib.h>

static const char *const errors[] = {"fail", "warn", NULL};

#define AT(field) LS_OPTION_AT(struct ls_train_callbacks, field)

const struct ls_option ls_callback_options[] = {
    {"tensorboard", "DIR",
     "write event files for TensorBoard, as Keras does, to DIR/train and DIR/validation: loss, accuracy and learning "
     "rate an epoch, steps a second, and the graph of the layers; only the chief writes",
     AT(tensorboard.folder)},
    {"tensorboard-no-graph", NULL, "leave the graph out", AT(tensorboard.no_graph), true},
    {"tensorboard-steps", "N", "loss and accuracy after every N steps as well", AT(tensorboard.update_freq), 1,
     INT64_C(1) << 40},
    {"tensorboard-histograms", "N", "histograms of all weights after every N epochs", AT(tensorboard.histogram_freq), 1,
     1000000},
    {"tensorboard-gradients", NULL, "histograms of the gradients too", AT(tensorboard.gradients), true},
    {"tensorboard-images", NULL, "weights as images with the histograms", AT(tensorboard.write_images), true},
    {"csv", "FILE", "a row an epoch", AT(csv.path)},
    {"csv-append", NULL, "write behind what is in the file", AT(csv.append), true, .needs = "csv FILE"},
    {"log-errors", NULL, "what it is when these cannot be written: the end, or a warning (default fail)", AT(warn_only),
     .words = errors},
    {"save-best", "FILE",
     "the weights of the best epoch, as .safetensors or .npz; {epoch}, {val_loss:.3f} in FILE are these numbers",
     AT(best.path)},
    {"save-each", "FILE", "likewise the weights of each epoch", AT(each.path)},
    {"early-stopping", "N", "end after N epochs without a better one", AT(stopping.patience), 1, 1000000},
    {"restore-best", NULL, "end with the best epoch's weights", AT(stopping.restore_best_weights), true,
     .needs = "early-stopping N"},
    {"reduce-on-plateau", "N", "multiply the learning rate by --plateau-factor after N epochs without a better one",
     AT(plateau.patience), 1, 1000000},
    {"plateau-factor", "X", "for --reduce-on-plateau (default 0.1)", AT(plateau.factor), 1e-9, 0.999999},
    {"min-learning-rate", "X", "--reduce-on-plateau does not go below it", AT(plateau.min_lr), 0, 1e6},
    {"monitor", "NAME",
     "the number that tells a better epoch: loss, accuracy, val_loss, val_accuracy or a metric's (default val_loss; "
     "with --no-validation loss)",
     AT(monitor)},
    {"min-delta", "X", "a change of that number below X is none", AT(stopping.min_delta), 0, 1e30},
    {"terminate-on-nan", NULL, "end with an error when the loss is no number", AT(nan_ends), true},
    {0}};

bool ls_check_callback_options(const struct ls_command_line *line, const struct ls_train_callbacks *callbacks) {
    const ls_tensorboard_options *board = &callbacks->tensorboard;
    bool asked = board->histogram_freq || board->gradients || board->write_images || board->update_freq;
    if (!board->folder && (asked || board->no_graph))
        return LS_REFUSE(line, "options '--tensorboard-...' need '--tensorboard DIR'");
    if ((board->gradients || board->write_images) && !board->histogram_freq)
        return LS_REFUSE(line, "'--tensorboard-gradients' and '--tensorboard-images' need "
                               "'--tensorboard-histograms N'");
    if ((callbacks->plateau.factor > 0 || callbacks->plateau.min_lr > 0) && !callbacks->plateau.patience)
        return LS_REFUSE(line, "'--plateau-factor' and '--min-learning-rate' need '--reduce-on-plateau N'");
    if (callbacks->stopping.min_delta > 0 && !callbacks->stopping.patience && !callbacks->plateau.patience)
        return LS_REFUSE(line, "'--min-delta' needs '--early-stopping N' or '--reduce-on-plateau N'");
    if (callbacks->warn_only && !board->folder && !callbacks->csv.path && !callbacks->best.path &&
        !callbacks->each.path)
        return LS_REFUSE(line, "'--log-errors' needs '--tensorboard', '--csv', '--save-best' or '--save-each'");
    if (callbacks->monitor && !callbacks->stopping.patience && !callbacks->plateau.patience && !callbacks->best.path)
        return LS_REFUSE(line, "'--monitor' needs '--early-stopping', '--reduce-on-plateau' or '--save-best'");
    return true;
}

/* In a TrainJob whose controller wants to hear of it. */
static bool has_kubeflow(void) {
    const char *url = getenv("KUBEFLOW_TRAINER_SERVER_URL");
    return url && *url;
}

/* Makes the next callback of the list, where it is wanted and nothing has failed. */
#define MAKE(wanted, make, options)                                                                                    \
    if (!status && (wanted) && !(status = make(options, &callbacks->list[callbacks->count]))) callbacks->count++

ls_status ls_train_callbacks_make(struct ls_train_callbacks *callbacks, bool validates) {
    ls_tensorboard_options *board = &callbacks->tensorboard;
    ls_early_stopping_options *stopping = &callbacks->stopping;
    ls_reduce_on_plateau_options *plateau = &callbacks->plateau;
    ls_model_checkpoint_options *best = &callbacks->best, *each = &callbacks->each;
    ls_status status = LS_OK;
    if (!callbacks->monitor) callbacks->monitor = validates ? "val_loss" : "loss";
    board->warn_only = callbacks->csv.warn_only = best->warn_only = each->warn_only = callbacks->warn_only;
    stopping->monitor = plateau->monitor = best->monitor = callbacks->monitor;
    plateau->min_delta = stopping->min_delta;
    board->write_steps_per_second = best->save_best_only = true;
    board->size = sizeof(*board);
    callbacks->csv.size = sizeof(callbacks->csv);
    best->size = each->size = sizeof(*each);
    plateau->size = sizeof(*plateau);
    stopping->size = sizeof(*stopping);
    if (callbacks->nan_ends && !(status = ls_terminate_on_nan_new(callbacks->list))) callbacks->count++;
    MAKE(board->folder, ls_tensorboard_new, board);
    MAKE(callbacks->csv.path, ls_csv_logger_new, &callbacks->csv);
    MAKE(each->path, ls_model_checkpoint_new, each);
    MAKE(best->path, ls_model_checkpoint_new, best);
    MAKE(plateau->patience > 0, ls_reduce_on_plateau_new, plateau);
    MAKE(stopping->patience > 0, ls_early_stopping_new, stopping);
    MAKE(has_kubeflow(), ls_kubeflow_new, NULL);
    return status;
}

void ls_train_callbacks_free(struct ls_train_callbacks *callbacks) {
    while (callbacks->count) ls_callback_free(callbacks->list[--callbacks->count]);
}
