/* The memory that a host's workers share: its board and regions. discover.c finds the ranks that can map each other's
 * memory. */
#define _GNU_SOURCE
#include "collective/shm/shared.h"

#include <string.h>
#include <unistd.h>

#include "base/new.h"
#include "base/thread.h"
#include "collective/run/executor.h"

#define PAGE       ((size_t)4096)
#define LARGE_PAGE ((size_t)2 << 20)

/* From one worker's part of a segment to the next one's. Bytes at equal offsets of the parts are used together, so the
 * parts begin at addresses that segment.c's processors tell apart. The bytes between parts have no pages. */
static size_t stride_of(size_t size, int workers) {
    size_t unit = workers <= LS_SHARED_FEW || size >= LARGE_PAGE ? LARGE_PAGE : PAGE;
    return size > PTRDIFF_MAX - unit ? 0 : unit * ((size + unit - 1) / unit | 1);
}

static void populate(const struct ls_segment *segment, const struct ls_segment_part *parts, int count, int workers) {
    for (int i = 0; i < count && segment->memory && workers <= LS_SHARED_FEW; i++)
        ls_segment_populate(segment, &parts[i]);
}

static void unmap_region(struct ls_region *region) {
    if (region) ls_segment_unmap(&region->segment);
    ls_free(region);
}

static bool allocate_lists(struct ls_shared *shared, int group_size) {
    size_t leaves = (size_t)group_size * LS_SHARED_LEAVES;
    shared->roles = ls_alloc((size_t)group_size);
    shared->leaves = ls_alloc_array(leaves, sizeof(*shared->leaves));
    shared->targets = ls_alloc_array(leaves, sizeof(*shared->targets));
    return shared->roles && shared->leaves && shared->targets;
}

static ls_status make_memory(const struct ls_hosts *hosts, int rank, struct ls_shared **shared) {
    LS_NEW(struct ls_shared, made, "shared memory");
    int host = hosts->host[rank];
    made->rank = hosts->index[rank];
    made->size = ls_hosts_members(hosts, host);
    made->members = &hosts->members[hosts->start[host]];
    made->processors = ls_thread_processors();
    if (!allocate_lists(made, hosts->size)) {
        ls_shared_free(made);
        return ls_fail_memory("shared memory", (size_t)hosts->size * LS_SHARED_LEAVES * sizeof(*made->leaves));
    }
    memset(made->roles, LS_ROLE_NONE, (size_t)hosts->size);
    for (int i = 0; i < made->size; i++) made->roles[made->members[i]] = LS_ROLE_PARTNER;
    *shared = made;
    return LS_OK;
}

/* ---- the board ---- */

/* For so many workers of a host. parts, [workers + 1], are its first bytes and each worker's stages. */
static void lay_out_board(struct ls_board *board, int workers, int group_size, struct ls_segment_part *parts) {
    size_t count = (size_t)workers;
    *board = (struct ls_board){.small = ls_shared_small_bytes(group_size), .stage = ls_shared_stage_bytes(workers)};
    board->smalls = count * sizeof(struct ls_control);
    size_t front = board->smalls + count * 2 * board->small;
    board->stages = (front + PAGE - 1) / PAGE * PAGE;
    board->stage_stride = stride_of(2 * board->stage, workers);
    parts[0] = (struct ls_segment_part){0, front};
    for (size_t i = 0; i < count; i++)
        parts[i + 1] = (struct ls_segment_part){board->stages + i * board->stage_stride, 2 * board->stage};
}

static ls_status open_board(struct ls_discover *attempt, struct ls_board *board) {
    int workers = ls_discover_count(attempt), count = workers + 1;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_segment_part, parts, (size_t)count, "shared memory");
    lay_out_board(board, workers, attempt->ranks->size, parts);
    ls_status status = ls_discover_segment(attempt, parts, count, &board->segment);
    if (!status) populate(&board->segment, parts, count, workers);
    return status;
}

static ls_status open_host(struct ls_board *board, const struct ls_discover_ranks *ranks,
                           const struct ls_shared_options *options, struct ls_shared **shared) {
    if (ls_hosts_members(ranks->hosts, ranks->hosts->host[ranks->rank]) == 1) return LS_OK;
    ls_status status = make_memory(ranks->hosts, ranks->rank, shared);
    if (status) return status;
    (*shared)->executor = options->executor;
    (*shared)->schedule = options->schedule;
    (*shared)->board = *board;
    board->segment.memory = NULL;
    return LS_OK;
}

static ls_status try_open(struct ls_discover *attempt, const struct ls_shared_options *options,
                          struct ls_shared **shared, struct ls_shared_reason *reason) {
    struct ls_board board = {0};
    struct ls_hosts found = {0};
    ls_status status = ls_discover_places(attempt, options->wanted, options->pretended_host);
    if (!status) status = open_board(attempt, &board);
    if (!status) status = ls_discover_hosts(attempt, &found);
    if (!status) {
        ls_discover_explain(attempt, false, reason->text, sizeof(reason->text));
        ls_hosts_free(attempt->ranks->hosts);
        *attempt->ranks->hosts = found;
        status = open_host(&board, attempt->ranks, options, shared);
    }
    ls_segment_unmap(&board.segment);
    return status;
}

