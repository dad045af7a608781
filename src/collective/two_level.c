/* All-reduce in two levels. The host's workers meet in its memory, then exchange with other hosts by the schedules of
 * direct.c, in which each byte of the host's leaves is read and written by one of them only, and meet again.
 *  - small: leaves are copied into the control segments, and the first worker of each host does the one-step exchange;
 *  - direct: the host's leaves lie in one region, in place: all workers exchange straight out of and into them;
 *  - staged: they do not. Chunk by chunk each worker folds the host's partial results of the blocks that it exchanges
 *    into memory of its own, exchanges those, and hands out what came of them, chunk by chunk again.
 * Which of the last two is the host's own affair: other hosts do not see it. A worker that is alone on its host
 * exchanges its own leaves. Who waits for ranks that may be waiting in turn is patient: the cause is told over the
 * links. */
#include "collective/two_level.h"

#include <string.h>

#include "base/status.h"
#include "collective/fold.h"
#include "collective/leaves.h"

enum { ONE_STEP = 64 * 1024 /* bytes to all other hosts together */ };

struct two_level {
    struct ls_group *group;
    struct ls_shared *shared; /* NULL: alone on the host */
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

bool ls_two_level_fits(const struct ls_group *group, const int *first) {
    int hosts = group->hosts.count, size = group->hosts.size;
    return hosts > 1 && hosts < size && ls_leaves_most(first, size) <= LS_SHARED_LEAVES;
}

static bool is_small(const struct two_level *two) {
    size_t most = (size_t)ls_leaves_most(two->reduction.first, two->reduction.size);
    return two->bytes <= ONE_STEP / (size_t)(two->group->hosts.count - 1) &&
           ls_whole_lines(two->bytes) * most <= LS_SHARED_SMALL;
}

static ls_status meet(const struct two_level *two) {
    return ls_meet(&two->opened.place, false);
}

/* The host's results are complete when all its workers have come back from the links. */
static ls_status meet_after_links(const struct two_level *two) {
    ls_group_be_patient(two->group);
    return meet(two);
}

/* ---- small ---- */

static ls_status exchange_small(struct two_level *two) {
    ls_group_be_patient(two->group);
    if (!ls_group_is_speaker(two->group)) return LS_OK;
    ls_group_between_speakers(two->group, &two->call);
    if (two->bytes) ls_exchange_schedule(&two->group->schedule, &two->reduction);
    return ls_group_run(two->group, &two->call);
}

static ls_status reduce_small(struct two_level *two) {
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

static ls_status exchange(struct two_level *two) {
    const struct ls_hosts *hosts = &two->group->hosts;
    int own = two->reduction.rank;
    ls_group_be_patient(two->group);
    ls_group_between_hosts(two->group, &two->call);
    for (int rank = 0; rank < hosts->size; rank++) {
        if (hosts->host[rank] == hosts->host[own]) continue;
        bool owner = ls_hosts_delegate(hosts, hosts->host[own], rank) == own;
        bool delegate = ls_hosts_delegate(hosts, hosts->host[rank], own) == rank;
        if (owner || delegate) two->group->roles[rank] = LS_ROLE_PARTNER;
    }
    ls_direct_schedule(&two->group->schedule, &two->reduction);
    return ls_group_run(two->group, &two->call);
}

static ls_status reduce_direct(struct two_level *two) {
    ls_status status = ls_leaves_find(&two->opened, &two->reduction, &two->reduction.target_count);
    if (status) return status;
    two->reduction.leaves = (const void *const *)two->shared->leaves;
    two->reduction.targets = (void *const *)two->shared->targets;
    status = exchange(two);
    return status ? status : meet_after_links(two);
}

/* ---- staged ---- */

/* The first part is folded into the first output, others into scratch, of which only the pages of this worker's blocks
 * are touched. */
static ls_status list_parts(struct two_level *two) {
    struct ls_schedule *schedule = &two->group->schedule;
    const struct ls_reduction *reduction = &two->reduction;
    int host = two->group->hosts.host[reduction->rank];
    struct ls_subtree *ranges = ls_schedule_take(schedule, (size_t)reduction->size * sizeof(*ranges));
    two->folded = ls_schedule_take(schedule, (size_t)reduction->first[reduction->size] * sizeof(*two->folded));
    if (ranges) two->part_count = ls_host_parts(reduction, host, ranges, NULL, 0);
    two->parts = ls_schedule_take(schedule, (size_t)two->part_count * sizeof(*two->parts));
    if (two->parts) (void)ls_host_parts(reduction, host, ranges, two->parts, two->part_count);
    for (int i = 0; i < two->part_count && !schedule->out_of_memory; i++)
        two->folded[two->parts[i].low] = i ? ls_schedule_take(schedule, two->bytes) : reduction->outputs[0];
    return schedule->out_of_memory ? ls_fail_memory("partial results", two->bytes) : LS_OK;
}

struct span {
    size_t begin, end; /* bytes of a leaf */
};

/* What lies in both of a chunk and the block of owner; nothing if another worker of the host exchanges that. */
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

static ls_status fold_host(const struct two_level *two) {
    struct ls_leaves_chunk chunk = ls_leaves_chunk_at(two->shared, &two->reduction, 0);
    ls_leaves_copy_chunk(two->shared, &two->reduction, &chunk);
    ls_status status = meet(two);
    for (size_t index = 1; !status && chunk.size; index++) {
        struct ls_leaves_chunk next = ls_leaves_chunk_at(two->shared, &two->reduction, index);
        fold_chunk(two, &chunk);
        ls_leaves_copy_chunk(two->shared, &two->reduction, &next);
        status = meet(two);
        chunk = next;
    }
    return status;
}

/* Through the first worker's stages, used in turns: each worker brings its blocks, all take everything. */
static ls_status hand_out(const struct two_level *two) {
    ls_status status = LS_OK;
    int stage = 0;
    for (size_t offset = 0; offset < two->bytes && !status; offset += LS_SHARED_STAGE, stage ^= 1) {
        size_t left = two->bytes - offset, size = left < LS_SHARED_STAGE ? left : LS_SHARED_STAGE;
        unsigned char *place = ls_shared_control(two->shared, 0)->stage[stage];
        for (int owner = 0; owner < two->reduction.size; owner++) {
            struct span span = served(two, owner, offset, size);
            if (span.begin < span.end)
                memcpy(place + span.begin - offset, (const unsigned char *)two->reduction.outputs[0] + span.begin,
                       span.end - span.begin);
        }
        status = offset ? meet(two) : meet_after_links(two);
        for (int i = 0; !status && i < two->local; i++)
            memcpy((unsigned char *)two->reduction.outputs[i] + offset, place, size);
    }
    return status;
}

static ls_status reduce_staged(struct two_level *two) {
    ls_status status = list_parts(two);
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
    bool small = is_small(two);
    ls_shared_call_begin(&two->opened, two->shared, &two->group->executor, &two->group->schedule, &two->call,
                         ls_leaves_of_host(two->shared, &two->reduction));
    if (small) ls_leaves_copy_small(&two->opened, &two->reduction);
    ls_leaves_post(&two->opened, &two->reduction);
    ls_status status = ls_shared_call_open(&two->opened);
    if (status) return status;
    if (small) return reduce_small(two);
    return ls_shared_call_has_common_region(&two->opened) ? reduce_direct(two) : reduce_staged(two);
}

ls_status ls_two_level(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction) {
    struct two_level two = {.group = group,
                            .shared = group->shared,
                            .call = *call,
                            .reduction = *reduction,
                            .bytes = ls_leaf_bytes(reduction),
                            .local = ls_leaves_of(reduction, reduction->rank)};
    two.reduction.hosts = &group->hosts;
    ls_schedule_reset(&group->schedule, reduction->first[reduction->size]);
    if (two.shared) return reduce_in_host(&two);
    ls_executor_begin(&group->executor, &group->schedule, &two.call);
    return is_small(&two) ? reduce_small(&two) : exchange(&two);
}
