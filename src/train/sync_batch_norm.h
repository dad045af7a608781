/* Sums over all replicas in the middle of a step. */
#pragma once
#include "train/model.h"

/* UNIMPLEMENTED for a layer of the kind: "<subject>: layer 1 is a synchronized batch normalization, <why>". */
ls_status ls_sync_batch_norm_refuse(const ls_model *model, const char *subject, const char *why);
/* For the present generation. */
void ls_sync_batch_norm_attach(ls_model *model);
/* When a replica's step is computed, or has failed: the worker's other replicas, who may wait for it in an exchange,
 * give up the step too. Returns status, or ABORTED for another one's failure. */
ls_status ls_sync_batch_norm_end(ls_model *model, int local, ls_status status);
