/* All-reduce in shared memory. Every worker posts its fingerprint and where its leaves lie, and meets the others. Then
 *  - small: every worker has copied its leaves into its control segment, and folds everything for itself;
 *  - direct: all leaves lie in one region, in place: each worker folds its block of the elements straight out of
 *    everybody's leaves and writes the result straight into all of them, and meets the others;
 *  - staged: the same on copies in the control segments, chunk by chunk, with one meeting a chunk: while a chunk is
 *    reduced the next one is copied in.
 * Which way is taken follows from what all know after the meeting, so all take the same. */
#include "collective/push.h"

#include <string.h>

#include "base/dtype.h"
#include "collective/blocks.h"
#include "collective/fold.h"

#define LINE       64          /* bytes of a cache line */
#define PIECE      (32 * 1024) /* bytes at a time */
#define SMALL      1024        /* bytes of all leaves together, for each pair of ranks */
#define MOST_SMALL (32 * 1024)

struct push {
    struct ls_meeting_place place;
    struct ls_shared *shared;
    const struct ls_call *call;
    const struct ls_reduction *reduction;
    size_t bytes; /* of a leaf */
    int local;    /* leaves */
    int parity;
};

static int leaves_of(const struct ls_reduction *reduction, int rank) {
    return reduction->first[rank + 1] - reduction->first[rank];
}

static int most_leaves(const int *first, int size) {
    int most = 0;
    for (int i = 0; i < size; i++)
        if (first[i + 1] - first[i] > most) most = first[i + 1] - first[i];
    return most;
}

bool ls_push_fits(const struct ls_shared *shared, const int *first) {
    return shared && most_leaves(first, shared->size) <= LS_SHARED_LEAVES;
}

static size_t whole_lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* ---- folding ---- */

/* Folds bytes [begin, end) of all leaves, in pieces that stay in the cache, and writes them to every target. */
static void reduce(const struct push *push, size_t begin, size_t end, unsigned char *const *targets, int count) {
    const struct ls_reduction *reduction = push->reduction;
    const int leaves = reduction->first[reduction->size];
    struct ls_fold fold = {.combine = push->call->combine,
                           .element = reduction->element,
                           .n = leaves,
                           .count = leaves,
                           .data = (const void *const *)push->shared->leaves};
    for (size_t at = begin; at < end; at += PIECE) {
        size_t size = end - at < PIECE ? end - at : PIECE;
        ls_fold_range(&fold, targets[0] + at, at, size);
        if (reduction->divide)
            ls_divide((ls_dtype)push->call->frame.dtype, targets[0] + at, size / reduction->element, reduction->divide);
        for (int i = 1; i < count; i++) memcpy(targets[i] + at, targets[0] + at, size);
    }
}

/* As reduce, for this worker's block of size bytes: whole cache lines. */
static void reduce_block(const struct push *push, size_t size, unsigned char *const *targets, int count) {
    const struct ls_reduction *reduction = push->reduction;
    size_t lines = whole_lines(size) / LINE;
    size_t begin = ls_block_start(lines, reduction->size, reduction->rank) * LINE;
    size_t end = ls_block_start(lines, reduction->size, reduction->rank + 1) * LINE;
    reduce(push, begin, end < size ? end : size, targets, count);
}

/* ---- small ---- */

static size_t small_place(const struct push *push, int leaf) {
    return whole_lines(push->bytes) * (size_t)leaf;
}

/* Folding everything saves a meeting, which costs the more the more ranks there are. */
static bool is_small(const struct push *push) {
    const struct ls_reduction *reduction = push->reduction;
    size_t size = (size_t)reduction->size, limit = size < 6 ? size * size * SMALL : MOST_SMALL;
    return push->bytes <= limit && whole_lines(push->bytes) * (size_t)reduction->first[size] <= limit;
}

static void copy_in_small(const struct push *push) {
    unsigned char *small = ls_shared_control(push->shared, push->shared->rank)->small[push->parity];
    for (int i = 0; i < push->local && push->bytes; i++)
        memcpy(small + small_place(push, i), push->reduction->inputs[i], push->bytes);
}

static void reduce_small(const struct push *push) {
    const struct ls_reduction *reduction = push->reduction;
    for (int rank = 0; rank < reduction->size; rank++)
        for (int i = 0; i < leaves_of(reduction, rank); i++)
            push->shared->leaves[reduction->first[rank] + i] =
                ls_shared_control(push->shared, rank)->small[push->parity] + small_place(push, i);
    if (push->bytes) reduce(push, 0, push->bytes, (unsigned char *const *)reduction->outputs, push->local);
}

/* ---- direct ---- */

/* Posts where the leaves lie, if they all lie in one region, in place. */
static void post(const struct push *push) {
    struct ls_shared_post *post = &ls_shared_control(push->shared, push->shared->rank)->posts[push->parity];
    const struct ls_region *common = NULL;
    post->frame = push->call->frame;
    post->region = -1;
    for (int i = 0; i < push->local; i++) {
        const void *leaf = push->reduction->inputs[i];
        if (!push->bytes || leaf != push->reduction->outputs[i]) return;
        const struct ls_region *region = ls_shared_find(push->shared, leaf, push->bytes, &post->offsets[i]);
        if (!region || (common && region != common)) return;
        common = region;
    }
    post->region = common->id;
}

static const struct ls_region *region_of(const struct ls_shared *shared, int32_t id) {
    const struct ls_region *region = shared->regions;
    while (region && region->id != id) region = region->next;
    return region;
}

