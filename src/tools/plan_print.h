/* A plan as text for people, or as one JSON object. */
#pragma once
#include "tools/plan.h"

void ls_plan_print(const struct ls_tools_planning *planning, FILE *out);
