/* The source of the cluster that this process is in. */
#pragma once
#include "runtime/runtime.h"

/* Reads tf_config, or the environment where it is NULL, into runtime->config. Tells the source where it is not
 * TF_CONFIG, and warns of what is probably not meant. INVALID_ARGUMENT: the resolver's, or LOCKSTEP_REQUIRE_CLUSTER's.
 */
ls_status ls_cluster_source_read(struct ls_runtime *runtime, const char *tf_config);
/* Warns of variables that look like settings and are none. first: of all workers, this one speaks. */
void ls_cluster_source_warn(const struct ls_runtime *runtime, bool first);
