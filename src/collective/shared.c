/* Finding out, by trying, whether all workers can map each other's memory: each makes a segment and tells its address
 * over the links, opens those of all others, and tells whether it could. Only if all could, all use it. */
#define _GNU_SOURCE
#include "collective/shared.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

enum { OPTED_OUT = -2 }; /* beside error numbers and LS_SEGMENT_ELSEWHERE */

/* What each rank tells: first its segment, then how it fared with the others'. */
struct offer {
    struct ls_segment_address address;
    int32_t error, unused; /* 0: there is a segment */
};
struct outcome {
    int32_t peer, error; /* the first that could not be opened; error 0: all could */
};

struct attempt {
    struct ls_group *group;
    int rank, size;
    struct ls_region *region;
    size_t *counts;           /* [size] */
    struct offer *offers;     /* [size] */
    struct outcome *outcomes; /* [size] */
};

static void unmap_region(struct ls_region *region, int size) {
    for (int i = 0; i < size; i++) ls_segment_unmap(&region->segments[i]);
    ls_free(region);
}

static ls_status begin(struct attempt *attempt, struct ls_group *group) {
    *attempt = (struct attempt){.group = group, .rank = ls_group_rank(group), .size = ls_group_size(group)};
    size_t size = (size_t)attempt->size;
    attempt->counts = ls_alloc_array(size, sizeof(*attempt->counts));
    attempt->offers = ls_alloc_array(size, sizeof(*attempt->offers));
    attempt->outcomes = ls_alloc_array(size, sizeof(*attempt->outcomes));
    attempt->region = ls_alloc(sizeof(*attempt->region) + size * sizeof(attempt->region->segments[0]));
    if (attempt->counts && attempt->offers && attempt->outcomes && attempt->region) return LS_OK;
    return ls_fail_memory("an attempt at shared memory", size * sizeof(*attempt->offers));
}

static void end(struct attempt *attempt) {
    ls_free(attempt->counts);
    ls_free(attempt->offers);
    ls_free(attempt->outcomes);
    if (attempt->region) unmap_region(attempt->region, attempt->size);
}

/* Every rank's entry of an array to all. */
static ls_status gather(struct attempt *attempt, const char *name, void *entries, size_t entry) {
    for (int i = 0; i < attempt->size; i++) attempt->counts[i] = entry / sizeof(int32_t);
    return ls_group_all_gather(attempt->group, name, LS_INT32, (char *)entries + (size_t)attempt->rank * entry,
                               attempt->counts, entries);
}

static struct outcome open_all(struct attempt *attempt) {
    for (int i = 0; i < attempt->size; i++) {
        int error = attempt->offers[i].error;
        if (!error && i != attempt->rank)
            error = ls_segment_open(&attempt->offers[i].address, &attempt->region->segments[i]);
        if (error) return (struct outcome){i, error};
    }
    return (struct outcome){-1, 0};
}

static void explain(const struct attempt *attempt, int rank, char *reason, size_t size) {
    struct outcome outcome = attempt->outcomes[rank];
    int made = outcome.peer >= 0 && outcome.peer < attempt->size ? attempt->offers[outcome.peer].error : 0;
    if (made == OPTED_OUT)
        (void)snprintf(reason, size, "rank %d is set to tcp", outcome.peer);
    else if (made)
        (void)snprintf(reason, size, "rank %d cannot make a segment: %s", outcome.peer, strerror(made));
    else
        (void)snprintf(reason, size, "rank %d cannot open the segment of rank %d: %s", rank, outcome.peer,
                       outcome.error == LS_SEGMENT_ELSEWHERE ? "it is not on this host" : strerror(outcome.error));
}

static bool succeeded(const struct attempt *attempt, char *reason, size_t size) {
    for (int i = 0; i < attempt->size; i++)
        if (attempt->outcomes[i].error) {
            explain(attempt, i, reason, size);
            return false;
        }
    return true;
}

static ls_status try(struct attempt *attempt, size_t bytes, bool wanted) {
    struct offer *own = &attempt->offers[attempt->rank];
    own->address.fd = -1;
    own->error = wanted ? ls_segment_make(bytes, &attempt->region->segments[attempt->rank], &own->address) : OPTED_OUT;
    struct ls_segment_address address = own->address;
    ls_status status = gather(attempt, "shared memory: segments", attempt->offers, sizeof(struct offer));
    if (!status) {
        attempt->outcomes[attempt->rank] = open_all(attempt);
        status = gather(attempt, "shared memory: outcomes", attempt->outcomes, sizeof(struct outcome));
    }
    ls_segment_hide(&address);
    return status;
}

/* *region is NULL when some rank could not. */
static ls_status map_everywhere(struct ls_group *group, size_t bytes, bool wanted, struct ls_region **region,
                                char *reason, size_t size) {
    struct attempt attempt;
    ls_status status = begin(&attempt, group);
    if (!status) status = try(&attempt, bytes, wanted);
    *region = NULL;
    if (!status && succeeded(&attempt, reason, size)) *region = ls_steal(attempt.region);
    end(&attempt);
    return status;
}

static int count_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
}

static ls_status new_shared(struct ls_group *group, struct ls_shared **shared) {
    struct ls_shared *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("shared memory", sizeof(*made));
    made->rank = ls_group_rank(group);
    made->size = ls_group_size(group);
    made->processors = count_processors();
    size_t leaves = (size_t)made->size * LS_SHARED_LEAVES;
    made->leaves = ls_alloc_array(leaves, sizeof(*made->leaves));
    made->targets = ls_alloc_array(leaves, sizeof(*made->targets));
    if (!made->leaves || !made->targets) {
        ls_shared_free(made);
        return ls_fail_memory("shared memory", leaves * sizeof(*made->leaves));
    }
    *shared = made;
    return LS_OK;
}

ls_status ls_shared_open(struct ls_group *group, bool wanted, struct ls_shared **shared, char *reason, size_t size) {
    struct ls_shared *made = NULL;
    ls_status status = new_shared(group, &made);
    if (!status) status = map_everywhere(group, sizeof(struct ls_control), wanted, &made->control, reason, size);
    if (status || !made->control) {
        ls_shared_free(made);
        made = NULL;
    }
    if (!status) *shared = made;
    return status;
}

void ls_shared_free(struct ls_shared *shared) {
    if (!shared) return;
    while (shared->regions) {
        struct ls_region *next = shared->regions->next;
        unmap_region(shared->regions, shared->size);
        shared->regions = next;
    }
    if (shared->control) unmap_region(shared->control, shared->size);
    ls_free(shared->leaves);
    ls_free(shared->targets);
    ls_free(shared);
}

ls_status ls_shared_allocate(struct ls_shared *shared, struct ls_group *group, size_t bytes, void **memory,
                             char *reason, size_t size) {
    struct ls_region *region = NULL;
    ls_status status = map_everywhere(group, bytes, true, &region, reason, size);
    if (status) return status;
    *memory = NULL;
    if (!region) return LS_OK;
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
