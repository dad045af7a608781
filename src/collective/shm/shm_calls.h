/* The collectives in the memory of a host: a file each. */
#pragma once
#include "collective/run/executor.h"
#include "collective/schedule/reduction.h"
#include "collective/shm/shared_call.h"
#include "collective/shm/shm_barrier.h"

/* AUTO between workers of one host. */

/* True if a call with these leaves can run in shared memory. */
bool ls_shm_all_reduce_fits(const struct ls_shared *shared, const int *first);
/* The tree over all leaves, in shared memory; the bits are those of ls_direct_schedule. */
ls_status ls_shm_all_reduce(struct ls_shared *shared, const struct ls_call *call, const struct ls_reduction *reduction);

/* All-to-all in the memory of one host. */

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

/* One worker's bytes to all workers of its host, in shared memory. */

struct ls_hand_out {
    int giver;  /* within the host */
    bool early; /* the giver has the bytes before the call is opened, and all may leave as soon as they have them */
    void *data;
    size_t bytes;
};
/* Before the call is opened. */
void ls_shm_broadcast_post(const struct ls_shared_call *call, const struct ls_hand_out *what);
/* After it was, and the giver has the bytes. */
ls_status ls_shm_broadcast(const struct ls_shared_call *call, const struct ls_hand_out *what);

/* Shared by the algorithms of a reduce-scatter. */

struct ls_scatter {
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
ls_status ls_shm_reduce_scatter(const struct ls_scatter *scatter, struct ls_shared *shared, const struct ls_call *call);
