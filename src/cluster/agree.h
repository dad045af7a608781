/* Agreement of all workers on lines of text. */
#pragma once
#include "cluster/cluster.h"

/* Compares lines "field=value\n" between all workers; the first difference is one INVALID_ARGUMENT error, the same on
 * every worker, that names the field, both values and both ranks. */
ls_status ls_agree_lines(struct ls_cluster *cluster, const char *name, const char *lines, double timeout);
