/* Which ranks reach each other through memory: the ranks of a host. Pure arithmetic, equal on every rank. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_hosts {
    int size, count; /* ranks, hosts */
    int *host;       /* [size] of each rank; hosts are numbered by their lowest rank */
    int *index;      /* [size] of each rank within its host */
    int *start;      /* [count + 1]: host h has members [start[h], start[h + 1]) */
    int *members;    /* [size] ranks, by host, ascending */
};
/* lowest[rank] is the lowest rank on rank's host; it is NULL if every rank is a host of its own. */
ls_status ls_hosts_init(struct ls_hosts *hosts, int size, const int *lowest);
void ls_hosts_free(struct ls_hosts *hosts);

static inline int ls_hosts_members(const struct ls_hosts *hosts, int host) {
    return hosts->start[host + 1] - hosts->start[host];
}
/* The rank of host that exchanges with rank, of another host: the one of equal index, where host has as many ranks. */
static inline int ls_hosts_delegate(const struct ls_hosts *hosts, int host, int rank) {
    return hosts->members[hosts->start[host] + hosts->index[rank] % ls_hosts_members(hosts, host)];
}
