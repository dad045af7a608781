/* The reader of Vertex AI's CLUSTER_SPEC. */
#pragma once
#include "resolver/cluster_view.h"

/* As ls_tf_config_parse; local mode where the variable is not set. */
ls_status ls_vertex_read(struct ls_cluster_view **spec);
