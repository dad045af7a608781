/* A CSV file as examples. */
#pragma once
#include <lockstep/lockstep.h>

/* *meant: ls_dataset_open takes path for a CSV file, by its ending, or as options ask for. */
ls_status ls_table_meant(const char *path, const ls_dataset_options *options, bool *meant);
