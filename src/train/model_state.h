/* A model's state as one array, and copies of parts of it in host memory. */
#pragma once
#include "train/model.h"

/* Parameters, then the optimizer's moments, as they lie in the blobs: of the first replica, and to all; then the outer
 * momentum, where there is one (has_outer). The model is built. */
bool ls_model_state_has_outer(const ls_model *model);
size_t ls_model_state_count(const ls_model *model);
/* The name in a checkpoint of a variable's part of the blob with that number: "optimizer/moment_1/dense/kernel". */
void ls_model_state_name(const ls_model *model, int blob, const char *variable, char *name, size_t size);
ls_status ls_model_state_get(const ls_model *model, float *state);
ls_status ls_model_state_set(ls_model *model, const float *state);
/* The same of what this worker has: no moments where parameter servers keep them. set_here is of what another worker
 * has given. */
size_t ls_model_state_count_here(const ls_model *model);
ls_status ls_model_state_get_here(const ls_model *model, float *state);
ls_status ls_model_state_set_here(ls_model *model, const float *state);
/* As set_here, of a state that the servers go back to by themselves. */
ls_status ls_model_state_put_back(ls_model *model, const float *state);
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
