/* All-reduce in two levels. The workers of a host meet in its shared memory, exchange with other hosts by the schedules
 * of direct.c, and meet again. One worker only reads and writes a given byte of the host's leaves.
 *  - small: the workers copy their leaves into the small slots, and the first worker of each host does the
 *    one-step exchange;
 *  - direct: the host's leaves lie in one region, in place, and all workers exchange from them and into them;
 *  - staged: the leaves lie elsewhere. Chunk by chunk each worker folds the host's parts of the blocks that it
 *    exchanges into memory of its own (folded). It exchanges those blocks, and hands out their results chunk by chunk.
 * Each host chooses between direct and staged by itself; other hosts do not see the choice. A worker that is alone on
 * its host exchanges its own leaves. A worker that waits for workers which wait for links is patient: the cause of a
 * failure comes over the links. */
#include "collective/hierarchical.h"

#include <string.h>

#include "base/status.h"
#include "collective/call.h"
#include "collective/schedule/schedules.h"
#include "collective/schedule/fold.h"
#include "collective/shm/leaves.h"

enum { ONE_STEP = 64 * 1024 /* bytes to all other hosts together */ };

struct two_level {
    struct ls_group *group;
    struct ls_shared *shared; /* NULL if the worker is alone on its host */
    struct ls_shared_call opened;
    struct ls_call call;
    struct ls_reduction reduction;
    size_t bytes; /* of a leaf */
    int local;    /* leaves */
    /* staged: */
    struct ls_subtree *parts; /* the host's maximal subtrees */
    int part_count;
    unsigned char **folded; /* [leaves] of each part at its lowest leaf */
};

bool ls_hierarchical_fits(const struct ls_group *group, const struct ls_reduction *reduction) {
    int hosts = group->hosts.count, size = group->hosts.size;
    return hosts > 1 && hosts < size && ls_leaves_most(reduction->first, size) <= LS_SHARED_LEAVES;
}

static bool is_small_exchange(const struct two_level *two) {
    size_t most = (size_t)ls_leaves_most(two->reduction.first, two->reduction.size);
    return two->bytes <= ONE_STEP / (size_t)(two->group->hosts.count - 1) &&
           ls_whole_lines(two->bytes) * most <= ls_shared_small_bytes(two->reduction.size);
}

static ls_status meet_host(const struct two_level *two) {
    return ls_shm_barrier(&two->opened.place, false);
}

/* The host's results are complete when all its workers have come back from the links. */
static ls_status meet_after_links(const struct two_level *two) {
    ls_call_be_patient(two->group);
    return meet_host(two);
}

/* ---- small ---- */

static ls_status exchange_small(struct two_level *two) {
    ls_call_be_patient(two->group);
    if (!ls_call_is_speaker(two->group)) return LS_OK;
    ls_call_between_speakers(two->group, &two->call);
    if (two->bytes) ls_direct_schedule_exchange(&two->group->schedule, &two->reduction);
    return ls_call_run(two->group, &two->call);
}

static ls_status reduce_hosts_small(struct two_level *two) {
    if (!two->shared) return exchange_small(two);
    unsigned char *result = ls_shared_call_small(&two->opened, 0);
    ls_leaves_find_small(&two->opened, &two->reduction);
    two->shared->targets[0] = result;
    two->reduction.leaves = (const void *const *)two->shared->leaves;
    two->reduction.targets = (void *const *)two->shared->targets;
    two->reduction.target_count = 1;
    ls_status status = exchange_small(two);
    if (!status) status = meet_after_links(two);
    for (int i = 0; !status && two->bytes && i < two->local; i++) memcpy(two->reduction.outputs[i], result, two->bytes);
    return status;
}

/* ---- direct ---- */

/* Partners are the ranks with which a block is exchanged in one of the two directions: this rank is its host's delegate
 * for an owner there, or the delegate there is for the block that this rank owns. Every rank computes the same pairs
 * from hosts, so both ends of a link agree on it. */
