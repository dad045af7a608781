/* Names of layers. */
#pragma once
#include "model/layer.h"

/* Writes every node's name: the user's, or Keras' automatic one ("dense", "dense_1", ...), skipping names that are
 * taken. INVALID_ARGUMENT for a bad name or one that is there twice. */
ls_status ls_layer_names(struct ls_node *nodes, size_t count);
