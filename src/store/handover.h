/* The beginning of a generation: workers and servers tell what they have, and the servers take what they lack. Every
 * rank computes the same plan from what all have told. */
#pragma once
#include "collective/group.h"
#include "shard/part.h"
#include "store/memory_check.h"

/* Variables that a program has set since the servers took them. */
enum ls_changed {
    LS_CHANGED_NOTHING,
    LS_CHANGED_VARIABLES,
    LS_CHANGED_ALL,   /* and moments */
    LS_CHANGED_COPIED /* this worker has copied another one's variables, and knows nothing of them */
};
/* A server may have two divisions of the same variables, where a loss came while they were divided anew. */
struct ls_kept {
    struct ls_holding *holding; /* NULL: nothing */
    int64_t layout;             /* the generation in which it was divided */
    uint64_t digest;            /* of its terms */
};
/* This rank's part: a worker has blobs, a server has what it keeps. */
struct ls_handover {
    struct ls_group *group;             /* of workers and servers */
    const struct ls_terms_model *terms; /* of this generation */
    int64_t version;                    /* a worker: steps that are in its variables */
    enum ls_changed changed;            /* a worker; then, set by the call, what has changed on all workers */
    float *blobs[1 + LS_MAX_MOMENTS]; /* a worker: [count] the variables, and where they have changed the moments; NULL:
                                         they are zero */
    const struct ls_shard_part *tables; /* a worker, where all have changed: [1 + moments][tables]; NULL: they are as
                                     before the first step */
    struct ls_memory_need need;         /* a server */
    struct ls_kept kept[2];             /* a server: what it has; then the first alone, unless the call failed */
    bool returns;                       /* a worker: it can begin anew, from a checkpoint */
    int listed;                         /* servers of the cluster, whether they are here or not */
    bool awaited;                       /* the group has waited for all of them */
    bool lost;                          /* set by the call: no server has the moments any more */
    bool anew;                          /* set by the call in its place, where all workers return */
    bool waits;                         /* set by the call: no server here has the moments, but a missing server may */
    size_t moved;                       /* bytes that servers took or drew; set by the call */
};
/* By all ranks. UNAVAILABLE: lost, anew, or waits. RESOURCE_EXHAUSTED, on all: a server's need. */
ls_status ls_handover_run(struct ls_handover *handover, int64_t generation);
