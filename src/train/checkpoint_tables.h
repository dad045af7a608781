/* Sparse tables in checkpoints: variables of their names and whole shapes, as those of mirrored training. Rank 0 alone
 * has a copy, beside the one that comes from the servers. */
#pragma once
#include "checkpoint/writer.h"
#include "train/model.h"

/* *tables: NULL without sparse ones; freed with ls_free. */
ls_status ls_checkpoint_tables_new(const ls_model *model, float **tables);
/* Writes a tensor for each table and moment, with names. */
void ls_checkpoint_tables_describe(const ls_model *model, float *tables, char (*names)[128],
                                   struct ls_checkpoint_tensor *tensors);
/* Takes what has come from the servers. */
void ls_checkpoint_tables_copy(const ls_model *model, float *tables);
