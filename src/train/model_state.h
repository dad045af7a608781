/* A model's state as one array, and copies of parts of it in host memory. */
#pragma once
#include "train/model.h"

/* Makes the list of parts: the variables, the optimizer's moments, those of tables, the outer momentum where there is
 * one. The model has a network. All is as before the first step. */
ls_status ls_model_state_list(ls_model *model);
/* A table's part with that blob's number. The outer momentum; NULL without one. */
struct ls_shard_part *ls_model_state_table(const ls_model *model, int table, int blob);
float *ls_model_state_outer(const ls_model *model);
/* A variable of a part. */
struct ls_model_state_place {
    const struct ls_shard_part *part; /* NULL before the first one */
    const struct ls_network_variable *variable;
    size_t begin, offset; /* of the part in a state of the parts that are meant; of the variable in the part */
    int next;
};
/* Moves to the next variable in a walk over the parts with such owners; false behind the last one. */
bool ls_model_state_next(const ls_model *model, unsigned owners, struct ls_model_state_place *place);
/* The name in a checkpoint of a variable's part of the blob with that number: "optimizer/moment_1/dense/kernel". */
void ls_model_state_name(const ls_model *model, int blob, const char *variable, char *name, size_t size);
/* The parts with such owners, one after the other in the order of the list: as they are in the first replica, and to
 * all. The model is built. */
size_t ls_model_state_count(const ls_model *model, unsigned owners);
/* Returns true if this worker has all parts, as they are after the last step. */
bool ls_model_state_is_here(const ls_model *model);
/* FAILED_PRECONDITION where one of them is away. */
ls_status ls_model_state_get(const ls_model *model, unsigned owners, float *state);
/* state NULL, of what is away: another worker has it. */
ls_status ls_model_state_set(ls_model *model, unsigned owners, enum ls_origin origin, const float *state);
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
