/* The datasets of lockstep train, and of lockstep plan, which has the same options. */
#pragma once
#include "cli/train_options.h"

/* Makes options those of the split that a training validates with, in the order of its source. */
void ls_train_data_validates(ls_dataset_options *options);
/* *validation stays as it is where the training has none. The caller frees both, also after an error. */
ls_status ls_train_data_open(const struct ls_train_options *training, ls_strategy *strategy, ls_dataset **data,
                             ls_dataset **validation);
