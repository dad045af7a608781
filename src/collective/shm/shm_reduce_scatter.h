/* Shared by the algorithms of a reduce-scatter. */
#pragma once
#include "collective/run/executor.h"

struct ls_scatter {
    struct ls_executor *executor;
    struct ls_schedule *schedule;
    const size_t *counts; /* [size] elements of each part */
    const void *input;
    void *output;
    ls_dtype dtype;
    int rank, size, divide;
    size_t element, start, total; /* bytes: of an element, before the own part, of all parts */
};

static inline size_t ls_scatter_part(const struct ls_scatter *scatter, int rank) {
    return scatter->counts[rank] * scatter->element;
}

/* Runs a reduce-scatter in the memory of one host, in the order of the tree. */
struct ls_shared;
ls_status ls_shm_reduce_scatter(const struct ls_scatter *scatter, struct ls_shared *shared, const struct ls_call *call);
