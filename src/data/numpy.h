/* NumPy's arrays as examples. */
#pragma once
#include "data/sources.h"

ls_status ls_numpy_present(const char *folder, ls_split split, bool *present);