static ls_status exchange(struct two_level *two) {
    const struct ls_hosts *hosts = &two->group->hosts;
    int own = two->reduction.rank;
    ls_call_be_patient(two->group);
    ls_call_between_hosts(two->group, &two->call);
    for (int rank = 0; rank < hosts->size; rank++) {
        if (hosts->host[rank] == hosts->host[own]) continue;
        bool owner = ls_hosts_delegate(hosts, hosts->host[own], rank) == own;
        bool delegate = ls_hosts_delegate(hosts, hosts->host[rank], own) == rank;
        if (owner || delegate) two->group->roles[rank] = LS_ROLE_PARTNER;
    }
    ls_direct_schedule(&two->group->schedule, &two->reduction);
    return ls_call_run(two->group, &two->call);
}

/* The schedule reads other workers' leaves and writes their outputs with no further meeting in between: a byte of a
 * leaf is read and written by one worker of the host only, the one that serves its block. */
static ls_status reduce_hosts_direct(struct two_level *two) {
    ls_status status = ls_leaves_find(&two->opened, &two->reduction, &two->reduction.target_count);
    if (status) return status;
    two->reduction.leaves = (const void *const *)two->shared->leaves;
    two->reduction.targets = (void *const *)two->shared->targets;
    status = exchange(two);
    return status ? status : meet_after_links(two);
}

/* ---- staged ---- */

/* The first part is folded into the first output, other parts into scratch. Only the pages of this worker's blocks of
 * the scratch are touched. */
static ls_status list_host_parts(struct two_level *two) {
    struct ls_schedule *schedule = &two->group->schedule;
    const struct ls_reduction *reduction = &two->reduction;
    int host = two->group->hosts.host[reduction->rank];
    struct ls_subtree *ranges = ls_schedule_take(schedule, (size_t)reduction->size * sizeof(*ranges));
    two->folded = ls_schedule_take(schedule, (size_t)reduction->first[reduction->size] * sizeof(*two->folded));
    if (ranges) two->part_count = ls_direct_host_parts(reduction, host, ranges, NULL, 0);
    two->parts = ls_schedule_take(schedule, (size_t)two->part_count * sizeof(*two->parts));
    if (two->parts) (void)ls_direct_host_parts(reduction, host, ranges, two->parts, two->part_count);
    for (int i = 0; i < two->part_count && !schedule->out_of_memory; i++)
        two->folded[two->parts[i].low] = i ? ls_schedule_take(schedule, two->bytes) : reduction->outputs[0];
    return schedule->out_of_memory ? ls_fail_memory("partial results", two->bytes) : LS_OK;
}

struct span {
    size_t begin, end; /* bytes of a leaf */
};

/* The intersection of a chunk and the block of owner; empty if another worker of the host exchanges that block. A
 * worker serves its own block and one for each owner of another host whose delegate it is; so a chunk is met owner by
 * owner. */
static struct span served(const struct two_level *two, int owner, size_t offset, size_t size) {
    size_t begin, length;
    if (!ls_direct_serves(&two->reduction, owner, &begin, &length)) return (struct span){0, 0};
    size_t end = begin + length;
    if (begin < offset) begin = offset;
    if (end > offset + size) end = offset + size;
    return begin < end ? (struct span){begin, end} : (struct span){0, 0};
}

static void fold_span(const struct two_level *two, const struct ls_leaves_chunk *chunk, struct span span) {
    for (int i = 0; i < two->part_count; i++) {
        struct ls_subtree part = two->parts[i];
        const struct ls_fold fold = {.combine = two->call.combine,
                                     .element = two->reduction.element,
                                     .n = two->reduction.first[two->reduction.size],
                                     .low = part.low,
                                     .count = part.high - part.low,
                                     .data = (const void *const *)two->shared->leaves + part.low};
        ls_fold_range(&fold, two->folded[part.low] + span.begin, span.begin - chunk->offset, span.end - span.begin);
    }
}

