/* The learning rate of a step, which all workers compare before anything is changed. */
#pragma once
#include "train/model.h"

/* bytes: those of the extras from LS_EXTRA_RATE on. */
void ls_step_rate_write(float rate, float bytes[4]);
/* INVALID_ARGUMENT where another worker's rate is another one. extras: of the step, over all replicas. */
ls_status ls_step_rate_check(const ls_model *model, float rate, const float *extras);
