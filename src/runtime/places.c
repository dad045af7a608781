/* Counting over a table of hosts, which the members of a generation have in common. */
#include "runtime/runtime.h"

#include "base/need.h"
#include "runtime/communicator.h"

/* Equal for ranks of one host. A rank of a set that is not in this generation is on none. */
static uint64_t host_of(const struct ls_runtime *runtime, const int *ranks, int place) {
    int rank = ranks ? ranks[place] : place;
    if (rank < 0) return UINT64_MAX;
    return runtime->cluster ? ls_cluster_host(runtime->cluster, rank) : 0;
}

/* The ranks of place's host before end. */
static int count_on_host(const struct ls_runtime *runtime, const int *ranks, int end, int place) {
    int count = 0;
    for (int i = 0; i < end; i++) count += host_of(runtime, ranks, i) == host_of(runtime, ranks, place);
    return count;
}

struct ls_places ls_places_find(const struct ls_runtime *runtime, const int *ranks, int count, int own) {
    struct ls_places places = {.local_rank = count_on_host(runtime, ranks, own, own),
                               .local_size = count_on_host(runtime, ranks, count, own),
                               .homogeneous = true};
    uint64_t host = host_of(runtime, ranks, own);
    bool passed = false; /* the first rank of the own host */
    for (int i = 0; i < count; i++) {
        if (count_on_host(runtime, ranks, i, i)) continue; /* not the first of its host */
        int size = count_on_host(runtime, ranks, count, i);
        passed |= host_of(runtime, ranks, i) == host;
        places.homogeneous &= size == places.local_size;
        places.cross_size += size > places.local_rank;
        places.cross_rank += size > places.local_rank && !passed;
    }
    return places;
}

static struct ls_places places_of(const ls_communicator *communicator) {
    const struct ls_runtime *runtime = communicator->runtime;
    return ls_places_find(runtime, runtime->members, runtime->size, runtime->rank);
}

int ls_cross_rank(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return places_of(communicator).cross_rank;
}

int ls_cross_size(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return places_of(communicator).cross_size;
}

bool ls_is_homogeneous(const ls_communicator *communicator) {
    LS_NEED_OR(false, communicator);
    return places_of(communicator).homogeneous;
}