static void fold_chunk(const struct two_level *two, const struct ls_leaves_chunk *chunk) {
    ls_leaves_find_chunk(two->shared, &two->reduction, chunk);
    for (int owner = 0; owner < two->reduction.size; owner++) {
        struct span span = served(two, owner, chunk->offset, chunk->size);
        if (span.begin < span.end) fold_span(two, chunk, span);
    }
}

/* One meeting a chunk is enough for two stages. A worker copies into a stage again after the meeting that follows the
 * fold of its old bytes; every other worker came to that meeting after its own fold of them. The copy of the next chunk
 * needs no wait, for it goes into the other stage. */
static ls_status fold_host(const struct two_level *two) {
    struct ls_leaves_chunk chunk = ls_leaves_chunk_at(two->shared, &two->reduction, 0);
    ls_leaves_copy_chunk(two->shared, &two->reduction, &chunk);
    ls_status status = meet_host(two);
    for (size_t index = 1; !status && chunk.size; index++) {
        struct ls_leaves_chunk next = ls_leaves_chunk_at(two->shared, &two->reduction, index);
        fold_chunk(two, &chunk);
        ls_leaves_copy_chunk(two->shared, &two->reduction, &next);
        status = meet_host(two);
        chunk = next;
    }
    return status;
}

/* Through the first worker's stages, used in turns: each worker brings its blocks, all take everything. Stage k is
 * written again two pieces later, behind the meeting of the piece between. All workers came to that one after they had
 * taken piece k out. */
static ls_status hand_out(const struct two_level *two) {
    ls_status status = LS_OK;
    int stage = 0;
    size_t most = two->shared->board.stage;
    for (size_t offset = 0; offset < two->bytes && !status; offset += most, stage ^= 1) {
        size_t left = two->bytes - offset, size = left < most ? left : most;
        unsigned char *place = ls_shared_stage(two->shared, 0, stage);
        for (int owner = 0; owner < two->reduction.size; owner++) {
            struct span span = served(two, owner, offset, size);
            if (span.begin < span.end)
                memcpy(place + span.begin - offset, (const unsigned char *)two->reduction.outputs[0] + span.begin,
                       span.end - span.begin);
        }
        status = offset ? meet_host(two) : meet_after_links(two);
        for (int i = 0; !status && i < two->local; i++)
            memcpy((unsigned char *)two->reduction.outputs[i] + offset, place, size);
    }
    return status;
}

static ls_status reduce_hosts_staged(struct two_level *two) {
    ls_status status = list_host_parts(two);
    if (!status) status = fold_host(two);
    if (status) return status;
    two->reduction.folded = true;
    two->reduction.leaves = (const void *const *)two->folded;
    two->reduction.targets = two->reduction.outputs;
    two->reduction.target_count = 1;
    status = exchange(two);
    return status ? status : hand_out(two);
}

/* ---- the whole ---- */

static ls_status reduce_in_host(struct two_level *two) {
    bool small = is_small_exchange(two);
    ls_shared_call_begin(&two->opened, two->shared, &two->call, ls_leaves_of_host(two->shared, &two->reduction));
    if (small) ls_leaves_copy_small(&two->opened, &two->reduction);
    ls_leaves_post(&two->opened, &two->reduction);
    ls_status status = ls_shared_call_open(&two->opened);
    if (status) return status;
    if (small) return reduce_hosts_small(two);
    return ls_shared_call_has_common_region(&two->opened) ? reduce_hosts_direct(two) : reduce_hosts_staged(two);
}

ls_status ls_hierarchical(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction) {
    struct two_level two = {.group = group,
                            .shared = group->shared,
                            .call = *call,
                            .reduction = *reduction,
                            .bytes = ls_reduction_bytes(reduction),
                            .local = ls_reduction_leaves(reduction, reduction->rank)};
    two.reduction.hosts = &group->hosts;
    ls_schedule_reset(&group->schedule, reduction->first[reduction->size]);
    if (two.shared) return reduce_in_host(&two);
    ls_executor_begin(&group->executor, &group->schedule, &two.call);
    return is_small_exchange(&two) ? reduce_hosts_small(&two) : exchange(&two);
}
