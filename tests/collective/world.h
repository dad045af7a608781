/* A world of ranks that are threads of the test, with links between every pair, and what became of each. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>

#include "collective/group.h"
#include "collective/servers/serve.h"
#include "harness.h"

#define MAX_RANKS 16

enum wire {
    WIRE_LOCAL,
    WIRE_TCP,   /* over 127.0.0.1 */
    WIRE_ODD,   /* local, but each send and receive moves only a few bytes, of odd number */
    WIRE_RING,  /* local, and a ring of bytes each way in memory: collective/link/shm.h */
    WIRE_SHARED /* local, and memory that all map */
};

struct world_options {
    int size;
    int servers;                      /* parameter servers beside them, which help */
    const struct ls_keeping *keeping; /* [servers] of what they keep; NULL: nothing */
    bool servers_fail;                /* and need not end as they do when the workers have finished */
    enum wire wire;
    double timeout; /* 0: 20 s */
    double report_interval;
    size_t segment, mail_limit;
    const struct ls_log *log;
    enum ls_transport transport;
    const int *hosts; /* [size] with WIRE_SHARED: the pretended host of each rank; NULL: all on one */
    enum ls_algorithm algorithm;
    int stray_rank; /* the rank whose group is different, in what is not 0: */
    uint64_t stray_generation;
    enum ls_transport stray_transport;
    int break_rank; /* with break_after: the links of this rank fail after it has sent so many bytes on one */
    size_t break_after;
    size_t help_breaks_after;  /* the same of its links in the group of workers and servers */
    bool stalls;               /* they do not fail then, but take nothing more */
    bool mail;                 /* messages between two ranks work */
    bool loses;                /* who returns an error is lost: all others, servers too, end with it */
    bool tells;                /* a failed call is told to all ranks, as by the control plane */
    size_t (*sent)[MAX_RANKS]; /* if not NULL: counts the bytes that row has sent to column; with servers, to help */
};

struct rank {
    int rank, size;
    struct ls_group *group;
    struct ls_abort *abort;
    void *context;
    pthread_barrier_t *barrier; /* of all ranks */
    /* afterwards */
    ls_status status;
    char error[1024];
};
typedef ls_status rank_fn(struct rank *rank);

struct world {
    struct rank ranks[MAX_RANKS];
};
/* Runs fn once a rank and waits for all; the groups are freed when all have returned. */
void world_run(const struct world_options *options, rank_fn *fn, void *context, struct world *world);
/* Asserts that every rank returned LS_OK. */
void world_expect_ok(const struct world *world, int size);
