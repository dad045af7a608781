/* A replica's plans: kept, since only a few row counts occur. */
#pragma once
#include "model/plan_cost.h"
#include "train/model.h"

/* The plan for so many rows of the present batch's kind, which without a pipeline has labels; made where there is none.
 * Of the replica's own thread. */
ls_status ls_plan_slots_find(ls_model *model, int local, int64_t rows, bool training, struct ls_plan **plan);
/* The costs of a training step's plan for so many rows, where outputs that backward can make again are made again, and
 * where they are kept. Of the replica's own thread. */
ls_status ls_plan_slots_cost(ls_model *model, int local, int64_t rows, struct ls_plan_cost costs[2]);
/* Frees all. */
void ls_plan_slots_drop(struct ls_model_replica *replica);