/* The region in which the leaves of all workers lie; NULL: some do not. */
static const struct ls_region *common_region(const struct push *push) {
    int32_t id = ls_shared_control(push->shared, 0)->posts[push->parity].region;
    for (int rank = 1; rank < push->shared->size; rank++)
        if (ls_shared_control(push->shared, rank)->posts[push->parity].region != id) return NULL;
    return id < 0 ? NULL : region_of(push->shared, id);
}

static ls_status find_leaves(const struct push *push, const struct ls_region *region) {
    const struct ls_reduction *reduction = push->reduction;
    for (int rank = 0; rank < reduction->size; rank++) {
        const struct ls_segment *segment = &region->segments[rank];
        const uint64_t *offsets = ls_shared_control(push->shared, rank)->posts[push->parity].offsets;
        for (int i = 0; i < leaves_of(reduction, rank); i++) {
            uint64_t offset = offsets[i];
            if (offset > segment->size || push->bytes > segment->size - offset)
                return ls_fail(LS_DATA_LOSS, "rank %d tells a place outside of its shared memory", rank);
            push->shared->leaves[reduction->first[rank] + i] = segment->memory + offset;
        }
    }
    return LS_OK;
}

static ls_status reduce_direct(const struct push *push, const struct ls_region *region) {
    const struct ls_reduction *reduction = push->reduction;
    ls_status status = find_leaves(push, region);
    if (status) return status;
    int leaves = reduction->first[reduction->size], own = reduction->first[reduction->rank];
    for (int i = 0; i < leaves; i++) push->shared->targets[i] = push->shared->leaves[(own + i) % leaves];
    reduce_block(push, push->bytes, push->shared->targets, leaves);
    return ls_meet(&push->place, false);
}

/* ---- staged ---- */

struct chunk {
    size_t offset, size; /* of the leaf's bytes */
    size_t stride;       /* between leaves in the stage */
    int stage;
};

static struct chunk chunk_at(const struct push *push, size_t index) {
    size_t most = (size_t)most_leaves(push->reduction->first, push->reduction->size);
    size_t stride = LS_SHARED_STAGE / most / LINE * LINE, offset = index * stride;
    size_t left = offset < push->bytes ? push->bytes - offset : 0;
    return (struct chunk){offset, left < stride ? left : stride, stride, (int)(index & 1)};
}

static unsigned char *stage_of(const struct push *push, int rank, const struct chunk *chunk) {
    return ls_shared_control(push->shared, rank)->stage[chunk->stage];
}

static void copy_in(const struct push *push, const struct chunk *chunk) {
    unsigned char *stage = stage_of(push, push->shared->rank, chunk);
    for (int i = 0; i < push->local && chunk->size; i++)
        memcpy(stage + (size_t)i * chunk->stride, (const char *)push->reduction->inputs[i] + chunk->offset,
               chunk->size);
}

static void copy_out(const struct push *push, const struct chunk *chunk) {
    for (int i = 0; i < push->local; i++)
        memcpy((char *)push->reduction->outputs[i] + chunk->offset, stage_of(push, push->shared->rank, chunk),
               chunk->size);
}

/* The result goes into the place of every worker's first leaf. */
static void reduce_chunk(const struct push *push, const struct chunk *chunk) {
    const struct ls_reduction *reduction = push->reduction;
    for (int rank = 0; rank < reduction->size; rank++) {
        unsigned char *stage = stage_of(push, rank, chunk);
        push->shared->targets[(rank - reduction->rank + reduction->size) % reduction->size] = stage;
        for (int i = 0; i < leaves_of(reduction, rank); i++)
            push->shared->leaves[reduction->first[rank] + i] = stage + (size_t)i * chunk->stride;
    }
    reduce_block(push, chunk->size, push->shared->targets, reduction->size);
}

static ls_status reduce_staged(const struct push *push) {
    struct chunk chunk = chunk_at(push, 0);
    copy_in(push, &chunk);
    ls_status status = ls_meet(&push->place, false);
    for (size_t index = 1; !status && chunk.size; index++) {
        struct chunk next = chunk_at(push, index);
        reduce_chunk(push, &chunk);
        copy_in(push, &next);
        status = ls_meet(&push->place, false);
        if (!status) copy_out(push, &chunk);
        chunk = next;
    }
    return status;
}

/* ---- the whole ---- */

static bool same_call(const struct push *push) {
    struct ls_frame expected = push->call->frame;
    for (int rank = 0; rank < push->shared->size; rank++) {
        struct ls_frame got = ls_shared_control(push->shared, rank)->posts[push->parity].frame;
        got.name[LS_FRAME_NAME - 1] = 0;
        expected.rank = rank;
        if (ls_frame_compare(&expected, &got, push->shared->rank, rank)) return false;
    }
    return true;
}

static ls_status run(const struct push *push) {
    bool small = is_small(push);
    if (small) copy_in_small(push);
    post(push);
    ls_status status = ls_meet(&push->place, true);
    if (status) return status;
    if (!same_call(push)) return ls_meet_over_links(&push->place);
    if (small) {
        reduce_small(push);
        return LS_OK;
    }
    const struct ls_region *region = common_region(push);
    return region ? reduce_direct(push, region) : reduce_staged(push);
}

ls_status ls_push(struct ls_shared *shared, struct ls_executor *executor, struct ls_schedule *schedule,
                  const struct ls_call *call, const struct ls_reduction *reduction) {
    struct push push = {.place = {shared, executor, schedule, reduction->first[reduction->size] > shared->processors},
                        .shared = shared,
                        .call = call,
                        .reduction = reduction,
                        .bytes = reduction->count * reduction->element,
                        .local = leaves_of(reduction, reduction->rank),
                        .parity = (int)(shared->calls++ & 1)};
    ls_executor_begin(executor, schedule, call);
    return run(&push);
}
