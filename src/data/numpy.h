/* NumPy's arrays as examples. */
#pragma once
#include "data/sources.h"

/* x without y: of an .npy file, or of an .npz with one array, or one that is named x or x_SPLIT. options are filled in.
 */
ls_status ls_numpy_unlabelled(const char *path, const ls_dataset_options *options, ls_dataset **dataset);
ls_status ls_numpy_present(const char *folder, ls_split split, bool *present);
