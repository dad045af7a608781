/* The memory that the workers of a host map. The board is one segment for all: a control block a worker, through which
 * they meet, small slots and stages. A region is one segment of ls_group_share: a part a worker.
 *
 * Memory of the board for n workers of a host and g of the group: n * (sizeof(struct ls_control) +
 * 2 * ls_shared_small_bytes(g) + 2 * ls_shared_stage_bytes(n)). From 32 workers on that is below 64 KB a worker. A
 * worker maps pages of the board as it uses them. It maps its own part of a region and, from LS_SHARED_FEW workers on,
 * only those pages of the others' parts that it adds. */
#pragma once
#include <stdatomic.h>

#include "base/status.h"
#include "collective/run/frame.h"
#include "collective/shm/discover.h"
#include "collective/shm/segment.h"

enum {
    LS_SHARED_LEAVES = 64, /* of one worker, at most; calls with more go over the links */
    LS_SHARED_FEW = 4,     /* so many workers of a host map all memory at once */
};

/* Bytes for the leaves of a small call of a worker; every rank of a group of that size finds the same. */
static inline size_t ls_shared_small_bytes(int group_size) {
    size_t most = 64 * 1024, least = 1024, share = 4 * most / (size_t)group_size / 64 * 64;
    return share > most ? most : share < least ? least : share;
}
/* Bytes for a piece of the leaves of a call on private memory; at least a line for each worker of the host. */
static inline size_t ls_shared_stage_bytes(int workers) {
    size_t n = (size_t)workers, most = 512 * 1024, least = 16 * 1024, share = (20 << 20) / (n * n) / 64 * 64;
    if (share > most) return most;
    if (share < least) share = least;
    return share > n * 64 ? share : n * 64;
}
/* The description of a worker's call for the other workers. The worker writes it before it arrives; the others read it
 * after all have arrived. It may be overwritten when all have arrived at the next call. */
struct ls_shared_post {
    struct ls_frame frame;
    int32_t region; /* the region of all its leaves; -1 if they lie in private memory, or not in place */
    uint64_t offsets[LS_SHARED_LEAVES]; /* of its leaves in the region */
};

/* The memory of notice.c. */
enum { LS_NOTICE_GONE = -1 };
struct ls_notice {
    _Atomic uint64_t called; /* the sequence + 1 of the call over links that frame is of; 0: of none */
    struct ls_frame frame;
    _Atomic int32_t ended; /* the status for which no call comes any more; LS_NOTICE_GONE: it has freed its group */
    char cause[LS_ERROR_SIZE];
};

/* One cache line, which the others of the host read of a worker in every call. A worker writes the line of a call until
 * it has come to the call's last turn. It writes it again two calls later, when all have come to the call between. */
enum { LS_ARRIVAL_BYTES = 48 };
struct ls_arrival {
    _Alignas(64) _Atomic uint64_t turn;    /* the last one that the worker has come to in the call */
    uint64_t digest;                       /* of the frame of its post */
    unsigned char small[LS_ARRIVAL_BYTES]; /* its leaf, where each worker has one of no more bytes */
};
_Static_assert(sizeof(struct ls_arrival) == 64, "one cache line");

/* A worker's control block. Words that different workers write lie in lines of their own. */
struct ls_control {
    struct ls_arrival arrivals[2];          /* used in turns, by call */
    _Alignas(64) _Atomic int32_t processor; /* on which it came last; written where it is another one */
    /* of the first worker's only: */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t wakes;              /* the futex */
    _Atomic uint64_t woken;              /* the last turn for which somebody has woken the sleepers */
    _Alignas(64) _Atomic uint64_t taken; /* blocks, and vain attempts, of all calls */
    _Alignas(64) _Atomic uint64_t done;
    _Alignas(64) struct ls_notice notice;
    _Alignas(64) struct ls_shared_post posts[2]; /* used in turns */
};

