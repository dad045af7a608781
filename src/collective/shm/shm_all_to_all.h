/* All-to-all in the memory of one host. */
#pragma once
#include "collective/shm/shared_call.h"

/* The parts for all ranks and from all ranks, in rank order. */
struct ls_shm_parts {
    const unsigned char *input;
    const size_t *send_counts;
    unsigned char *output;
    const size_t *receive_counts;
    size_t element; /* bytes */
};
/* True if a rank's small slot holds where its parts begin. */
bool ls_shm_all_to_all_fits(const struct ls_shared *shared);
ls_status ls_shm_all_to_all(const struct ls_shared_call *call, const struct ls_shm_parts *parts);
