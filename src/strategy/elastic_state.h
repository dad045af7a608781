/* A custom loop's state. */
#pragma once
#include "strategy/strategy.h"

/* The strategy's variables and registrations become a participant of it, and a source of its runtime. */
void ls_elastic_state_enlist(ls_strategy *strategy);
ls_status ls_elastic_state_add(ls_strategy *strategy, const struct ls_registration *registration);
/* True if the last commit has it, with the same lines. */
bool ls_elastic_state_has(const ls_strategy *strategy, const void *data);
void ls_elastic_state_name(const ls_strategy *strategy, const char *kind, char name[LS_REGISTERED_NAME]);
void ls_elastic_state_remove(ls_strategy *strategy, const void *data);
