/* The source of a generation's data links. */
#pragma once
#include "cluster/cluster.h"
#include "collective/link/link_source.h"

/* Makes the source of the data links of the generation that ls_join_form has given last, among count members in this
 * order (NULL: all of them); NULL for one member. channel is its number (data_channel.h), which no other source of this
 * cluster has but number 0's. Of an odd channel place i is the link to member i, and place count + i the one from it.
 * The caller closes the source. It gives no link any more once the generation is over, and must not be asked for one
 * after the cluster is freed. */
ls_status ls_data_source_new(struct ls_cluster *cluster, uint32_t channel, const int *members, int count,
                             struct ls_link_source **source);
