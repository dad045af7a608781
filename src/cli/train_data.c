/* The training split with its augmentation, and the one beside it. */
#include "cli/train_options.h"

#include <lockstep/tools.h>
#include <stdio.h>

#include "cli/commands.h"

void ls_train_data_validates(ls_dataset_options *options) {
    options->split = LS_VALIDATION;
    if (!(options->validation_split > 0)) options->limit = options->skip = 0;
    options->shuffle = LS_SHUFFLE_NEVER;
    options->drop_remainder = false;
}

static ls_status open_validation(const struct ls_train_options *training, ls_dataset_options *options,
                                 ls_dataset **validation) {
    ls_train_data_validates(options);
    ls_take_part(options);
    options->maps = training->augment.test;
    ls_status status = ls_dataset_open(training->dataset, options, validation);
    if (status == LS_NOT_FOUND)
        (void)fprintf(stderr, "lockstep train: there is no validation or test split; --validation-split 0.2 keeps a "
                              "fifth of each class apart for it, and --no-validation trains without one\n");
    return status;
}

/* Columns of a table are what they were in the training that made the first weights, else as this one's rows say. */
ls_status ls_train_data_open(const struct ls_train_options *training, ls_strategy *strategy, ls_dataset **data,
                             ls_dataset **validation) {
    ls_dataset_options options = training->data;
    ls_tools_about *about = NULL;
    options.maps = training->augment.train;
    ls_status status = LS_OK;
    if (training->model.weights) status = ls_tools_about_table(training->dataset, training->model.weights, &about);
    if (about) options.transform = about->transform;
    if (about && !options.target) options.target = about->target;
    if (!status) status = ls_dataset_open(training->dataset, &options, data);
    if (!status) status = ls_check_pictures(training->dataset, &options, training->augment.test[0].kind != 0, *data);
    if (!status && training->data.limit && ls_is_chief(strategy)) ls_tell_one_class(*data);
    if (!status && ls_is_chief(strategy)) ls_tell_hints(*data);
    if (!status && training->validate) {
        if (ls_dataset_transform(*data)) options.transform = ls_dataset_transform(*data);
        status = open_validation(training, &options, validation);
    }
    ls_tools_about_free(about);
    return status;
}
