/* Activations by name, and as a field of layers. */
#pragma once
#include "model/layer.h"

/* INVALID_ARGUMENT "layer 2: activation 7 is ..." */
ls_status ls_activation_check(const struct ls_node *node, size_t position);
const char *ls_activation_name(ls_activation activation); /* "linear", "relu" */
