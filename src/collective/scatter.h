/* What the ways of a reduce-scatter have in common. */
#pragma once
#include "collective/state.h"

struct ls_scatter {
    struct ls_group *group;
    const struct ls_reduce_scatter *call;
    int rank, size, divide;
    size_t element, start, total; /* bytes: of an element, before the own part, of all parts */
};

static inline size_t ls_scatter_part(const struct ls_scatter *scatter, int rank) {
    return scatter->call->counts[rank] * scatter->element;
}

/* In the memory of one host, in the order of the tree. */
ls_status ls_scatter_in_memory(const struct ls_scatter *scatter, const struct ls_call *call);
