/* The table of cluster resolvers: readers of the environments of launchers. Adding a launcher is one file and one row.
 */
#pragma once
#include "resolver/cluster_spec.h"

/* Reads tf_config, or, where it is NULL, the environment; local mode where nothing says anything. INVALID_ARGUMENT is
 * the reader's. */
ls_status ls_resolver_read(const char *tf_config, struct ls_cluster_spec **spec);
