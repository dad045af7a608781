/* Which ranks can map each other's memory, found out by trying. Ranks of one place (kernel, process numbers, user) are
 * candidates for a host. The lowest of them, the leader, makes one segment for all and sends its address. The others
 * open it, and all tell all the outcome. A call costs each rank as many bytes as there are ranks, and one descriptor
 * until its end. */
#pragma once
#include <lockstep/lockstep.h>

#include "collective/schedule/hosts.h"
#include "collective/shm/segment.h"

/* The ranks of a group that cannot meet in memory yet, and how they tell each other. */
struct ls_discover_ranks {
    int rank, size;
    struct ls_hosts *hosts; /* as far as they are known */
    ls_status (*all_gather)(void *context, const ls_all_gather_options *call);
    void *context;
};

struct ls_discover {
    const struct ls_discover_ranks *ranks;
    int *leader;     /* [size] of each rank; itself where it leads, or is alone */
    int32_t *wanted; /* [size] 0: the rank gives no memory */
    int32_t *errors; /* [size] of a leader's attempt to make the segment, of another rank's to open it */
};
ls_status ls_discover_init(struct ls_discover *attempt, const struct ls_discover_ranks *ranks);
void ls_discover_free(struct ls_discover *attempt);
/* Collective. Sets the leaders by place. Ranks of different pretended hosts are at different places. */
ls_status ls_discover_places(struct ls_discover *attempt, bool wanted, int pretended_host);
/* The leaders are the first members of the hosts. */
void ls_discover_follow(struct ls_discover *attempt);
/* The number of ranks that have this one's leader. */
int ls_discover_count(const struct ls_discover *attempt);
/* One entry of bytes, a multiple of 4, from every rank to all; the own one is in its place. Collective. */
ls_status ls_discover_gather(const struct ls_discover *attempt, const char *name, void *entries, size_t bytes);
/* Collective: makes or opens the segment with these parts, which all ranks of a leader give alike. segment is not
 * mapped after an error of this rank's, and where the rank is alone. */
ls_status ls_discover_segment(struct ls_discover *attempt, const struct ls_segment_part *parts, int count,
                              struct ls_segment *segment);
/* After ls_discover_segment: ranks that share their leader's segment are on one host. */
ls_status ls_discover_hosts(const struct ls_discover *attempt, struct ls_hosts *hosts);
/* True if every rank of this rank's leader has the segment. */
bool ls_discover_succeeded(const struct ls_discover *attempt);
/* Why not all ranks are on one host; within_host: why this rank's leader's ranks do not share. Empty if they do. */
void ls_discover_explain(const struct ls_discover *attempt, bool within_host, char *reason, size_t size);
