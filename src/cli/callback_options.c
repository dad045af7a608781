/* Reading the options about callbacks, and making them. */
#include "cli/callback_options.h"

#include <string.h>

static bool read_errors(const struct ls_command_line *line, struct ls_train_callbacks *callbacks) {
    bool warn = !strcmp(optarg, "warn");
    if (!warn && strcmp(optarg, "fail") != 0)
        return ls_usage_error(line, "--log-errors '%s' is none of fail, warn", optarg) == 0;
    callbacks->tensorboard.warn_only = callbacks->csv.warn_only = warn;
    callbacks->best.warn_only = callbacks->each.warn_only = warn;
    return true;
}

static bool read_tensorboard(const struct ls_command_line *line, int option, ls_tensorboard_options *options) {
    int64_t value;
    switch (option) {
    case LS_TENSORBOARD_FOLDER:
        options->folder = optarg;
        return true;
    case LS_TENSORBOARD_HISTOGRAMS:
        if (!ls_option_integer(line, "--tensorboard-histograms", optarg, 1, 1000000, &value)) return false;
        options->histogram_freq = (int)value;
        return true;
    case LS_TENSORBOARD_GRADIENTS:
        options->gradients = true;
        return true;
    case LS_TENSORBOARD_IMAGES:
        options->write_images = true;
        return true;
    case LS_TENSORBOARD_NO_GRAPH:
        options->no_graph = true;
        return true;
    case LS_TENSORBOARD_STEPS:
        return ls_option_integer(line, "--tensorboard-steps", optarg, 1, INT64_C(1) << 40, &options->update_freq);
    default:
        return true;
    }
}

static bool read_patience(const struct ls_command_line *line, const char *name, int *patience, bool *wanted) {
    int64_t value;
    if (!ls_option_integer(line, name, optarg, 1, 1000000, &value)) return false;
    *patience = (int)value;
    *wanted = true;
    return true;
}

static bool read_numbers(const struct ls_command_line *line, int option, struct ls_train_callbacks *callbacks) {
    ls_reduce_on_plateau_options *plateau = &callbacks->plateau;
    switch (option) {
    case LS_EARLY_STOP:
        return read_patience(line, "--early-stopping", &callbacks->stopping.patience, &callbacks->stops);
    case LS_PLATEAU:
        return read_patience(line, "--reduce-on-plateau", &plateau->patience, &callbacks->reduces);
    case LS_MIN_DELTA:
        if (!ls_option_number(line, "--min-delta", optarg, 0, 1e30, &callbacks->stopping.min_delta)) return false;
        plateau->min_delta = callbacks->stopping.min_delta;
        return true;
    case LS_PLATEAU_FACTOR:
        return ls_option_number(line, "--plateau-factor", optarg, 1e-9, 0.999999, &plateau->factor);
    case LS_PLATEAU_MIN:
        return ls_option_number(line, "--min-learning-rate", optarg, 0, 1e6, &plateau->min_lr);
    default:
        return true;
    }
}

bool ls_read_callback_option(const struct ls_command_line *line, int option, struct ls_train_callbacks *callbacks) {
    if (option == LS_CSV_FILE) callbacks->csv.path = optarg;
    if (option == LS_CSV_APPEND) callbacks->csv.append = true;
    if (option == LS_LOG_ERRORS) return read_errors(line, callbacks);
    if (option == LS_MONITOR) callbacks->monitor = optarg;
    if (option == LS_RESTORE_BEST) callbacks->stopping.restore_best_weights = true;
    if (option == LS_SAVE_BEST) callbacks->best.path = optarg;
    if (option == LS_SAVE_EACH) callbacks->each.path = optarg;
    if (option == LS_NAN_ENDS) callbacks->nan_ends = true;
    return read_tensorboard(line, option, &callbacks->tensorboard) && read_numbers(line, option, callbacks);
}

bool ls_check_callback_options(const struct ls_command_line *line, const struct ls_train_callbacks *callbacks) {
    const ls_tensorboard_options *board = &callbacks->tensorboard;
    bool asked = board->histogram_freq || board->gradients || board->write_images || board->update_freq;
    if (!board->folder && (asked || board->no_graph))
        return ls_usage_error(line, "options '--tensorboard-...' need '--tensorboard DIR'") == 0;
    if ((board->gradients || board->write_images) && !board->histogram_freq)
        return ls_usage_error(line, "'--tensorboard-gradients' and '--tensorboard-images' need "
                                    "'--tensorboard-histograms N'") == 0;
    if (callbacks->stopping.restore_best_weights && !callbacks->stops)
        return ls_usage_error(line, "option '--restore-best' needs '--early-stopping N'") == 0;
    if ((callbacks->plateau.factor > 0 || callbacks->plateau.min_lr > 0) && !callbacks->reduces)
        return ls_usage_error(line, "'--plateau-factor' and '--min-learning-rate' need '--reduce-on-plateau N'") == 0;
    if (callbacks->monitor && !callbacks->stops && !callbacks->reduces && !callbacks->best.path)
        return ls_usage_error(line, "'--monitor' needs '--early-stopping', '--reduce-on-plateau' or '--save-best'") ==
               0;
    if (callbacks->csv.append && !callbacks->csv.path)
        return ls_usage_error(line, "option '--csv-append' needs '--csv FILE'") == 0;
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

ls_status ls_train_callbacks_make(struct ls_train_callbacks *callbacks, bool validates) {
    const struct {
        bool wanted;
        ls_status (*make)(struct ls_train_callbacks *callbacks);
    } table[] = {
        {callbacks->nan_ends, make_nan},           {callbacks->tensorboard.folder != NULL, make_tensorboard},
        {callbacks->csv.path != NULL, make_csv},   {callbacks->each.path != NULL, make_each},
        {callbacks->best.path != NULL, make_best}, {callbacks->reduces, make_plateau},
        {callbacks->stops, make_stopping},
    };
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
