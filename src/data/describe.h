/* Describes a dataset for comparison between workers. */
#pragma once
#include "data/dataset.h"

/* Lines "field=value\n" of all that must be equal on every worker. Freed with ls_free. */
ls_status ls_dataset_describe(const ls_dataset *dataset, char **lines);
