/* A model whose trained variables and moments parameter servers keep (ParameterServerStrategy). A worker has one copy
 * of the variables, which its replicas share, and no moments. In a hybrid servers keep sparse tables alone, and a
 * worker has moments and updates its copy as a mirrored one. */
#pragma once
#include "shard/terms.h"
#include "store/store.h"
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
/* Makes update that of a step on the servers, which have all gradients of what they keep; nothing where they keep
 * nothing. It is the first replica's, which has the variables. Until it returns LS_OK they are those before the step.
 */
void ls_stored_build(ls_model *model, struct ls_update *update);
/* A step on the servers, of what stepping has but parts. With wanted, on rank 0 alone, it brings what is away. */
ls_status ls_stored_step(ls_model *model, struct ls_store_stepping stepping, bool wanted);
/* After a session of asynchronous training, by all workers: brings the moments to rank 0 where it wants them. */
ls_status ls_stored_fetch(ls_model *model, bool wanted);
/* Adds what a step changes in the variables that are not trained, as replicas would. blob: the step's sums. */
ls_status ls_stored_add_statistics(const ls_model *model, const float *blob);
