/* A meeting of the workers of LocalSGDStrategy: the means of a part of their variables, and the outer step on them. The
 * calling thread uses the group. */
#pragma once
#include "train/model.h"

/* An all-reduce of one array over all workers. */
ls_status ls_meeting_add_up(const ls_model *model, const ls_all_reduce_options *what);
/* now: this worker's count variables; then the mean of all workers in their place. The mean of the changes since
 * before, with an outer learning rate. */
ls_status ls_meeting_mean(const ls_model *model, size_t count, const float *before, float *now);
/* The same of its moments of them, stride apart; they stay with local_moments. */
ls_status ls_meeting_mean_moments(const ls_model *model, size_t count, float *now, size_t stride);
/* now: the mean changes, then the variables. momentum: NULL without one. Nothing without an outer learning rate. */
void ls_meeting_step_outer(const ls_model *model, size_t count, const float *before, float *now, float *momentum);
/* Blobs of moments that meet. */
int ls_meeting_moments(const ls_model *model);
