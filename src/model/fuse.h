/* Which nodes a batch normalization does along with its own work. */
#pragma once
#include "model/layer.h"

/* Decides what batch normalizations do of what follows them. */
void ls_fuse_nodes(struct ls_node *nodes, size_t count);
