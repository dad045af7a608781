/* Gradient accumulation (Keras' gradient_accumulation_steps). */
#pragma once
#include "train/model.h"

/* Allocates the replica's accumulator and builds its ops if the optimizer takes several batches a step. The replica has
 * its gradients already. */
ls_status ls_accumulate_build(const ls_model *model, struct ls_model_replica *replica);
void ls_accumulate_release(struct ls_model_replica *replica);
/* In the replica's thread, after batches before this one: what was gathered is added in all buckets (one, where the
 * model is not reduced) that begin at offset or behind it, and before end. */
ls_status ls_accumulate_merge(const struct ls_model_replica *replica, size_t offset, size_t end);
/* This batch is gathered; merged where it is not the first. */
ls_status ls_accumulate_keep(const ls_model *model, struct ls_model_replica *replica, bool first);
