/* A network as a table for people. */
#pragma once
#include "model/layer.h"
#include "model/network.h"

ls_status ls_network_summary(const struct ls_network *network, char **text); /* for people; freed with ls_free */
