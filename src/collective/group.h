/* A group of workers that call collectives in the same order, over links that are made when a call first needs them.
 * One thread calls at a time. Every collective carries a fingerprint (sequence, kind, name, type, count, op, root): a
 * difference is an error that names both sides and both ranks. A failed collective leaves the group unusable (its abort
 * flag is raised), but for INVALID_ARGUMENT of what this rank alone can see (NULL, a type, op or root that is none,
 * counts that overflow): then the call has not happened here, the others wait for a right one, and the next call of
 * this rank takes its place. Adding runs in the calling thread, and keeps denormals whatever its mode. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "base/settings.h"
#include "collective/link/abort.h"
#include "collective/schedule/reduction.h"
#include "collective/run/call_record.h"
#include "collective/run/flight.h"
#include "collective/link/link_source.h"

struct ls_group;
/* The calls of a group to its owner. */
struct ls_group_hooks {
    /* Once, in the thread of the first call that fails, after it has ended; may be NULL. own: no other rank has told it
     * why. Then it is the caller's to tell those with whom this rank has no link. */
    void (*failed)(void *context, ls_status status, bool own);
    /* In the calling thread, of a call that has waited long among so many ranks that not all see its fingerprint: tells
     * the others in which call this rank waits. They compare it with their record. NULL: nobody is told. */
    void (*stalled)(void *context, uint64_t sequence, const unsigned char frame[LS_FRAME_SIZE]);
    void *context;
};
struct ls_group_config {
    int rank, size;
    struct ls_link_source *source; /* takes it on success; NULL when size is 1 */
    struct ls_link_source *mail;   /* likewise, one-way, for messages between two ranks; NULL: it sends none */
    int servers;                   /* of the ranks, the highest: parameter servers, which hold no leaf */
    const int *members;            /* [size] of a set: ranks of the whole group, borrowed; NULL: this is the whole */
    struct ls_abort *abort;        /* borrowed */
    const struct ls_log *log;      /* borrowed */
    uint64_t generation;
    double timeout;               /* seconds for one collective; 0 sets no limit */
    double report_interval;       /* seconds between log lines of a wait; 0 logs none */
    enum ls_transport transport;  /* for ls_group_connect */
    enum ls_algorithm algorithm;  /* of every all-reduce with LS_AUTO; AUTO: the fastest for each size */
    int direct_limit;             /* ranks up to which AUTO takes direct exchange; 0 means 32 */
    size_t mail_limit;            /* bytes of messages that have come and are not received; 0 means 1 GiB */
    size_t segment;               /* bytes moved and added at a time in pipelines; 0 means 256 KiB */
    size_t flight_record;         /* collectives that are remembered; 0 means 1024 */
    struct ls_activity *activity; /* borrowed; NULL if nothing is recorded */
    struct ls_group_hooks hooks;
    struct ls_call_record *record; /* borrowed; NULL: none is kept */
    int pretended_host;            /* for tests: ranks with different numbers are as on different hosts */
};
ls_status ls_group_new(const struct ls_group_config *config, struct ls_group **group);
void ls_group_free(struct ls_group *group); /* closes the links */
/* The all-reduce with parameter servers, of servers/assist.h: whether it takes a call of the workers' group, and runs
 * it. */
struct ls_call;
struct ls_reduction;
struct ls_assist_ops {
    bool (*offers)(const struct ls_group *group, const struct ls_reduction *reduction);
    ls_status (*run)(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction);
};
/* Gives a group of workers the group of the same workers and their parameter servers, for large all-reduces. Takes
 * assist. By all workers, before the next call. */
ls_status ls_group_assist(struct ls_group *group, struct ls_group *assist, const struct ls_assist_ops *ops);
int ls_group_servers(const struct ls_group *group);               /* that help it */
struct ls_group *ls_group_assisted(const struct ls_group *group); /* that of ls_group_assist; NULL: there is none */
int ls_group_serving(const struct ls_group *group);               /* servers among its ranks, the highest */
/* True if a connection of the group broke, as it does when a worker is lost. An error of the user's with the same
 * status leaves it false. */
