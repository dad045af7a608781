/* Reading the options about callbacks, and making them. */
#include "cli/callback_options.h"

#include <string.h>

static bool read_errors(const struct ls_command_line *line, struct ls_train_callbacks *callbacks) {
    bool warn = !strcmp(optarg, "warn");
    if (!warn && strcmp(optarg, "fail") != 0)
        return ls_usage_error(line, "--log-errors '%s' is none of fail, warn", optarg) == 0;
    callbacks->tensorboard.warn_only = callbacks->csv.warn_only = warn;
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
    case LS_TENSORBOARD_STEPS:
        return ls_option_integer(line, "--tensorboard-steps", optarg, 1, INT64_C(1) << 40, &options->update_freq);
    default:
        return true;
    }
}

bool ls_read_callback_option(const struct ls_command_line *line, int option, struct ls_train_callbacks *callbacks) {
    if (option == LS_CSV_FILE) callbacks->csv.path = optarg;
    if (option == LS_CSV_APPEND) callbacks->csv.append = true;
    if (option == LS_LOG_ERRORS) return read_errors(line, callbacks);
    return read_tensorboard(line, option, &callbacks->tensorboard);
}

bool ls_check_callback_options(const struct ls_command_line *line, const struct ls_train_callbacks *callbacks) {
    const ls_tensorboard_options *board = &callbacks->tensorboard;
    if (!board->folder && (board->histogram_freq || board->gradients || board->write_images || board->update_freq))
        return ls_usage_error(line, "options '--tensorboard-...' need '--tensorboard DIR'") == 0;
    if ((board->gradients || board->write_images) && !board->histogram_freq)
        return ls_usage_error(line, "'--tensorboard-gradients' and '--tensorboard-images' need "
                                    "'--tensorboard-histograms N'") == 0;
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

ls_status ls_train_callbacks_make(struct ls_train_callbacks *callbacks, bool validates) {
    const struct {
        bool wanted;
        ls_status (*make)(struct ls_train_callbacks *callbacks);
    } table[] = {
        {callbacks->tensorboard.folder != NULL, make_tensorboard},
        {callbacks->csv.path != NULL, make_csv},
    };
    (void)validates;
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
