/* The leaves of an all-reduce in shared memory: where each of the host's lies. */
#pragma once
#include "collective/schedule/reduction.h"
#include "collective/shm/shared_call.h"

#define LS_LINE 64 /* bytes of a cache line */
static inline size_t ls_whole_lines(size_t bytes) {
    return (bytes + LS_LINE - 1) / LS_LINE * LS_LINE;
}

/* The largest number of leaves of a worker of the group. */
int ls_leaves_most(const int *first, int size);
/* The number of leaves of all workers of the host. */
int ls_leaves_of_host(const struct ls_shared *shared, const struct ls_reduction *reduction);

/* Posts where the own leaves lie, if they all lie in one region, in place. */
void ls_leaves_post(const struct ls_shared_call *call, const struct ls_reduction *reduction);
/* After the call was opened, if all the host's leaves lie in one region: leaves of struct ls_shared are those, and
 * targets too, the own ones first; *count is how many. */
ls_status ls_leaves_find(const struct ls_shared_call *call, const struct ls_reduction *reduction, int *count);

/* The own leaves into the own small slot, a line apart at least, before the call is opened. */
void ls_leaves_copy_small(const struct ls_shared_call *call, const struct ls_reduction *reduction);
/* leaves of struct ls_shared are those in the small slots. */
void ls_leaves_find_small(const struct ls_shared_call *call, const struct ls_reduction *reduction);

/* A piece of the leaves that is in the stages: bytes [offset, offset + size) of each. */
struct ls_leaves_chunk {
    size_t offset, size;
    size_t stride; /* between the leaves of a worker in its stage */
    int stage;
};
/* The chunk of that index; its size is 0 if there is none. */
struct ls_leaves_chunk ls_leaves_chunk_at(const struct ls_shared *shared, const struct ls_reduction *reduction,
                                          size_t index);
/* The own leaves into the own stage. */
void ls_leaves_copy_chunk(const struct ls_shared *shared, const struct ls_reduction *reduction,
                          const struct ls_leaves_chunk *chunk);
/* leaves of struct ls_shared are those in the stages. */
void ls_leaves_find_chunk(const struct ls_shared *shared, const struct ls_reduction *reduction,
                          const struct ls_leaves_chunk *chunk);
