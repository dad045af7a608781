/* Leaves in regions, small slots and stages. */
#include "collective/shm/leaves.h"

#include <string.h>

int ls_leaves_most(const int *first, int size) {
    int most = 0;
    if (first[size] == size && !first[0]) return 1; /* each has one, as none may be without */
    for (int i = 0; i < size; i++)
        if (first[i + 1] - first[i] > most) most = first[i + 1] - first[i];
    return most;
}

int ls_leaves_of_host(const struct ls_shared *shared, const struct ls_reduction *reduction) {
    int count = 0;
    for (int i = 0; i < shared->size; i++) count += ls_reduction_leaves(reduction, shared->members[i]);
    return count;
}

/* ---- regions ---- */

void ls_leaves_post(const struct ls_shared_call *call, const struct ls_reduction *reduction) {
    struct ls_shared_post *post = ls_shared_call_post(call);
    size_t bytes = ls_reduction_bytes(reduction);
    for (int i = 0; i < ls_reduction_leaves(reduction, reduction->rank); i++) {
        bool in_place = bytes && reduction->inputs[i] == reduction->outputs[i];
        if (in_place && ls_shared_call_offer(call, post, i, reduction->inputs[i], bytes)) continue;
        post->region = -1;
        return;
    }
}

/* targets begins with the own leaves, since a schedule makes the result in targets[0] and copies it from there: the own
 * memory is the nearest. */
ls_status ls_leaves_find(const struct ls_shared_call *call, const struct ls_reduction *reduction, int *count) {
    struct ls_shared *shared = call->shared;
    int found = 0;
    for (int step = 0; step < shared->size; step++) {
        int index = (shared->rank + step) % shared->size, rank = shared->members[index];
        for (int i = 0; i < ls_reduction_leaves(reduction, rank); i++) {
            unsigned char **leaf = &shared->leaves[reduction->first[rank] + i];
            ls_status status = ls_shared_call_find(call, index, i, ls_reduction_bytes(reduction), leaf);
            if (status) return status;
            shared->targets[found++] = *leaf;
        }
    }
    *count = found;
    return LS_OK;
}

/* ---- small slots ---- */

/* Leaves of few bytes, one a worker, lie beside the turns of the workers: a meeting brings them along. */
static bool is_in_arrival(const struct ls_reduction *reduction) {
    return ls_reduction_bytes(reduction) <= LS_ARRIVAL_BYTES && reduction->first[reduction->size] == reduction->size;
}

static unsigned char *small_of(const struct ls_shared_call *call, int index, bool in_arrival) {
    return in_arrival ? ls_shared_arrival(call->shared, index)->small : ls_shared_call_small(call, index);
}

void ls_leaves_copy_small(const struct ls_shared_call *call, const struct ls_reduction *reduction) {
    unsigned char *small = small_of(call, call->shared->rank, is_in_arrival(reduction));
    size_t bytes = ls_reduction_bytes(reduction);
    for (int i = 0; bytes && i < ls_reduction_leaves(reduction, reduction->rank); i++)
        memcpy(small + ls_whole_lines(bytes) * (size_t)i, reduction->inputs[i], bytes);
}

void ls_leaves_find_small(const struct ls_shared_call *call, const struct ls_reduction *reduction) {
    struct ls_shared *shared = call->shared;
    size_t stride = ls_whole_lines(ls_reduction_bytes(reduction));
    bool in_arrival = is_in_arrival(reduction);
    for (int index = 0; index < shared->size; index++) {
        int rank = shared->members[index];
        unsigned char *small = small_of(call, index, in_arrival);
        for (int i = 0; i < ls_reduction_leaves(reduction, rank); i++)
            shared->leaves[reduction->first[rank] + i] = small + stride * (size_t)i;
    }
}

/* ---- stages ---- */

/* The stage is divided by the largest number of leaves of any worker, so that chunk index means the same bytes on all.
 * Strides are whole cache lines; two workers then never write one line. */
struct ls_leaves_chunk ls_leaves_chunk_at(const struct ls_shared *shared, const struct ls_reduction *reduction,
                                          size_t index) {
    int most = 0;
    for (int i = 0; i < shared->size; i++) {
        int leaves = ls_reduction_leaves(reduction, shared->members[i]);
        if (leaves > most) most = leaves;
    }
    size_t stride = shared->board.stage / (size_t)most / LS_LINE * LS_LINE, offset = index * stride;
    size_t bytes = ls_reduction_bytes(reduction), left = offset < bytes ? bytes - offset : 0;
    return (struct ls_leaves_chunk){offset, left < stride ? left : stride, stride, (int)(index & 1)};
}

void ls_leaves_copy_chunk(const struct ls_shared *shared, const struct ls_reduction *reduction,
                          const struct ls_leaves_chunk *chunk) {
    unsigned char *stage = ls_shared_stage(shared, shared->rank, chunk->stage);
    for (int i = 0; chunk->size && i < ls_reduction_leaves(reduction, reduction->rank); i++)
        memcpy(stage + (size_t)i * chunk->stride, (const char *)reduction->inputs[i] + chunk->offset, chunk->size);
}

void ls_leaves_find_chunk(const struct ls_shared *shared, const struct ls_reduction *reduction,
                          const struct ls_leaves_chunk *chunk) {
    for (int index = 0; index < shared->size; index++) {
        int rank = shared->members[index];
        unsigned char *stage = ls_shared_stage(shared, index, chunk->stage);
        for (int i = 0; i < ls_reduction_leaves(reduction, rank); i++)
            shared->leaves[reduction->first[rank] + i] = stage + (size_t)i * chunk->stride;
    }
}
