/* The source of a generation's data links. */
#pragma once
#include "cluster/cluster.h"
#include "collective/link/link_source.h"

/* Makes the source of the data links of the generation that ls_join_form has given last; NULL where it has one member.
 * The caller closes it. It gives no link any more once the generation is over, and must not be asked for one after the
 * cluster is freed. */
ls_status ls_data_source_new(struct ls_cluster *cluster, struct ls_link_source **source);
