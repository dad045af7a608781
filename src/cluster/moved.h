/* The addresses of workers that move between hosts, or start later: LOCKSTEP_ADDRESSES. */
#pragma once
#include "cluster/cluster_private.h"

/* Reads the file, if there is one. INVALID_ARGUMENT names it, and the line. */
ls_status ls_moved_open(struct ls_cluster *cluster);
void ls_moved_release(struct ls_cluster *cluster);
/* The host and the port where this process listens: its own row, else those of TF_CONFIG. host is borrowed. */
void ls_moved_own(const struct ls_cluster *cluster, const char **host, int *port);
/* ls_dial_step to where the rank is now. One without a row and without an address is not dialled. With the monitor
 * held. */
int ls_moved_dial(struct ls_cluster *cluster, int rank, struct ls_dial *dial);
