/* The memory that the workers of a host map: a control segment a worker, through which they meet, and the regions of
 * ls_group_share. */
#pragma once
#include <stdatomic.h>

#include "collective/frame.h"
#include "collective/group.h"
#include "collective/hosts.h"
#include "collective/segment.h"

enum {
    LS_SHARED_LEAVES = 64,        /* of one worker, at most; calls with more go over the links */
    LS_SHARED_SMALL = 64 * 1024,  /* bytes for the leaves of a small call */
    LS_SHARED_STAGE = 512 * 1024, /* bytes for a piece of the leaves of a call on private memory */
};

/* What a worker tells the others of its call. Written before it arrives, read after all have arrived; it may be written
 * anew when all have arrived at the next call. */
struct ls_shared_post {
    struct ls_frame frame;
    int32_t region;                     /* where all its leaves lie; -1: in private memory, or not in place */
    uint64_t offsets[LS_SHARED_LEAVES]; /* of its leaves in the region */
};

/* A worker's control segment. Words that different workers write lie in lines of their own. */
struct ls_control {
    _Alignas(64) _Atomic uint64_t arrived; /* the last turn that this worker has come to */
    uint64_t digests[2];                   /* of the frames of the posts below */
    _Atomic int32_t processor;             /* on which it was then */
    /* of the first worker's segment only: */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t wakes;              /* the futex */
    _Alignas(64) _Atomic uint64_t taken; /* blocks, and vain attempts, of all calls */
    _Alignas(64) _Atomic uint64_t done;
    /* two of each, used in turns */
    _Alignas(64) struct ls_shared_post posts[2];
    _Alignas(64) unsigned char small[2][LS_SHARED_SMALL];
    _Alignas(64) unsigned char stage[2][LS_SHARED_STAGE];
};

/* Memory of every worker of the host, mapped here. */
struct ls_region {
    struct ls_region *next;
    int32_t id;                   /* the same on all workers of the host */
    struct ls_segment segments[]; /* [size] */
};

struct ls_shared {
    int rank, size;       /* within the host */
    const int *members;   /* [size] their ranks in the group, ascending; borrowed */
    unsigned char *roles; /* [size of the group] of enum ls_role: only this host's workers take part */
    struct ls_region *control;
    struct ls_region *regions;
    int32_t next_id;
    uint64_t turn, calls;
    int awaited;             /* in this turn those before have come */
    bool blocks;             /* what is awaited is not all workers but all blocks */
    uint64_t taken, done;    /* what the counters of blocks are: before this call's, after */
    int processors;          /* that this process may use */
    int64_t moved;           /* when this thread last went to another processor */
    unsigned char **leaves;  /* [LS_SHARED_LEAVES a rank of the group]: of the call in progress, in leaf order */
    unsigned char **targets; /* likewise */
};

static inline struct ls_control *ls_shared_control(const struct ls_shared *shared, int rank) {
    return (struct ls_control *)(void *)shared->control->segments[rank].memory;
}

/* Collective: finds the hosts, equal on all ranks; *shared is NULL where a rank is alone on its own. reason says why
 * not all are on one. */
ls_status ls_shared_open(struct ls_group *group, bool wanted, struct ls_hosts *hosts, struct ls_shared **shared,
                         char *reason, size_t size);
void ls_shared_free(struct ls_shared *shared);
/* Collective, of all hosts; shared is NULL for a rank that is alone on its own. *memory is NULL when it could not be
 * had on all workers of the host. */
ls_status ls_shared_allocate(struct ls_shared *shared, struct ls_group *group, size_t bytes, void **memory,
                             char *reason, size_t size);
/* False if memory is none of ls_shared_allocate. */
bool ls_shared_release(struct ls_shared *shared, void *memory);
/* The region in which bytes at memory lie and where; NULL: in none. */
const struct ls_region *ls_shared_find(const struct ls_shared *shared, const void *memory, size_t bytes,
                                       uint64_t *offset);
