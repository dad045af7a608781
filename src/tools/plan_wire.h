/* The bytes and the time of a planned step. */
#pragma once
#include "tools/plan.h"

/* Fills in beside, behind, round and algorithm. */
ls_status ls_plan_wire_count(struct ls_tools_planning *planning);
/* The longest that a link is busy, in seconds; 0 without a bandwidth. */
double ls_plan_wire_seconds(const struct ls_tools_planning *planning, const struct ls_traffic *traffic);
/* Seconds of a step; what was not measured counts 0. */
double ls_plan_wire_step(const struct ls_tools_planning *planning);
