/* Checks of lockstep train on the data that it has opened. */
#pragma once
#include <lockstep/lockstep.h>

/* INVALID_ARGUMENT where the examples are not what --image-size, --image-channels or --symmetric ask for: their source
 * passes over them. */
ls_status ls_check_pictures(const char *dataset, const ls_dataset_options *options, bool symmetric,
                            const ls_dataset *data);
/* Warns where all examples are of one class: --limit of a folder takes the first ones. */
void ls_tell_one_class(const ls_dataset *data);
