/* The reader of TF_CONFIG (tf.distribute.cluster_resolver.TFConfigClusterResolver and multi_worker_util). Opens no
 * port. */
#pragma once
#include "resolver/cluster_view.h"

/* A NULL text means that the variable is absent; then the spec is local mode's. INVALID_ARGUMENT has one error that
 * names the key, the value and the mend. */
ls_status ls_tf_config_parse(const char *text, struct ls_cluster_view **spec);
