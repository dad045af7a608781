/* Counting over a table of hosts, which the members of a generation have in common. */
#include "runtime/runtime.h"

#include "base/need.h"
#include "runtime/communicator.h"

struct places {
    int local_rank, local_size; /* among the ranks on this host */
    int cross_rank, cross_size; /* among the hosts that have a rank of this local rank, by their first ranks */
    bool homogeneous;           /* all hosts have as many ranks */
};

/* Equal for ranks of one host. A rank of a set that is not in this generation is on none. */
static uint64_t host_of(const struct ls_ranks *ranks, int place) {
    int rank = ranks->members ? ranks->members[place] : place;
    if (rank < 0) return UINT64_MAX;
    return ranks->runtime->cluster ? ls_cluster_host(ranks->runtime->cluster, rank) : 0;
}

/* The ranks of place's host before end. */
static int count_on_host(const struct ls_ranks *ranks, int end, int place) {
    int count = 0;
    for (int i = 0; i < end; i++) count += host_of(ranks, i) == host_of(ranks, place);
    return count;
}

static struct places find_places(const struct ls_ranks *ranks) {
    int count = ranks->size, own = ranks->rank;
    struct places places = {.local_rank = count_on_host(ranks, own, own),
                            .local_size = count_on_host(ranks, count, own),
                            .homogeneous = true};
    uint64_t host = host_of(ranks, own);
    bool passed = false; /* the first rank of the own host */
    for (int i = 0; i < count; i++) {
        if (count_on_host(ranks, i, i)) continue; /* not the first of its host */
        int size = count_on_host(ranks, count, i);
        passed |= host_of(ranks, i) == host;
        places.homogeneous &= size == places.local_size;
        places.cross_size += size > places.local_rank;
        places.cross_rank += size > places.local_rank && !passed;
    }
    return places;
}

int ls_local_rank(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return count_on_host(communicator->ranks, communicator->ranks->rank, communicator->ranks->rank);
}

int ls_local_size(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return count_on_host(communicator->ranks, communicator->ranks->size, communicator->ranks->rank);
}

int ls_cross_rank(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return find_places(communicator->ranks).cross_rank;
}

int ls_cross_size(const ls_communicator *communicator) {
    LS_NEED_OR(0, communicator);
    return find_places(communicator->ranks).cross_size;
}

bool ls_is_homogeneous(const ls_communicator *communicator) {
    LS_NEED_OR(false, communicator);
    return find_places(communicator->ranks).homogeneous;
}
