/* A CSV file as examples. */
#pragma once
#include <lockstep/lockstep.h>

/* ls_dataset_csv with options that are filled in. Examples may have no label where no target is needed. */
ls_status ls_table_open(const char *path, const ls_dataset_options *options, bool needs_target, ls_dataset **dataset);
/* *meant: ls_dataset_open takes path for a CSV file, by its ending, or as options ask for. */
ls_status ls_table_meant(const char *path, const ls_dataset_options *options, bool *meant);
