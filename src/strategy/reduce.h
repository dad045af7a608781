/* Strategy.reduce. */
#pragma once
#include "strategy/strategy.h"

/* The communication that adds arrays in host memory. NCCL adds gradients on GPUs only. */
ls_communication ls_reduce_communication(const ls_strategy *strategy);
/* Reduces over all replicas of all workers. inputs and outputs have one array of count elements a local replica. */
ls_status ls_reduce_all_replicas(ls_strategy *strategy, const ls_all_reduce_options *what);
