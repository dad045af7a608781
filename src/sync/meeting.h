/* A meeting of the workers of LocalSGDStrategy: the means of a part of their variables, and the outer step on them. The
 * calling thread uses the group. */
#pragma once
#include "collective/bucket.h"
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

/* Fragments of a model that meet one after another (Streaming DiLoCo, Douillard et al. 2025; torchft's DiLoCo): each
 * sync_every / fragments steps one of them does, from the first layers to the last ones. Its exchange goes on in a
 * thread beside training, and is used fragment_delay steps after it began. It begins and ends after fixed steps, so no
 * bit depends on timing. One exchange is under way at a time, and only its thread uses the group then.
 * They live from one meeting of the whole model to the next. */

struct ls_fragments;
/* True for a strategy whose workers exchange fragments between their meetings. */
bool ls_fragments_are_wanted(const ls_strategy *strategy);
/* Cuts the trained variables into count ranges: the largest is as small as borders of variables allow. Returns its
 * floats. */
size_t ls_fragments_cut(const ls_model *model, size_t count, struct ls_bucket *ranges);
/* INVALID_ARGUMENT where the model has fewer variables than fragments. */
ls_status ls_fragments_check(const ls_model *model);
/* state: of the meeting, of LS_PARTS_HERE. INVALID_ARGUMENT as of ls_fragments_check. */
ls_status ls_fragments_new(const ls_model *model, const float *state, struct ls_fragments **fragments);
/* Waits for the exchange under way. */
void ls_fragments_free(struct ls_fragments *fragments);
/* The variables that changes are counted from; NULL without an outer learning rate. */
const float *ls_fragments_before(const struct ls_fragments *fragments);
/* After a worker's step, the done-th since the meeting. last: of the epoch. *together: the whole model meets now,
 * because the epoch ends, or because a worker has asked to save or to stop; what was under way is left unused. */
ls_status ls_fragments_step(struct ls_fragments *fragments, int64_t done, bool last, bool *together);
