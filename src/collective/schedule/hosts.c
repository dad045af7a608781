/* Hosts as arrays: members by host, and where each rank stands. */
#include "collective/schedule/hosts.h"

#include "base/memory.h"
#include "base/status.h"

static bool allocate_arrays(struct ls_hosts *hosts, size_t size) {
    hosts->host = ls_alloc_array(size, sizeof(int));
    hosts->index = ls_alloc_array(size, sizeof(int));
    hosts->start = ls_alloc_array(size + 1, sizeof(int));
    hosts->members = ls_alloc_array(size, sizeof(int));
    return hosts->host && hosts->index && hosts->start && hosts->members;
}

/* A rank that is its own lowest opens a host, so hosts are numbered by their lowest rank, and members of a host ascend.
 * Every rank computes the table from the same lowest, with no message. The cost is ranks times hosts. */
ls_status ls_hosts_init(struct ls_hosts *hosts, int size, const int *lowest) {
    *hosts = (struct ls_hosts){.size = size};
    if (!allocate_arrays(hosts, (size_t)size)) {
        ls_hosts_free(hosts);
        return ls_fail_memory("a table of hosts", (size_t)size * sizeof(int));
    }
    for (int rank = 0, placed = 0; rank < size; rank++) {
        if (lowest && lowest[rank] != rank) continue;
        int host = hosts->count++;
        hosts->start[host] = placed;
        for (int other = rank; other < size; other++) {
            if (other != rank && (!lowest || lowest[other] != rank)) continue;
            hosts->host[other] = host;
            hosts->index[other] = placed - hosts->start[host];
            hosts->members[placed++] = other;
        }
    }
    hosts->start[hosts->count] = size;
    return LS_OK;
}

void ls_hosts_free(struct ls_hosts *hosts) {
    ls_free(hosts->host);
    ls_free(hosts->index);
    ls_free(hosts->start);
    ls_free(hosts->members);
    *hosts = (struct ls_hosts){0};
}
