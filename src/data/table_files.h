/* The CSV files of a folder, one a split. */
#pragma once
#include <lockstep/lockstep.h>

/* True for a name that ends in .csv or .tsv, or in .csv.gz or .tsv.gz. */
bool ls_table_files_name(const char *path);
/* *present: the folder has a CSV file of a split. */
ls_status ls_table_files_present(const char *folder, bool *present);
/* *path, freed with ls_free, becomes that of the split, or of the one that stands in for it: *split. NOT_FOUND without
 * one. */
ls_status ls_table_files_find(const char *folder, ls_split *split, char **path);
