/* The memory that a host's workers share: its control segments and regions. Finding out who can map whose memory is
 * attempt.c's. */
#define _GNU_SOURCE
#include "collective/shared.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/attempt.h"
#include "collective/executor.h"
#include "collective/state.h"

static void unmap_region(struct ls_region *region, int size) {
    for (int i = 0; region && i < size; i++) ls_segment_unmap(&region->segments[i]);
    ls_free(region);
}

static int count_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
}

static bool allocate_lists(struct ls_shared *shared, int group_size) {
    size_t leaves = (size_t)group_size * LS_SHARED_LEAVES;
    shared->roles = ls_alloc((size_t)group_size);
    shared->leaves = ls_alloc_array(leaves, sizeof(*shared->leaves));
    shared->targets = ls_alloc_array(leaves, sizeof(*shared->targets));
    return shared->roles && shared->leaves && shared->targets;
}

static ls_status new_shared(const struct ls_hosts *hosts, int rank, struct ls_shared **shared) {
    struct ls_shared *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("shared memory", sizeof(*made));
    int host = hosts->host[rank];
    made->rank = hosts->index[rank];
    made->size = ls_hosts_members(hosts, host);
    made->members = &hosts->members[hosts->start[host]];
    made->processors = count_processors();
    if (!allocate_lists(made, hosts->size)) {
        ls_shared_free(made);
        return ls_fail_memory("shared memory", (size_t)hosts->size * LS_SHARED_LEAVES * sizeof(*made->leaves));
    }
    memset(made->roles, LS_ROLE_NONE, (size_t)hosts->size);
    for (int i = 0; i < made->size; i++) made->roles[made->members[i]] = LS_ROLE_PARTNER;
    *shared = made;
    return LS_OK;
}

/* The segments of this host's workers out of those of the attempt. */
static ls_status take_region(struct ls_attempt *attempt, const struct ls_shared *shared, struct ls_region **region) {
    struct ls_region *made = ls_alloc(sizeof(*made) + (size_t)shared->size * sizeof(made->segments[0]));
    if (!made) return ls_fail_memory("a shared region", sizeof(*made));
    for (int i = 0; i < shared->size; i++) made->segments[i] = ls_attempt_take(attempt, shared->members[i]);
    *region = made;
    return LS_OK;
}

static ls_status open_host(struct ls_attempt *attempt, const struct ls_hosts *hosts, int rank,
                           struct ls_shared **shared) {
    struct ls_shared *made = NULL;
    if (ls_hosts_members(hosts, hosts->host[rank]) == 1) return LS_OK;
    ls_status status = new_shared(hosts, rank, &made);
    if (!status) status = take_region(attempt, made, &made->control);
    if (status)
        ls_shared_free(made);
    else
        *shared = made;
    return status;
}

ls_status ls_shared_open(struct ls_group *group, bool wanted, struct ls_hosts *hosts, struct ls_shared **shared,
                         char *reason, size_t size) {
    struct ls_attempt attempt;
    struct ls_hosts found = {0};
    const struct ls_attempt_options options = {
        .bytes = sizeof(struct ls_control), .wanted = wanted, .pretended_host = group->pretended_host};
    ls_status status = ls_attempt_begin(&attempt, group, &options);
    if (!status) status = ls_attempt_hosts(&attempt, &found, reason, size);
    if (!status) {
        ls_hosts_free(hosts);
        *hosts = found;
        status = open_host(&attempt, hosts, ls_group_rank(group), shared);
    }
    ls_attempt_end(&attempt);
    return status;
}

void ls_shared_free(struct ls_shared *shared) {
    if (!shared) return;
    while (shared->regions) {
        struct ls_region *next = shared->regions->next;
        unmap_region(shared->regions, shared->size);
        shared->regions = next;
    }
    unmap_region(shared->control, shared->size);
    ls_free(shared->roles);
    ls_free(shared->leaves);
    ls_free(shared->targets);
    ls_free(shared);
}

ls_status ls_shared_allocate(struct ls_shared *shared, struct ls_group *group, size_t bytes, void **memory,
                             char *reason, size_t size) {
    struct ls_attempt attempt;
    struct ls_region *region = NULL;
    const struct ls_attempt_options options = {.bytes = bytes, .wanted = shared, .hosts = &group->hosts};
    *memory = NULL;
    ls_status status = ls_attempt_begin(&attempt, group, &options);
    if (!status && shared && ls_attempt_succeeded(&attempt, reason, size))
        status = take_region(&attempt, shared, &region);
    ls_attempt_end(&attempt);
    if (status || !region) return status;
    region->id = shared->next_id++;
    region->next = shared->regions;
    shared->regions = region;
    *memory = region->segments[shared->rank].memory;
    return LS_OK;
}

bool ls_shared_release(struct ls_shared *shared, void *memory) {
    for (struct ls_region **at = &shared->regions; *at; at = &(*at)->next) {
        struct ls_region *region = *at;
        if (region->segments[shared->rank].memory != memory) continue;
        *at = region->next;
        unmap_region(region, shared->size);
        return true;
    }
    return false;
}

const struct ls_region *ls_shared_find(const struct ls_shared *shared, const void *memory, size_t bytes,
                                       uint64_t *offset) {
    uintptr_t at = (uintptr_t)memory;
    for (const struct ls_region *region = shared->regions; region; region = region->next) {
        const struct ls_segment *own = &region->segments[shared->rank];
        uintptr_t base = (uintptr_t)own->memory;
        if (at < base || at - base > own->size || bytes > own->size - (at - base)) continue;
        *offset = at - base;
        return region;
    }
    return NULL;
}
