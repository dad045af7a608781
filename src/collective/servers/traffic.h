/* The bytes that a rank sends and receives in a collective over links, as its schedule says. Frames are left out. */
#pragma once
#include "collective/schedule/reduction.h"

struct ls_traffic {
    size_t sent, received;
};
/* Adds those of an all-reduce of count float32 by that algorithm: LS_ALGORITHM_COUNT is a push to servers. reduction
 * says who takes part, each on a host of its own, and what the servers own; inputs and outputs are not read. */
ls_status ls_traffic_add(enum ls_algorithm algorithm, const struct ls_reduction *reduction, struct ls_traffic *traffic);
