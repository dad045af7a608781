/* All-reduce in shared memory. Every worker posts its fingerprint and the place of its leaves, and meets the others.
 * Every worker folds all leaves along the same tree, so each form gives the same bits.
 *  - small: every worker has copied its leaves into its small slot, and folds the whole vector for itself;
 *  - direct: all leaves lie in one region, in place. Each worker takes blocks of the elements, folds a block from all
 *    leaves, writes the result into all of them, and meets the others. Of many workers of a large region each has one
 *    block;
 *  - staged: the same on copies in the stages, chunk by chunk, with one meeting a chunk. The next chunk is
 *    copied in while a chunk is reduced.
 * The choice depends on facts that all workers know after the meeting, so all make the same. */
#include "collective/shm/shm_calls.h"

#include <string.h>

#include "collective/schedule/schedules.h"
#include "collective/schedule/fold.h"
#include "collective/shm/leaves.h"

#define PIECE       2048         /* bytes at a time */
#define BLOCK       (128 * 1024) /* bytes of a leaf */
#define MOST_BLOCKS (1 << 20)
#define SMALL       1024 /* bytes of all leaves together, for each pair of ranks */
#define MOST_SMALL  (32 * 1024)
#define LIGHT       ((size_t)4 << 20) /* bytes of a region, of all workers */

struct push {
    struct ls_shared_call opened;
    struct ls_shared *shared;
    const struct ls_call *call;
    const struct ls_reduction *reduction;
    size_t bytes; /* of a leaf */
    int local;    /* leaves */
};

bool ls_shm_all_reduce_fits(const struct ls_shared *shared, const int *first) {
    return shared && ls_leaves_most(first, shared->size) <= LS_SHARED_LEAVES;
}

/* ---- folding ---- */

/* Folds bytes [begin, end) of all leaves, in pieces that stay in the first-level cache, and writes them to every
 * target. */
static void reduce_range(const struct push *push, size_t begin, size_t end, unsigned char *const *targets, int count) {
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
            ls_reduce_divide((ls_dtype)push->call->frame.dtype, targets[0] + at, size / reduction->element,
                             reduction->divide);
        for (int i = 1; i < count; i++) memcpy(targets[i] + at, targets[0] + at, size);
    }
}

/* The same where the targets are the leaves. */
static void reduce_in_place(const struct push *push, size_t begin, size_t end) {
    const struct ls_reduction *reduction = push->reduction;
    const struct ls_frame *frame = &push->call->frame;
    unsigned char *const *leaves = push->shared->leaves;
    int count = reduction->first[reduction->size];
    ls_fold_all_fn *fold_all = ls_reduce_fold_all((ls_reduce_op)frame->op, (ls_dtype)frame->dtype, count);
    if (fold_all)
        fold_all((void *const *)leaves, begin / reduction->element, (end - begin) / reduction->element,
                 reduction->divide);
    else
        reduce_range(push, begin, end, leaves, count);
}

/* One of the count blocks into which size bytes are cut, in whole cache lines; with fewer lines than blocks some blocks
 * are empty. */
static struct range { size_t begin, end; } range_of(size_t size, int count, int index) {
    size_t lines = ls_whole_lines(size) / LS_LINE;
    size_t begin = ls_block_start(lines, count, index) * LS_LINE,
           end = ls_block_start(lines, count, index + 1) * LS_LINE;
    return (struct range){begin < size ? begin : size, end < size ? end : size};
}

/* ---- small ---- */

/* Folding everything saves a meeting, which costs the more the more ranks there are. Each of n ranks reads all n
 * leaves, n^2 times the bytes in the whole, where sharing out would read n. The limit is 1 KiB a pair of ranks up to 5
 * ranks, then 32 KiB. It counts whole cache lines, as the leaves lie in the slots. */
static bool is_small_reduction(const struct push *push) {
    const struct ls_reduction *reduction = push->reduction;
    size_t size = (size_t)reduction->size, limit = size < 6 ? size * size * SMALL : MOST_SMALL;
    size_t lines = push->bytes <= limit ? ls_whole_lines(push->bytes) : limit + 1;
    return lines * (size_t)reduction->first[size] <= limit &&
           lines * (size_t)ls_leaves_most(reduction->first, reduction->size) <= push->shared->board.small;
}

static void reduce_small(const struct push *push) {
    const struct ls_reduction *reduction = push->reduction;
    ls_leaves_find_small(&push->opened, reduction);
    if (push->bytes) reduce_range(push, 0, push->bytes, (unsigned char *const *)reduction->outputs, push->local);
}

/* ---- direct ---- */

/* The number of blocks: as many as workers can be at work, or more if blocks would be larger than BLOCK. Blocks are
 * taken, not dealt, between few workers: a worker that the kernel has put to sleep delays one block, of 128 to 256 KiB
 * a leaf, and not its n-th of a large vector. The tree fixes the order of addition of an element, so it does not matter
 * who folds it. */
