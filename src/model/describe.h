/* A network as one text that is equal exactly when the networks are. */
#pragma once
#include "model/network.h"

/* One text that is equal exactly when the networks are: "dense/kernel float32 (784, 128); ..." Freed with ls_free. */
ls_status ls_network_describe(const struct ls_network *network, char **text);
