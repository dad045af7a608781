/* All-gather. */
#pragma once
#include "collective/group.h"

/* INVALID_ARGUMENT for what this rank alone can see, as the call gives it. */
ls_status ls_group_all_gather_check(const struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                                    const size_t *counts, const void *output);
/* counts[size] elements from each rank, concatenated in rank order; input may be its own place in output. */
ls_status ls_group_all_gather(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                              const size_t *counts, void *output);
