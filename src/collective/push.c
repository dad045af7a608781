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
#include "collective/leaves.h"

#define PIECE       2048         /* bytes at a time */
#define BLOCK       (128 * 1024) /* bytes of a leaf */
#define MOST_BLOCKS (1 << 20)
#define SMALL       1024 /* bytes of all leaves together, for each pair of ranks */
#define MOST_SMALL  (32 * 1024)

struct push {
    struct ls_shared_call opened;
    struct ls_shared *shared;
    const struct ls_call *call;
    const struct ls_reduction *reduction;
    size_t bytes; /* of a leaf */
    int local;    /* leaves */
};

bool ls_push_fits(const struct ls_shared *shared, const int *first) {
    return shared && ls_leaves_most(first, shared->size) <= LS_SHARED_LEAVES;
}

/* ---- folding ---- */

/* Folds bytes [begin, end) of all leaves, in pieces that stay in the first-level cache, and writes them to every
 * target. */
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

/* The same where the targets are the leaves. */
static void reduce_in_place(const struct push *push, size_t begin, size_t end) {
    const struct ls_reduction *reduction = push->reduction;
    const struct ls_frame *frame = &push->call->frame;
    unsigned char *const *leaves = push->shared->leaves;
    int count = reduction->first[reduction->size];
    ls_fold_all_fn *fold_all = ls_fold_all((ls_reduce_op)frame->op, (ls_dtype)frame->dtype, count);
    if (fold_all)
        fold_all((void *const *)leaves, begin / reduction->element, (end - begin) / reduction->element,
                 reduction->divide);
    else
        reduce(push, begin, end, leaves, count);
}

/* Of size bytes cut into count blocks of whole cache lines, one. */
static struct range { size_t begin, end; } block_of(size_t size, int count, int index) {
    size_t lines = ls_whole_lines(size) / LS_LINE, end = ls_block_start(lines, count, index + 1) * LS_LINE;
    return (struct range){ls_block_start(lines, count, index) * LS_LINE, end < size ? end : size};
}

/* ---- small ---- */

/* Folding everything saves a meeting, which costs the more the more ranks there are. */
static bool is_small(const struct push *push) {
    const struct ls_reduction *reduction = push->reduction;
    size_t size = (size_t)reduction->size, limit = size < 6 ? size * size * SMALL : MOST_SMALL;
    return push->bytes <= limit && ls_whole_lines(push->bytes) * (size_t)reduction->first[size] <= limit;
}

static void reduce_small(const struct push *push) {
    const struct ls_reduction *reduction = push->reduction;
    ls_leaves_find_small(&push->opened, reduction);
    if (push->bytes) reduce(push, 0, push->bytes, (unsigned char *const *)reduction->outputs, push->local);
}

/* ---- direct ---- */

/* As many as can be at work, more when they would be large. */
static uint64_t count_blocks(const struct push *push) {
    const struct ls_shared *shared = push->shared;
    size_t least = (size_t)(shared->size < shared->processors ? shared->size : shared->processors);
    size_t blocks = push->bytes / BLOCK < MOST_BLOCKS ? push->bytes / BLOCK : MOST_BLOCKS;
    return blocks > least ? blocks : least;
}

static ls_status reduce_direct(const struct push *push) {
    int leaves;
    ls_status status = ls_leaves_find(&push->opened, push->reduction, &leaves);
    if (status) return status;
    uint64_t count = count_blocks(push), done = 0;
    for (uint64_t block; (block = ls_meet_take(&push->opened.place)) < count; done++) {
        struct range range = block_of(push->bytes, (int)count, (int)block);
        reduce_in_place(push, range.begin, range.end);
    }
    return ls_meet_done(&push->opened.place, done, count);
}

/* ---- staged ---- */

static void copy_out(const struct push *push, const struct ls_leaves_chunk *chunk) {
    const unsigned char *result = ls_shared_control(push->shared, push->shared->rank)->stage[chunk->stage];
    for (int i = 0; i < push->local; i++)
        memcpy((char *)push->reduction->outputs[i] + chunk->offset, result, chunk->size);
}

/* The result goes into the place of every worker's first leaf. */
static void reduce_chunk(const struct push *push, const struct ls_leaves_chunk *chunk) {
    const struct ls_reduction *reduction = push->reduction;
    struct range range = block_of(chunk->size, reduction->size, reduction->rank);
    ls_leaves_find_chunk(push->shared, reduction, chunk);
    if (reduction->first[reduction->size] == reduction->size) {
        reduce_in_place(push, range.begin, range.end);
        return;
    }
    for (int rank = 0; rank < reduction->size; rank++)
        push->shared->targets[rank] = push->shared->leaves[reduction->first[rank]];
    reduce(push, range.begin, range.end, push->shared->targets, reduction->size);
}

static ls_status reduce_staged(const struct push *push) {
    struct ls_leaves_chunk chunk = ls_leaves_chunk_at(push->shared, push->reduction, 0);
    ls_leaves_copy_chunk(push->shared, push->reduction, &chunk);
    ls_status status = ls_meet(&push->opened.place, false);
    for (size_t index = 1; !status && chunk.size; index++) {
        struct ls_leaves_chunk next = ls_leaves_chunk_at(push->shared, push->reduction, index);
        reduce_chunk(push, &chunk);
        ls_leaves_copy_chunk(push->shared, push->reduction, &next);
        status = ls_meet(&push->opened.place, false);
        if (!status) copy_out(push, &chunk);
        chunk = next;
    }
    return status;
}

/* ---- the whole ---- */

static ls_status run(const struct push *push) {
    bool small = is_small(push);
    if (small) ls_leaves_copy_small(&push->opened, push->reduction);
    ls_leaves_post(&push->opened, push->reduction);
    ls_status status = ls_shared_call_open(&push->opened);
    if (status) return status;
    if (!small) return ls_shared_call_has_common_region(&push->opened) ? reduce_direct(push) : reduce_staged(push);
    reduce_small(push);
    return LS_OK;
}

ls_status ls_push(struct ls_shared *shared, struct ls_executor *executor, struct ls_schedule *schedule,
                  const struct ls_call *call, const struct ls_reduction *reduction) {
    struct push push = {.shared = shared,
                        .call = call,
                        .reduction = reduction,
                        .bytes = ls_leaf_bytes(reduction),
                        .local = ls_leaves_of(reduction, reduction->rank)};
    ls_shared_call_begin(&push.opened, shared, executor, schedule, call, reduction->first[reduction->size]);
    return run(&push);
}
