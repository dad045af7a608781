/* Posts are written before a worker arrives at the opening meeting and may be written anew two calls later: by then all
 * have been at the next call's. */
#include "collective/shm/shared_call.h"

#include <string.h>

#include "base/status.h"

void ls_shared_call_begin(struct ls_shared_call *made, struct ls_shared *shared, const struct ls_call *call,
                          int threads) {
    *made = (struct ls_shared_call){.place = {shared, threads > shared->processors}, .shared = shared, .call = call};
    shared->parity = (int)(shared->calls++ & 1);
    ls_executor_begin(shared->executor, shared->schedule, call);
}

/* A digest of the fields that are the same on all ranks. */
static uint64_t digest_of(const struct ls_call *call) {
    const struct ls_frame *frame = &call->frame;
    uint64_t scales[2];
    memcpy(&scales[0], &frame->prescale, sizeof(scales[0]));
    memcpy(&scales[1], &frame->postscale, sizeof(scales[1]));
    const uint64_t values[] = {frame->generation,
                               frame->sequence,
                               call->counts ? 0 : frame->count,
                               frame->total,
                               frame->layout,
                               frame->name_digest,
                               (uint64_t)frame->size << 32 | (uint32_t)frame->root,
                               (uint64_t)frame->kind << 32 | (uint32_t)frame->op,
                               (uint64_t)frame->dtype << 32 | (uint32_t)frame->communication,
                               (uint64_t)frame->algorithm << 32 | (uint32_t)frame->compression,
                               scales[0],
                               scales[1]};
    uint64_t digest = 0;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) digest = ls_frame_digest(digest, values[i]);
    return digest;
}

struct ls_shared_post *ls_shared_call_post(const struct ls_shared_call *call) {
    struct ls_shared_post *post = &ls_shared_control(call->shared, call->shared->rank)->posts[call->shared->parity];
    post->frame = call->call->frame;
    post->region = -1;
    ls_shared_arrival(call->shared, call->shared->rank)->digest = digest_of(call->call);
    return post;
}

bool ls_shared_call_offer(const struct ls_shared_call *call, struct ls_shared_post *post, int index, const void *memory,
                          size_t bytes) {
    const struct ls_region *region = ls_shared_find(call->shared, memory, bytes, &post->offsets[index]);
    bool fits = region && (index == 0 || post->region == region->id);
    post->region = fits ? region->id : -1;
    return fits;
}

/* Digests are equal by chance once in 2^64 calls that differ. */
static ls_status compare_calls(const struct ls_shared_call *call) {
    const struct ls_shared *shared = call->shared;
    struct ls_frame expected = call->call->frame;
    uint64_t own = ls_shared_arrival(shared, shared->rank)->digest;
    for (int i = 0; i < shared->size; i++) {
        if (ls_shared_arrival(shared, i)->digest == own && !call->call->counts) continue;
        int rank = shared->members[i];
        const struct ls_frame *posted = &ls_shared_call_read(call, i)->frame;
        expected.rank = rank;
        if (call->call->counts) expected.count = call->call->counts[rank];
        if (!memcmp(posted, &expected, sizeof(expected))) continue; /* else in which field? */
        struct ls_frame got = *posted;
        got.name[LS_FRAME_NAME - 1] = 0;
        ls_status status =
            ls_frame_compare(&expected, &got, call->call->frame.rank, rank, call->shared->executor->algorithm_name);
        if (status) return status;
    }
    return LS_OK;
}

ls_status ls_shared_call_open(const struct ls_shared_call *call) {
    struct ls_shared *shared = call->shared;
    ls_status status = ls_shm_barrier(&call->place, true);
    if (status) return status;
    ls_shared_control(shared, shared->rank)->arrivals[!shared->parity].digest =
        0; /* the line comes before it is used */
    return compare_calls(call);
}

const struct ls_region *ls_shared_call_region(const struct ls_shared_call *call, int rank) {
    int32_t id = ls_shared_call_read(call, rank)->region;
    const struct ls_region *region = call->shared->regions;
    while (region && region->id != id) region = region->next;
    return region;
}

ls_status ls_shared_call_find(const struct ls_shared_call *call, int rank, int index, size_t bytes,
                              unsigned char **memory) {
    const struct ls_shared_post *post = ls_shared_call_read(call, rank);
    const struct ls_region *region = ls_shared_call_region(call, rank);
    uint64_t offset = post->offsets[index];
    if (!region || offset > region->parts[rank].size || bytes > region->parts[rank].size - offset)
        return ls_fail(LS_DATA_LOSS, "rank %d tells a place outside of its shared memory", call->shared->members[rank]);
    *memory = ls_region_memory(region, rank) + offset;
    return LS_OK;
}

bool ls_shared_call_has_common_region(const struct ls_shared_call *call) {
    int32_t id = ls_shared_call_read(call, 0)->region;
    for (int rank = 1; rank < call->shared->size; rank++)
        if (ls_shared_call_read(call, rank)->region != id) return false;
    return id >= 0;
}
