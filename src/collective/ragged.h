/* Collectives of parts whose sizes only their senders know. Each is two calls under one name: the counts, then the
 * elements. The output is allocated here, for ls_free; it is not NULL, also for no elements. */
#pragma once
#include "collective/group.h"

/* hvd.allgather of arrays with different first dimensions: counts, [size], of all ranks. */
ls_status ls_ragged_all_gather(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                               size_t count, void **output, size_t *counts);
/* hvd.alltoall with splits: receive_counts, [size], are the received splits. */
ls_status ls_ragged_all_to_all(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                               const size_t *send_counts, void **output, size_t *receive_counts);
/* The bytes of root, whose input and size alone count. */
ls_status ls_ragged_broadcast(struct ls_group *group, const char *name, int root, const void *input, size_t size,
                              void **output, size_t *bytes);
