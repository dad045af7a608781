/* The choice of the adder of gradients on GPUs: NCCL, the node's GPUs, or the host. All workers agree on it in each
 * generation. */
#pragma once
#include "strategy/strategy.h"

/* Collective, after the replicas are placed. Sets strategy->node_replicas and strategy->nccl alike on all workers. An
 * error names the worker and the device if NCCL is required and cannot add. */
ls_status ls_device_adders_agree(ls_strategy *strategy);
/* The name, for a message, of the option that requires NCCL. NULL if none does. */
const char *ls_device_adders_require_nccl(const ls_strategy *strategy);
/* Logs why NCCL does not add the gradients of a local GPU. */
void ls_device_adders_tell_host(const ls_strategy *strategy, const char *why);

struct ls_adder_version {
    char text[40]; /* "2.28.9" */
};
/* Text of a version as NCCL numbers it: 22809. */
struct ls_adder_version ls_device_adders_version(int64_t number);
