/* A pipeline of stages over the workers of a strategy: the option stages. */
#pragma once
#include "strategy/strategy.h"

/* kind: the strategy's name; divides: it may have stages. */
ls_status ls_stages_check_options(const char *kind, bool divides, const ls_strategy_options *options);
/* Once the workers and the devices are known. */
ls_status ls_stages_check_workers(const ls_strategy *strategy, const char *kind);
/* Workers stand replica by replica, and in each stage by stage: so many replicas, the own one, and the own stage. */
int ls_stages_replicas(const ls_strategy *strategy);
int ls_stages_replica(const ls_strategy *strategy);
int ls_stages_stage(const ls_strategy *strategy);
/* The group of all replicas' workers of the own stage, made at the first call, by all workers. They may use it when all
 * have made it. */
ls_status ls_stages_crew(ls_strategy *strategy, struct ls_group **group);
/* Before the runtime is closed. */
void ls_stages_dismiss(ls_strategy *strategy);
void ls_stages_announce(const ls_strategy *strategy);
