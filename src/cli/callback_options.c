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
        return ls_usage_error(line, "options '--tensorboard-...' need '--tensorboard DIR'") == 0;
    if ((board->gradients || board->write_images) && !board->histogram_freq)
        return ls_usage_error(line, "'--tensorboard-gradients' and '--tensorboard-images' need "
                                    "'--tensorboard-histograms N'") == 0;
    if ((callbacks->plateau.factor > 0 || callbacks->plateau.min_lr > 0) && !callbacks->plateau.patience)
        return ls_usage_error(line, "'--plateau-factor' and '--min-learning-rate' need '--reduce-on-plateau N'") == 0;
    if (callbacks->stopping.min_delta > 0 && !callbacks->stopping.patience && !callbacks->plateau.patience)
        return ls_usage_error(line, "'--min-delta' needs '--early-stopping N' or '--reduce-on-plateau N'") == 0;
    if (callbacks->warn_only && !board->folder && !callbacks->csv.path && !callbacks->best.path &&
        !callbacks->each.path)
        return ls_usage_error(line, "'--log-errors' needs '--tensorboard', '--csv', '--save-best' or '--save-each'") ==
               0;
    if (callbacks->monitor && !callbacks->stopping.patience && !callbacks->plateau.patience && !callbacks->best.path)
        return ls_usage_error(line, "'--monitor' needs '--early-stopping', '--reduce-on-plateau' or '--save-best'") ==
               0;
    return true;
}

static ls_status make_tensorboard(struct ls_train_callbacks *callbacks) {
    callbacks->tensorboard.size = sizeof(callbacks->tensorboard);
    callbacks->tensorboard.write_steps_per_second = true;
    return ls_tensorboard_new(&callbacks->tensorboard, &callbacks->list[callbacks->count]);
}

static ls_status make_csv(struct ls_train_callbacks *callbacks) {
    callbacks->csv.size = sizeof(callbacks->csv);
    return ls_csv_logger_new(&callbacks->csv, &callbacks->list[callbacks->count]);
}

static ls_status make_stopping(struct ls_train_callbacks *callbacks) {
    callbacks->stopping.size = sizeof(callbacks->stopping);
    callbacks->stopping.monitor = callbacks->monitor;
    return ls_early_stopping_new(&callbacks->stopping, &callbacks->list[callbacks->count]);
}

static ls_status make_plateau(struct ls_train_callbacks *callbacks) {
    callbacks->plateau.size = sizeof(callbacks->plateau);
    callbacks->plateau.monitor = callbacks->monitor;
    callbacks->plateau.min_delta = callbacks->stopping.min_delta;
    return ls_reduce_on_plateau_new(&callbacks->plateau, &callbacks->list[callbacks->count]);
}

static ls_status make_best(struct ls_train_callbacks *callbacks) {
    callbacks->best.size = sizeof(callbacks->best);
    callbacks->best.save_best_only = true;
    callbacks->best.monitor = callbacks->monitor;
    return ls_model_checkpoint_new(&callbacks->best, &callbacks->list[callbacks->count]);
}

static ls_status make_each(struct ls_train_callbacks *callbacks) {
    callbacks->each.size = sizeof(callbacks->each);
    return ls_model_checkpoint_new(&callbacks->each, &callbacks->list[callbacks->count]);
}

static ls_status make_nan(struct ls_train_callbacks *callbacks) {
    return ls_terminate_on_nan_new(&callbacks->list[callbacks->count]);
}

static ls_status make_kubeflow(struct ls_train_callbacks *callbacks) {
    return ls_kubeflow_new(NULL, &callbacks->list[callbacks->count]);
}

/* In a TrainJob whose controller wants to hear of it. */
static bool has_kubeflow(void) {
    const char *url = getenv("KUBEFLOW_TRAINER_SERVER_URL");
    return url && *url;
}

ls_status ls_train_callbacks_make(struct ls_train_callbacks *callbacks, bool validates) {
    const struct {
        bool wanted;
        ls_status (*make)(struct ls_train_callbacks *callbacks);
    } table[] = {
        {callbacks->nan_ends, make_nan},
        {callbacks->tensorboard.folder != NULL, make_tensorboard},
        {callbacks->csv.path != NULL, make_csv},
        {callbacks->each.path != NULL, make_each},
        {callbacks->best.path != NULL, make_best},
        {callbacks->plateau.patience > 0, make_plateau},
        {callbacks->stopping.patience > 0, make_stopping},
        {has_kubeflow(), make_kubeflow},
    };
    callbacks->tensorboard.warn_only = callbacks->csv.warn_only = callbacks->warn_only;
    callbacks->best.warn_only = callbacks->each.warn_only = callbacks->warn_only;
    if (!callbacks->monitor) callbacks->monitor = validates ? "val_loss" : "loss";
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (!table[i].wanted) continue;
        ls_status status = table[i].make(callbacks);
        if (status) return status;
        callbacks->count++;
    }
    return LS_OK;
}

void ls_train_callbacks_free(struct ls_train_callbacks *callbacks) {
    while (callbacks->count) ls_callback_free(callbacks->list[--callbacks->count]);
}
