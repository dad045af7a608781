/* A worker's stage of a pipeline from attach to release: its cuts, its micro-batches and its update. */
#pragma once
#include "train/staged.h"

/* Part of ls_bind_attach, before the replica's ops are built: the cuts. UNIMPLEMENTED for a model that cannot be cut.
 * Collective. */
ls_status ls_stages_attach(ls_model *model);
/* The same, behind them: the ops of an update. */
ls_status ls_stages_build(ls_model *model);
void ls_stages_detach(ls_model *model);
void ls_stages_free(ls_model *model);
/* The micro-batch has rows: memory and a plan for it. */
ls_status ls_stages_find(ls_model *model, struct ls_stage_slot *slot);
/* Of the micro-batch that it holds. *outputs is what the next stage takes. The gradient of that lies in the second
 * one's memory when backward begins; *gradient is the entry's. */
ls_status ls_stages_forward(struct ls_stage_slot *slot, const float **outputs);
float *ls_stages_output_gradient(struct ls_stage_slot *slot);
ls_status ls_stages_backward(struct ls_stage_slot *slot, const float **gradient);
/* So many micro-batches are between forward and backward at a time. */
ls_status ls_stages_reserve(ls_model *model, int slots);
/* Gives back what other stages have. */
void ls_stages_forget(ls_model *model);
/* All workers have all variables; rank 0 has all moments too, if they are asked for. Collective. */
ls_status ls_stages_gather(ls_model *model, bool moments);
