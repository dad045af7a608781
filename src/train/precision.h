/* Mixed precision in training. */
#pragma once
#include "train/model.h"

/* UNIMPLEMENTED where a local device has no ops of that precision. */
ls_status ls_precision_try(const ls_strategy *strategy, ls_precision precision);
/* Builds the replica's ops for a scaled loss. The replica has its gradients already. */
ls_status ls_precision_scaling_build(const ls_model *model, struct ls_model_replica *replica);
void ls_precision_scaling_begin(ls_model *model); /* a batch of the next step, whose loss_scale is set */
/* In the replica's thread, when the gradients are summed: looks whether all are finite numbers, and waits for the
 * answer. */
ls_status ls_precision_scaling_look(const struct ls_model_replica *replica);
/* The answer of the last look; true if the loss is not scaled. */
bool ls_precision_scaling_is_finite(const struct ls_model_replica *replica);
