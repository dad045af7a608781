/* A model whose trained variables and moments parameter servers keep (ParameterServerStrategy). A worker has one copy
 * of the variables, which its replicas share, and no moments. In a hybrid servers keep sparse tables alone, and a
 * worker has moments and updates its copy as a mirrored one. */
#pragma once
#include "shard/terms.h"
#include "train/model.h"

bool ls_stored_is(const ls_model *model);
/* Returns true if servers keep a part of the built model: all variables, or sparse tables alone (hybrid). */
bool ls_stored_has(const ls_model *model);
/* Returns true if the servers have not taken what has changed. */
bool ls_stored_lacks(const ls_model *model);
/* The terms of a bound model whose elements are on copies servers. ranges is for as many as there are buckets, and its
 * buckets then. */
struct ls_terms_model ls_stored_terms(const ls_model *model, int copies, struct ls_range *ranges);
/* Part of ls_bind_attach: the servers take what they lack. Collective. */
ls_status ls_stored_attach(ls_model *model);
/* Makes op one whose run is the update of a step on the servers, which have all gradients of what they keep. It is the
 * first replica's, which has the variables. Until it returns LS_OK they are those before the step. */
void ls_stored_build(ls_model *model, struct ls_op *op);
/* Notes that a worker's variables have changed by other means than a step. state: floats of a whole state, whose
 * moments are kept for the servers; NULL: none. */
ls_status ls_stored_change(ls_model *model, enum ls_changed changed, const float *state);
/* After a session of asynchronous training, by all workers: brings the moments to rank 0 where it wants them. */
ls_status ls_stored_fetch(ls_model *model, bool wanted);
/* Returns true if the step brings the moments to this rank. extras: its sums. */
bool ls_stored_wants_moments(const ls_model *model, const float *extras);
/* Adds what a step changes in the variables that are not trained, as the first replica would. blob: the step's sums. */
ls_status ls_stored_add_statistics(const ls_model *model, const float *blob);
/* Memory for the moments that a step brings to rank 0; NULL where the optimizer has none. The call forgets what was
 * there. */
ls_status ls_stored_make_moments(ls_model *model, float **moments);
/* Tables of a checkpoint, behind a change of all: rank 0 has them, others give NULL. */
ls_status ls_stored_give_tables(ls_model *model, const float *tables);
/* Returns true if rank 0 has the moments and tables after the last step. */
bool ls_stored_has_moments(const ls_model *model);
