/* Strategy.reduce. */
#pragma once
#include "strategy/strategy.h"

/* The communication that adds arrays in host memory. NCCL adds gradients on GPUs only. */
ls_communication ls_reduce_communication(const ls_strategy *strategy);
/* Reduces over all replicas of all workers. inputs and outputs have one array a local replica. */
ls_status ls_reduce_all_replicas(ls_strategy *strategy, const char *name, ls_reduce_op op, ls_dtype dtype,
                                 const void *const *inputs, void *const *outputs, size_t count);
