/* Who can map whose memory, found out by trying. What each rank found is told to all, so that all draw the same
 * conclusions from the same table. */
#include "collective/attempt.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

enum { OPTED_OUT = -2 }; /* beside error numbers and LS_SEGMENT_ELSEWHERE */

/* What each rank tells: its segment. */
struct ls_attempt_offer {
    struct ls_segment_address address;
    int32_t error, host; /* error 0: there is a segment; the pretended host */
};

static bool allocate(struct ls_attempt *attempt) {
    size_t size = (size_t)attempt->size;
    attempt->counts = ls_alloc_array(size, sizeof(*attempt->counts));
    attempt->offers = ls_alloc_array(size, sizeof(*attempt->offers));
    attempt->errors = ls_alloc_array(size * size, sizeof(*attempt->errors));
    attempt->segments = ls_alloc_array(size, sizeof(*attempt->segments));
    return attempt->counts && attempt->offers && attempt->errors && attempt->segments;
}

void ls_attempt_end(struct ls_attempt *attempt) {
    for (int i = 0; attempt->segments && i < attempt->size; i++) ls_segment_unmap(&attempt->segments[i]);
    ls_free(attempt->counts);
    ls_free(attempt->offers);
    ls_free(attempt->errors);
    ls_free(attempt->segments);
}

/* Every rank's entry of an array to all. */
static ls_status gather(struct ls_attempt *attempt, const char *name, void *entries, size_t entry) {
    for (int i = 0; i < attempt->size; i++) attempt->counts[i] = entry / sizeof(int32_t);
    return ls_group_all_gather(attempt->group, name, LS_INT32, (char *)entries + (size_t)attempt->rank * entry,
                               attempt->counts, entries);
}

static bool same_host(const struct ls_attempt *attempt, int a, int b) {
    return !attempt->hosts || attempt->hosts->host[a] == attempt->hosts->host[b];
}

static int open_one(struct ls_attempt *attempt, int rank) {
    const struct ls_attempt_offer *offer = &attempt->offers[rank];
    if (offer->error || rank == attempt->rank) return offer->error;
    if (offer->host != attempt->offers[attempt->rank].host) return LS_SEGMENT_ELSEWHERE;
    return ls_segment_open(&offer->address, rank, &attempt->segments[rank]);
}

static int32_t *error_at(const struct ls_attempt *attempt, int rank, int peer) {
    return &attempt->errors[(size_t)rank * (size_t)attempt->size + (size_t)peer];
}

static ls_status try(struct ls_attempt *attempt, const struct ls_attempt_options *options) {
    struct ls_attempt_offer *own = &attempt->offers[attempt->rank];
    own->address.fd = -1;
    own->host = options->pretended_host;
    own->error = options->wanted
                     ? ls_segment_make(options->bytes, attempt->rank, &attempt->segments[attempt->rank], &own->address)
                     : OPTED_OUT;
    struct ls_segment_address address = own->address;
    ls_status status = gather(attempt, "shared memory: segments", attempt->offers, sizeof(*own));
    if (!status) {
        for (int i = 0; i < attempt->size; i++)
            if (same_host(attempt, attempt->rank, i)) *error_at(attempt, attempt->rank, i) = open_one(attempt, i);
        status = gather(attempt, "shared memory: outcomes", attempt->errors,
                        (size_t)attempt->size * sizeof(*attempt->errors));
    }
    ls_segment_hide(&address);
    return status;
}

ls_status ls_attempt_begin(struct ls_attempt *attempt, struct ls_group *group,
                           const struct ls_attempt_options *options) {
    *attempt = (struct ls_attempt){
        .group = group, .hosts = options->hosts, .rank = ls_group_rank(group), .size = ls_group_size(group)};
    if (!allocate(attempt))
        return ls_fail_memory("an attempt at shared memory", (size_t)attempt->size * sizeof(*attempt->offers));
    return try(attempt, options);
}

/* ---- conclusions ---- */

static void explain(const struct ls_attempt *attempt, int rank, int peer, char *reason, size_t size) {
    int made = attempt->offers[peer].error, error = *error_at(attempt, rank, peer);
    if (made == OPTED_OUT)
        (void)snprintf(reason, size, "rank %d is set to tcp", peer);
    else if (made)
        (void)snprintf(reason, size, "rank %d cannot make a segment: %s", peer, strerror(made));
    else
        (void)snprintf(reason, size, "rank %d cannot open the segment of rank %d: %s", rank, peer,
                       error == LS_SEGMENT_ELSEWHERE ? "it is not on this host" : strerror(error));
}

/* The first failure among the ranks of a host; of all where attempt->hosts is NULL. */
static bool find_failure(const struct ls_attempt *attempt, char *reason, size_t size) {
    for (int i = 0; i < attempt->size; i++)
        for (int j = 0; j < attempt->size; j++) {
            if (!same_host(attempt, attempt->rank, i) || !same_host(attempt, i, j) || !*error_at(attempt, i, j))
                continue;
            explain(attempt, i, j, reason, size);
            return true;
        }
    return false;
}

bool ls_attempt_succeeded(const struct ls_attempt *attempt, char *reason, size_t size) {
    return !find_failure(attempt, reason, size);
}

/* Whether rank and each of those before it on the host of that lowest rank can open each other's. */
static bool could_join(const struct ls_attempt *attempt, const int *lowest, int host, int rank) {
    for (int i = host; i < rank; i++)
        if (lowest[i] == host && (*error_at(attempt, i, rank) || *error_at(attempt, rank, i))) return false;
    return !*error_at(attempt, rank, rank);
}

static void place(const struct ls_attempt *attempt, int *lowest) {
    for (int rank = 0; rank < attempt->size; rank++) {
        lowest[rank] = rank;
        for (int host = 0; host < rank && lowest[rank] == rank; host++)
            if (lowest[host] == host && could_join(attempt, lowest, host, rank)) lowest[rank] = host;
    }
}

ls_status ls_attempt_hosts(const struct ls_attempt *attempt, struct ls_hosts *hosts, char *reason, size_t size) {
    LS_CLEANUP(ls_free_pointer) int *lowest = ls_alloc_array((size_t)attempt->size, sizeof(int));
    if (!lowest) return ls_fail_memory("a table of hosts", (size_t)attempt->size * sizeof(int));
    place(attempt, lowest);
    (void)find_failure(attempt, reason, size);
    return ls_hosts_init(hosts, attempt->size, lowest);
}

struct ls_segment ls_attempt_take(struct ls_attempt *attempt, int rank) {
    struct ls_segment taken = attempt->segments[rank];
    attempt->segments[rank] = (struct ls_segment){0};
    return taken;
}