static uint64_t count_blocks(const struct push *push) {
    const struct ls_shared *shared = push->shared;
    size_t least = (size_t)(shared->size < shared->processors ? shared->size : shared->processors);
    size_t blocks = push->bytes / BLOCK < MOST_BLOCKS ? push->bytes / BLOCK : MOST_BLOCKS;
    return blocks > least ? blocks : least;
}

/* True if every worker may map everything of everybody. */
static bool is_light(const struct push *push) {
    const struct ls_shared *shared = push->shared;
    const struct ls_region *region = ls_shared_call_region(&push->opened, shared->rank);
    size_t bytes = region ? 0 : LIGHT + 1;
    for (int i = 0; i < shared->size && bytes <= LIGHT; i++) bytes += region->parts[i].size;
    return shared->size <= LS_SHARED_FEW || bytes <= LIGHT;
}

/* A worker that takes any block maps everything of everybody in the end: n times the leaves. A worker that has one
 * block maps as much as its own leaves and a page of each other worker, but must run once more in a call. */
static ls_status reduce_own_block(const struct push *push) {
    const struct ls_shared *shared = push->shared;
    struct range range = range_of(push->bytes, shared->size, shared->rank);
    for (int i = 0; i < push->reduction->first[push->reduction->size]; i++)
        ls_segment_touch(shared->leaves[i] + range.begin, range.end - range.begin);
    reduce_in_place(push, range.begin, range.end);
    return ls_shm_barrier(&push->opened.place, false);
}

static ls_status reduce_direct(const struct push *push) {
    int leaves;
    ls_status status = ls_leaves_find(&push->opened, push->reduction, &leaves);
    if (status) return status;
    if (!is_light(push)) return reduce_own_block(push);
    uint64_t count = count_blocks(push), done = 0;
    for (uint64_t block; (block = ls_shm_barrier_take(&push->opened.place)) < count; done++) {
        struct range range = range_of(push->bytes, (int)count, (int)block);
        reduce_in_place(push, range.begin, range.end);
    }
    return ls_shm_barrier_done(&push->opened.place, done, count);
}

/* ---- staged ---- */

static void copy_out(const struct push *push, const struct ls_leaves_chunk *chunk) {
    const unsigned char *result = ls_shared_stage(push->shared, push->shared->rank, chunk->stage);
    for (int i = 0; i < push->local; i++)
        memcpy((char *)push->reduction->outputs[i] + chunk->offset, result, chunk->size);
}

/* The result goes into the place of every worker's first leaf. */
static void reduce_chunk(const struct push *push, const struct ls_leaves_chunk *chunk) {
    const struct ls_reduction *reduction = push->reduction;
    struct range range = range_of(chunk->size, reduction->size, reduction->rank);
    ls_leaves_find_chunk(push->shared, reduction, chunk);
    if (reduction->first[reduction->size] == reduction->size) {
        reduce_in_place(push, range.begin, range.end);
        return;
    }
    for (int rank = 0; rank < reduction->size; rank++)
        push->shared->targets[rank] = push->shared->leaves[reduction->first[rank]];
    reduce_range(push, range.begin, range.end, push->shared->targets, reduction->size);
}

/* A worker writes its part of the result into every worker's stage, so copy_out reads only the own stage. That stage is
 * filled again after copy_out in the same thread. All others were through with it at the meeting before. */
static ls_status reduce_staged(const struct push *push) {
    struct ls_leaves_chunk chunk = ls_leaves_chunk_at(push->shared, push->reduction, 0);
    ls_leaves_copy_chunk(push->shared, push->reduction, &chunk);
    ls_status status = ls_shm_barrier(&push->opened.place, false);
    for (size_t index = 1; !status && chunk.size; index++) {
        struct ls_leaves_chunk next = ls_leaves_chunk_at(push->shared, push->reduction, index);
        reduce_chunk(push, &chunk);
        ls_leaves_copy_chunk(push->shared, push->reduction, &next);
        status = ls_shm_barrier(&push->opened.place, false);
        if (!status) copy_out(push, &chunk);
        chunk = next;
    }
    return status;
}

/* ---- the whole ---- */

static ls_status reduce_shared(const struct push *push) {
    bool small = is_small_reduction(push);
    if (small) ls_leaves_copy_small(&push->opened, push->reduction);
    ls_leaves_post(&push->opened, push->reduction);
    ls_status status = ls_shared_call_open(&push->opened);
    if (status) return status;
    if (!small) return ls_shared_call_has_common_region(&push->opened) ? reduce_direct(push) : reduce_staged(push);
    reduce_small(push);
    return LS_OK;
}

ls_status ls_shm_all_reduce(struct ls_shared *shared, const struct ls_call *call,
                            const struct ls_reduction *reduction) {
    struct push push = {.shared = shared,
                        .call = call,
                        .reduction = reduction,
                        .bytes = ls_reduction_bytes(reduction),
                        .local = ls_reduction_leaves(reduction, reduction->rank)};
    ls_shared_call_begin(&push.opened, shared, call, reduction->first[reduction->size]);
    return reduce_shared(&push);
}
