/* The opening of every call in shared memory. Each worker of the host posts its fingerprint and the place of its data,
 * meets the others and compares the fingerprints. */
#pragma once
#include "collective/shm/shm_barrier.h"

struct ls_shared_call {
    struct ls_meeting_place place;
    struct ls_shared *shared;
    const struct ls_call *call;
};

/* Starts the call's clock. threads: how many of the host take part. */
void ls_shared_call_begin(struct ls_shared_call *made, struct ls_shared *shared, const struct ls_call *call,
                          int threads);
/* This worker's post, with its fingerprint and no region. The caller completes it before the call is opened. */
struct ls_shared_post *ls_shared_call_post(const struct ls_shared_call *call);
/* Adds the place of bytes at memory to the post, which then has offsets 0 to index. False if it is in no region, or in
 * another one than those before it: then the post has none. */
bool ls_shared_call_offer(const struct ls_shared_call *call, struct ls_shared_post *post, int index, const void *memory,
                          size_t bytes);
/* Meets all; an error if any of them is in another call. */
ls_status ls_shared_call_open(const struct ls_shared_call *call);
static inline const struct ls_shared_post *ls_shared_call_read(const struct ls_shared_call *call, int rank) {
    return &ls_shared_control(call->shared, rank)->posts[call->shared->parity];
}
static inline unsigned char *ls_shared_call_small(const struct ls_shared_call *call, int rank) {
    return ls_shared_small(call->shared, rank, call->shared->parity);
}
/* The region that the worker has posted; NULL: none. */
const struct ls_region *ls_shared_call_region(const struct ls_shared_call *call, int rank);
/* Gives the memory that the worker has posted as offset index, bytes long; DATA_LOSS if its region does not hold it. */
ls_status ls_shared_call_find(const struct ls_shared_call *call, int rank, int index, size_t bytes,
                              unsigned char **memory);
/* True if the leaves of all workers lie in one region, as their posts say. */
bool ls_shared_call_has_common_region(const struct ls_shared_call *call);
