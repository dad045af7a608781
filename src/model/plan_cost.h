/* The costs of a plan before it is made: memory, and bytes that a run moves. */
#pragma once
#include "model/network.h"

struct ls_plan_cost {
    size_t arena; /* bytes, without what ops need beside */
    double moved; /* bytes between memory and the device's arithmetic, at least */
};
/* keeps: outputs that backward can make again are kept since forward. */
ls_status ls_plan_cost(const struct ls_plan_config *config, bool keeps, struct ls_plan_cost *cost);
/* Of one op: each tensor once, but twice what it reads for statistics of the batch before it writes anything. */
double ls_plan_cost_moved(const struct ls_op *op);
