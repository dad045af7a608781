/* A model's state as one array, and copies of parts of it in host memory. */
#pragma once
#include "train/model.h"

/* Parameters, then the optimizer's moments, as they lie in the blobs: of the first replica, and to all. The
 * model is built. */
size_t ls_model_state_count(const ls_model *model);
ls_status ls_model_state_get(const ls_model *model, float *state);
ls_status ls_model_state_set(ls_model *model, const float *state);
/* Its counters and rates between two steps, the rest 0; and back. */
struct ls_training_progress ls_model_state_progress(const ls_model *model);
void ls_model_state_set_progress(ls_model *model, const struct ls_training_progress *progress);
/* The rate of the next step; 0: as compiled. */
float ls_model_state_changed_rate(const ls_model *model);
/* A copy in host memory of count elements from an offset of one of the first replica's blobs; freed with ls_free. */
ls_status ls_model_state_copy_out(const ls_model *model, const float *blob, size_t offset, size_t count, float **copy);
/* The parameters alone, blob_count floats. */
ls_status ls_model_state_get_parameters(const ls_model *model, float *parameters);
ls_status ls_model_state_set_parameters(ls_model *model, const float *parameters);