ls_status ls_shared_open(const struct ls_discover_ranks *ranks, const struct ls_shared_options *options,
                         struct ls_shared **shared, struct ls_shared_reason *reason) {
    struct ls_discover attempt;
    ls_status status = ls_discover_init(&attempt, ranks);
    if (status) return status;
    status = try_open(&attempt, options, shared, reason);
    ls_discover_free(&attempt);
    return status;
}

void ls_shared_free(struct ls_shared *shared) {
    if (!shared) return;
    while (shared->regions) {
        struct ls_region *next = shared->regions->next;
        unmap_region(shared->regions);
        shared->regions = next;
    }
    ls_segment_unmap(&shared->board.segment);
    ls_free(shared->roles);
    ls_free(shared->leaves);
    ls_free(shared->targets);
    ls_free(shared);
}

/* ---- regions ---- */

/* The parts of a host's workers, of which each says its size; they lie past the end of memory if there are no addresses
 * for them. */
static void cut_region(struct ls_region *region, const struct ls_shared *shared, const uint64_t *sizes) {
    size_t most = 0;
    for (int i = 0; i < shared->size; i++)
        if (sizes[shared->members[i]] > most) most = sizes[shared->members[i]];
    size_t stride = stride_of(most, shared->size), end;
    bool fits = stride && !__builtin_mul_overflow(stride, (size_t)shared->size, &end);
    for (int i = 0; i < shared->size; i++)
        region->parts[i] = (struct ls_segment_part){fits ? (size_t)i * stride : PTRDIFF_MAX,
                                                    fits ? (size_t)sizes[shared->members[i]] : 0};
}

/* *region stays NULL where it is not shared. */
static ls_status make_region(struct ls_discover *attempt, const struct ls_shared *shared, const uint64_t *sizes,
                             struct ls_region **region) {
    int workers = shared ? shared->size : 0;
    struct ls_region *made = ls_alloc(sizeof(*made) + (size_t)workers * sizeof(made->parts[0]));
    if (!made) return ls_fail_memory("a shared region", sizeof(*made));
    if (shared) cut_region(made, shared, sizes);
    ls_status status = ls_discover_segment(attempt, made->parts, workers, &made->segment);
    if (!status && shared && ls_discover_succeeded(attempt)) {
        populate(&made->segment, made->parts, workers, workers);
        *region = made;
    } else {
        unmap_region(made);
    }
    return status;
}

static ls_status try_allocate(struct ls_discover *attempt, const struct ls_shared *shared, size_t bytes,
                              struct ls_region **region) {
    size_t size = (size_t)attempt->ranks->size;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(uint64_t, sizes, size, "a shared region");
    sizes[attempt->ranks->rank] = bytes;
    ls_status status = ls_discover_gather(attempt, "shared memory: sizes", sizes, sizeof(*sizes));
    return status ? status : make_region(attempt, shared, sizes, region);
}

/* Every rank finds the same verdict in the table of outcomes, so all of a host add a region or none does. id counts
 * such regions, and is therefore the same on all workers of the host with no exchange. */
ls_status ls_shared_allocate(struct ls_shared *shared, const struct ls_discover_ranks *ranks, size_t bytes,
                             void **memory, struct ls_shared_reason *reason) {
    struct ls_discover attempt;
    struct ls_region *region = NULL;
    *memory = NULL;
    ls_status status = ls_discover_init(&attempt, ranks);
    if (status) return status;
    ls_discover_follow(&attempt);
    status = try_allocate(&attempt, shared, bytes, &region);
    if (!status) ls_discover_explain(&attempt, true, reason->text, sizeof(reason->text));
    ls_discover_free(&attempt);
    if (status || !region) return status;
    region->id = shared->next_id++;
    region->next = shared->regions;
    shared->regions = region;
    *memory = ls_region_memory(region, shared->rank);
    return LS_OK;
}

bool ls_shared_release(struct ls_shared *shared, void *memory) {
    for (struct ls_region **at = &shared->regions; *at; at = &(*at)->next) {
        struct ls_region *region = *at;
        if (ls_region_memory(region, shared->rank) != memory) continue;
        *at = region->next;
        unmap_region(region);
        return true;
    }
    return false;
}

const struct ls_region *ls_shared_find(const struct ls_shared *shared, const void *memory, size_t bytes,
                                       uint64_t *offset) {
    uintptr_t at = (uintptr_t)memory;
    for (const struct ls_region *region = shared->regions; region; region = region->next) {
        uintptr_t base = (uintptr_t)ls_region_memory(region, shared->rank);
        size_t size = region->parts[shared->rank].size;
        if (at < base || at - base > size || bytes > size - (at - base)) continue;
        *offset = at - base;
        return region;
    }
    return NULL;
}
