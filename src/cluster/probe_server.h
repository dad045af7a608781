/* A worker's answer to a probe. */
#pragma once
#include "cluster/cluster_private.h"

/* The listener calls it. It takes fd. */
void ls_probe_server_answer(void *context, int fd);
