/* The cluster part of TF_CONFIG (tf.train.ClusterSpec). */
#pragma once
#include "resolver/tf_config_private.h"

/* Fills config->tasks from the cluster: roles, addresses, no address twice. */
ls_status ls_tf_config_cluster_read(struct ls_tf_reader *reader);