/* Memory of every worker of the host, mapped here. */
struct ls_region {
    struct ls_region *next;
    int32_t id; /* the same on all workers of the host */
    struct ls_segment segment;
    struct ls_segment_part parts[]; /* [size] */
};

struct ls_board {
    struct ls_segment segment;
    size_t small, stage;         /* bytes of a slot, of a stage */
    size_t smalls;               /* the offset of the slots: two a worker */
    size_t stages, stage_stride; /* likewise of the stages; from a worker's to the next one's */
};

struct ls_executor;
struct ls_shared {
    int rank, size;               /* within the host */
    struct ls_executor *executor; /* of the group: clock, abort flag and links, by which trouble is heard of */
    struct ls_schedule *schedule; /* of the group: for what comes over links */
    const int *members;           /* [size] their ranks in the group, ascending; borrowed */
    unsigned char *roles;         /* [size of the group] of enum ls_role: only this host's workers take part */
    struct ls_board board;
    struct ls_region *regions;
    int32_t next_id;
    uint64_t turn, calls;
    int parity;              /* of the present call */
    int awaited;             /* in this turn those before have come */
    bool blocks;             /* this meeting waits for all blocks, not for all workers */
    uint64_t taken, done;    /* the counters of blocks: taken before this call, done after it */
    int processors;          /* that this process may use */
    int64_t moved;           /* when this thread last went to another processor */
    unsigned char **leaves;  /* [LS_SHARED_LEAVES a rank of the group]: of the call in progress, in leaf order */
    unsigned char **targets; /* likewise */
};

static inline struct ls_control *ls_shared_control(const struct ls_shared *shared, int rank) {
    return (struct ls_control *)(void *)shared->board.segment.memory + rank;
}
static inline struct ls_arrival *ls_shared_arrival(const struct ls_shared *shared, int rank) {
    return &ls_shared_control(shared, rank)->arrivals[shared->parity];
}
/* Two of each, used in turns. */
static inline unsigned char *ls_shared_small(const struct ls_shared *shared, int rank, int parity) {
    const struct ls_board *board = &shared->board;
    return board->segment.memory + board->smalls + (2 * (size_t)rank + (size_t)parity) * board->small;
}
static inline unsigned char *ls_shared_stage(const struct ls_shared *shared, int rank, int half) {
    const struct ls_board *board = &shared->board;
    return board->segment.memory + board->stages + (size_t)rank * board->stage_stride + (size_t)half * board->stage;
}
static inline unsigned char *ls_region_memory(const struct ls_region *region, int rank) {
    return region->segment.memory + region->parts[rank].offset;
}

/* Empty, or why memory is not shared. */
struct ls_shared_reason {
    char text[256];
};
/* Collective: finds the hosts, equal on all ranks; *shared is NULL where a rank is alone on its own. wanted: this rank
 * gives memory. reason says why not all are on one. */
struct ls_shared_options {
    bool wanted;
    int pretended_host; /* other ranks of the same number only are on this host */
    struct ls_executor *executor;
    struct ls_schedule *schedule;
};
ls_status ls_shared_open(const struct ls_discover_ranks *ranks, const struct ls_shared_options *options,
                         struct ls_shared **shared, struct ls_shared_reason *reason);
void ls_shared_free(struct ls_shared *shared);
/* Collective, of all hosts; shared is NULL for a rank that is alone on its own. *memory is NULL when it could not be
 * had on all workers of the host. */
ls_status ls_shared_allocate(struct ls_shared *shared, const struct ls_discover_ranks *ranks, size_t bytes,
                             void **memory, struct ls_shared_reason *reason);
/* False if memory is none of ls_shared_allocate. */
bool ls_shared_release(struct ls_shared *shared, void *memory);
/* The region that holds bytes at memory, and their offset in it; NULL if no region holds them. */
const struct ls_region *ls_shared_find(const struct ls_shared *shared, const void *memory, size_t bytes,
                                       uint64_t *offset);
