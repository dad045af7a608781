/* Batches on the replicas' devices. */
#pragma once
#include "train/model.h"

/* Room for such batches a replica, at least, and for what an input was that is copied ahead. */
ls_status ls_inputs_reserve(ls_model *model, struct ls_input_room room);
void ls_inputs_release(struct ls_model_replica *replica);
/* Sets the pipeline of the present call; NULL when the call ends. Batches that were copied ahead of another pipeline
 * are dropped. */
void ls_input_use_pipeline(ls_model *model, struct ls_pipeline *pipeline);
/* In the replica's thread: the present step's examples lie in its present input, or will when the ops that are queued
 * from now on run. */
ls_status ls_input_load(const ls_model *model, int local, int64_t *rows);
/* In the replica's thread, when the step's ops are queued: brings the next step's examples on their way, if they are of
 * the same epoch or another one may follow. The pipeline stays where it is; what fails here is met when the step comes.
 */
void ls_input_load_ahead(const ls_model *model, int local, bool next_epoch);
void ls_inputs_forget(ls_model *model);