bool ls_group_is_severed(const struct ls_group *group);
/* Marks the group as severed: NCCL, which moves bytes beside the group, has found a broken connection. Any thread. */
void ls_group_sever(struct ls_group *group);
/* Makes a failure between calls the group's, as one of a call: all ranks end with it. By the thread that makes the
 * calls. */
ls_status ls_group_fail(struct ls_group *group, ls_status status);
int ls_group_rank(const struct ls_group *group);
int ls_group_size(const struct ls_group *group);
/* Called by the thread that makes the calls. */
const struct ls_flight *ls_group_flight(const struct ls_group *group);

/* Finds the hosts. A host is a set of ranks that can map each other's memory, and so can add without links between
 * them. The call is collective. It writes the result to the log. With LS_TRANSPORT_SHM it returns FAILED_PRECONDITION
 * with the cause if there are several hosts. Without shared memory every rank is a host of its own. A group calls it
 * once, before the first ls_group_share. */
ls_status ls_group_connect(struct ls_group *group);
/* "shared memory"; the links' "tcp"; "shared memory in 2 hosts of 2 and tcp between them". */
const char *ls_group_describe(const struct ls_group *group);
/* The name of the transport of calls that use the hosts' memory: "shm", "shm+tcp", the links' "tcp"; "none" for one
 * rank. */
const char *ls_group_transport(const struct ls_group *group);
/* The links' "tcp"; "none" for one rank. */
const char *ls_group_links(const struct ls_group *group);
/* True if all ranks share memory. */
bool ls_group_is_one_host(const struct ls_group *group);
/* The number of rank's host: ranks of one share memory. */
int ls_group_host(const struct ls_group *group, int rank);
/* Collective: size zeroed bytes (above 0, each rank its own), aligned to 64. Arrays that lie in such memory of every
 * rank, of the same call, are added fastest. Plain memory where none can be shared. */
ls_status ls_group_share(struct ls_group *group, size_t size, void **memory);
/* Gives the memory back; NULL is ignored. The call is not collective: other ranks keep their mapping until they give it
 * back. The group's end releases the rest. */
void ls_group_unshare(struct ls_group *group, void *memory);

/* The layout of the tree's leaves (replicas) on workers: worker w holds leaves [first[w], first[w + 1]). */
struct ls_leaves {
    const int *first; /* [size + 1]; NULL if every worker has one leaf */
};

struct ls_all_reduce {
    const char *name;
    ls_communication communication; /* LS_RING: chain order; LS_AUTO: the tree over leaves. LS_NCCL is refused */
    ls_reduce_op op;                /* MEAN divides by divisor */
    int divisor;                    /* 0: the number of leaves */
    ls_dtype dtype;
    double prescale, postscale; /* of each input, and of the result; 0: 1. Of floats, with one local leaf only */
    bool is_neutral;            /* this rank's inputs change no result: prescale leaves them out */
    uint64_t list;              /* digest of the list of arrays that this one is of; 0: of none */
    size_t count;
    struct ls_leaves leaves;
    ls_compression compression; /* of the bytes that cross links: LS_SUM and LS_MEAN of LS_FLOAT32 only */
    const void *const *inputs;  /* one array for each local leaf; read only, unless it is an output too */
    void *const *outputs;       /* likewise; each receives the result */
};

struct ls_reduce_scatter {
    const char *name;
    ls_communication communication; /* LS_AUTO: the tree over ranks, the bits of the all-reduce. LS_RING: the chain that
                                       ends at each part's owner. LS_NCCL is refused */
    ls_reduce_op op;                /* MEAN divides by the number of ranks */
    ls_dtype dtype;
    const size_t *counts; /* [size] elements that each rank receives */
    const void *input;    /* the parts of all ranks, in rank order */
    void *output;         /* the own part; may be its place in input, otherwise they do not overlap */
};

struct ls_all_to_all {
    const char *name;
    ls_dtype dtype;
    const void *input; /* the parts for all ranks, in rank order */
    const size_t *send_counts;
    void *output;                 /* the parts from all ranks, in rank order; does not overlap with input */
    const size_t *receive_counts; /* [size] elements, as each rank's send_counts say */
    bool one_way;                 /* of two ranks only one has elements for the other, and does not wait for it */
};
